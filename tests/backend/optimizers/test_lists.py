"""Optimizer steps on lists of CUDA arrays: results, launches, and the choice by `foreach` and `fused`."""

import numpy as np
import pytest
from optim_cases import CASES, ONE_EACH, OPTIONS, gradients, make

import autograd_gpu as ag
from autograd_gpu import optim, profiler
from autograd_gpu.backend import kernels, to_numpy

pytestmark = [pytest.mark.cuda, pytest.mark.smoke]
KERNELS = {"SGD": "sgd_step", "Adam": "adam_step", "AdamW": "adam_step"}
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
    result, launches = stepped(cls, {**options, "foreach": True}, "cuda")
    expected, _ = stepped(cls, options, "cpu")
    assert launches
    assert all(name.startswith("foreach_") for name in launches)
    for ours, theirs in zip(result, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("cls", "options"), ONE_EACH)
def test_other_dtypes(cls, options, dtype):
    results = [stepped(cls, {**options, "foreach": True}, device, getattr(ag, dtype))[0] for device in ("cuda", "cpu")]
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=RTOL[dtype], atol=RTOL[dtype])


@pytest.mark.parametrize("cls", OPTIONS)
def test_the_way_of_a_step(cls):
    ways = {"best": {}, "foreach": {"foreach": True}, "loop": {"foreach": False}}
    if cls in KERNELS:
        ways.update(fused={"fused": True}, also_loop={"fused": False})
    result = {name: stepped(cls, way, "cuda", steps=1) for name, way in ways.items()}
    launches = {name: counts for name, (_, counts) in result.items()}
    assert launches["loop"] == launches.get("also_loop", {}) == {}
    assert all(name.startswith("foreach_") for name in launches["foreach"])
    assert launches["best"] == ({KERNELS[cls]: 1} if cls in KERNELS else launches["foreach"])
    assert launches.get("fused", launches["best"]) == launches["best"]
    for results, _ in result.values():
        for ours, theirs in zip(results, result["loop"][0], strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("cls", OPTIONS)
def test_launches_do_not_grow_with_the_number_of_parameters(cls):
    seen = []
    for count in (2, 50):
        params = [ag.ones(3, device="cuda", requires_grad=True) for _ in range(count)]
        optimizer = getattr(optim, cls)(params, foreach=True)
        for param in params:
            param.grad = ag.ones(3, device="cuda")
        with profiler.count() as counts:
            optimizer.step()
        seen.append(dict(counts.launches))
    assert seen[0] == seen[1]
    assert sum(seen[0].values()) <= 16


def test_adagrad_has_no_fused_kernel_on_cuda():
    """As in PyTorch, whose fused Adagrad is for the CPU."""
    for device in ("cpu", "cuda"):
        param = ag.ones(2, device=device, requires_grad=True)
        optimizer = optim.Adagrad([param], lr=0.5, fused=True)
        param.grad = ag.ones(2, device=device)
        if device == "cpu":
            optimizer.step()
            assert param.tolist() == [0.5, 0.5]
        else:
            with pytest.raises(RuntimeError, match=r"`fused=True` requires .* \['cpu'\]; .* leave fused None"):
                optimizer.step()
            assert param.tolist() == [1.0, 1.0]
            assert optimizer.state[param].get("step", 0) == 0


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

    prepared, calls = kernels.prepared_foreach, []

    def fail(*arguments, **options):
        """As the third table would without memory: the formula has asked for two launches before."""
        calls.append(arguments)
        if len(calls) == 3:
            raise MemoryError
        return prepared(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(kernels, "prepared_foreach", fail)
        with pytest.raises(MemoryError):
            optimizer.step()
    assert [(param.tolist(), optimizer.state[param]["sum"].tolist()) for param in params] == before
    assert [optimizer.state[param]["step"] for param in params] == [1, 1, 1]
