"""Steps of all optimizers on lists of CUDA arrays: results, launches, and the choice by `foreach` and `fused`."""

import numpy as np
import pytest
from optim_cases import CASES, ONE_EACH, OPTIONS, gradients, make

import autograd_gpu as ag
from autograd_gpu import optim, profiler
from autograd_gpu.backend import kernels, to_numpy

pytestmark = [pytest.mark.cuda, pytest.mark.smoke]
RTOL = {"float64": 1e-12, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}


def stepped(cls, options, device, dtype=ag.float64, steps=2):
    """Parameters and state arrays after steps, and the launches of the last one."""
    params, optimizer = make(cls, options, device, dtype)
    for step in range(steps):
        for param, g in zip(params, gradients(step), strict=True):
            param.grad = ag.tensor(g, dtype=dtype, device=device)
        with profiler.count() as counts:
            optimizer.step()
    states = [t for p in params for t in optimizer.state[p].values() if isinstance(t, ag.Tensor)]
    return [to_numpy(t.detach().array).astype(np.float64) for t in [*params, *states]], dict(counts.launches)


@pytest.mark.parametrize(("cls", "options"), CASES)
def test_steps_on_lists_are_those_of_the_cpu(cls, options):
    result, launches = stepped(cls, options, "cuda")
    expected, _ = stepped(cls, options, "cpu")
    assert launches == {f"{getattr(optim, cls)._ag_formula.name}_step": 1}
    for ours, theirs in zip(result, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("cls", "options"), ONE_EACH)
def test_other_dtypes(cls, options, dtype):
    results = [stepped(cls, options, device, getattr(ag, dtype))[0] for device in ("cuda", "cpu")]
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=RTOL[dtype], atol=RTOL[dtype])


@pytest.mark.parametrize("cls", OPTIONS)
def test_the_way_of_a_step(cls):
    ways = {"best": {}, "foreach": {"foreach": True}, "loop": {"foreach": False}}
    if "fused" in make(cls, {}, "cpu")[1].defaults:
        ways.update(fused={"fused": True}, also_loop={"fused": False}, either={"fused": False, "foreach": True})
    result = {name: stepped(cls, way, "cuda", steps=1) for name, way in ways.items()}
    for name, (tensors, counts) in result.items():
        assert sum(counts.values()) == (0 if "loop" in name else 1)
        for ours, theirs in zip(tensors, result["loop"][0], strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-13)


def test_arrays_that_do_not_fit_go_one_by_one():
    """Parameters that overlap, and ones that are not contiguous beside others that are."""
    memory = ag.zeros(8, device="cuda")
    overlapping = [memory[:6].detach().requires_grad_(), memory[4:].detach().requires_grad_()]
    strided = [t.detach().requires_grad_() for t in (ag.zeros(3, 4, device="cuda").T, ag.zeros(5, device="cuda"))]
    for params, listed in ((overlapping, False), (strided, True)):
        optimizer = optim.RMSprop(params, lr=0.1)
        for param in params:
            param.grad = ag.ones(param.shape, device="cuda")
        with profiler.count() as counts:
            optimizer.step()
        assert bool(counts.launches) == listed
    np.testing.assert_allclose(memory.tolist(), [-1.0] * 4 + [-2.0] * 2 + [-1.0] * 2, rtol=1e-5)
    assert all(np.allclose(param.numpy(force=True), -1.0) for param in strided)


def test_a_step_without_memory_leaves_parameters_and_state(monkeypatch):
    params = [ag.ones(3, device="cuda", requires_grad=True) for _ in range(3)]
    optimizer = optim.Adagrad(params)
    for param in params:
        param.grad = ag.ones(3, device="cuda")
    optimizer.step()
    before = [(param.tolist(), optimizer.state[param]["sum"].tolist()) for param in params]

    def fail(*arguments, **options):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(kernels, "over", fail)
        with pytest.raises(MemoryError):
            optimizer.step()
    assert [(param.tolist(), optimizer.state[param]["sum"].tolist()) for param in params] == before
    assert [optimizer.state[param]["step"] for param in params] == [1, 1, 1]
