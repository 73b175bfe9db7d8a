"""Optimizers and clipping on CUDA: by one launch for many parameters, with the results of the formulas."""

import numpy as np
import pytest
from optim_cases import OPTIONS, gradients, make

import autograd_gpu as ag
from autograd_gpu import nn, optim, profiler
from autograd_gpu.backend import to_numpy
from autograd_gpu.backend.cuda import runtime
from autograd_gpu.backend.kernels import array_lists
from autograd_gpu.backend.kernels.constants import MOST_ARRAYS
from autograd_gpu.backend.optimizers import fused

pytestmark = [pytest.mark.cuda, pytest.mark.smoke]
LISTED = [(cls, options) for cls in ("SGD", "Adam", "AdamW") for options in OPTIONS[cls]]
HALVES = (ag.float16, ag.bfloat16)


def launches(call):
    with profiler.count() as counts:
        call()
    return dict(counts.launches)


def drawn(sizes, dtype=ag.float32, device="cuda", seed=0):
    rng = np.random.default_rng(seed)
    return [ag.tensor(rng.standard_normal(size), dtype=dtype, device=device, requires_grad=True) for size in sizes]


def set_grads(params, seed=1):
    for param, grad in zip(params, drawn([p.shape for p in params], seed=seed, device="cpu"), strict=True):
        param.grad = grad.detach().to(param.device, param.dtype)


def assert_alike(params, others, rtol=1e-5):
    for param, other in zip(params, others, strict=True):
        results, expected = [to_numpy(t.detach().array).astype(np.float64) for t in (param, other)]
        np.testing.assert_allclose(results, expected, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("dtype", [ag.float32, ag.float64, *HALVES], ids=str)
@pytest.mark.parametrize(("cls", "options"), LISTED)
def test_steps_are_those_of_the_cpu(cls, options, dtype):
    results = []
    for device in ("cuda", "cpu"):
        params, optimizer = make(cls, options, device, dtype)
        for step in range(2):
            for param, g in zip(params, gradients(step), strict=True):
                param.grad = ag.tensor(g, dtype=dtype, device=device)
            with profiler.count() as counts:
                optimizer.step()
        assert sum(counts.launches.values()) == (device == "cuda")
        states = [t for p in params for t in optimizer.state[p].values() if isinstance(t, ag.Tensor)]
        results.append([*params, *states])
    assert_alike(*results, rtol={ag.float64: 1e-12, ag.float32: 2e-5, ag.float16: 4e-3}.get(dtype, 3e-2))


@pytest.mark.parametrize("sizes", [[(5, 7)] * 100, [(n % 70,) for n in range(260)]], ids=["100", "260"])
def test_one_launch_for_as_many_parameters_as_its_arguments_hold(sizes):
    params, others = drawn(sizes), drawn(sizes, device="cpu")
    for cls, lists in ((optim.Adam, 4), (optim.SGD, 2)):
        optimizers = cls(params), cls(others)
        for _ in range(2):
            set_grads(params)
            set_grads(others)
            counted = launches(optimizers[0].step)
            optimizers[1].step()
            assert list(counted.values()) == [-(-len(sizes) // MOST_ARRAYS[lists])]
    assert_alike(params, others)


def test_one_launch_per_dtype_and_step_count():
    """Parameters that have missed a step have other bias corrections."""
    params = drawn([(3,), (4, 2), ()]) + drawn([(5,), (6,)], ag.float64) + drawn([(7,)], ag.bfloat16)
    others = [p.detach().cpu().requires_grad_() for p in params]
    both = [(params, optim.AdamW(params)), (others, optim.AdamW(others))]
    for missing, expected in (((), 3), ((1, 3), 3), ((), 5)):
        for mine, optimizer in both:
            set_grads(mine)
            for i in missing:
                mine[i].grad = None
            counted = launches(optimizer.step)
            assert counted == ({"adam_step": expected} if mine is params else {})
    assert_alike(params, others, rtol=3e-2)
    assert_alike(params[:5], others[:5])


@pytest.mark.parametrize("cls", ["SGD", "Adam"])
def test_memory_that_is_freed_and_taken_again(cls):
    """New parameters at the addresses of dead ones, of other sizes; gradients that are new at every step."""
    options = {"momentum": 0.9} if cls == "SGD" else {}
    for sizes in ([40, 3, 17], [3, 40, 17], [17, 17, 17], [40, 3, 17]):
        params, others = drawn([(n,) for n in sizes]), drawn([(n,) for n in sizes], device="cpu")
        mine, theirs = getattr(optim, cls)(params, **options), getattr(optim, cls)(others, **options)
        for seed in range(3):
            set_grads(params, seed)
            set_grads(others, seed)
            mine.step()
            theirs.step()
        assert_alike(params, others)
        del params, mine


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_parameters_that_share_memory_are_stepped_in_order(momentum):
    memory, parts = ag.ones(8), (slice(0, 6), slice(4, 8))
    params = [memory[part].detach().requires_grad_() for part in parts]
    optimizer = optim.SGD(params, lr=0.5, momentum=momentum, weight_decay=0.5)
    expected, buffers = np.ones(8), [np.zeros(6), np.zeros(4)]
    for _ in range(2):
        for param, part, buffer in zip(params, parts, buffers, strict=True):
            param.grad = ag.ones(len(param))
            buffer[...] = momentum * buffer + 1 + 0.5 * expected[part]
            expected[part] -= 0.5 * buffer
        assert not launches(optimizer.step)
    np.testing.assert_allclose(memory.cpu().numpy(), expected, rtol=1e-6)


def test_a_gradient_that_parameters_share():
    params, others = drawn([(6,), (6,)]), drawn([(6,), (6,)], device="cpu")
    for mine in (params, others):
        mine[0].grad = mine[1].grad = ag.arange(6, dtype=ag.float32, device=mine[0].device)
        optimizer = optim.Adam(mine)
        assert launches(optimizer.step) == ({"adam_step": 1} if mine is params else {})
    assert_alike(params, others)


@pytest.mark.parametrize(("cls", "options"), [("SGD", {}), ("SGD", {"momentum": 0.9}), ("Adam", {"amsgrad": True})])
def test_layouts(cls, options):
    """Parameters that are not contiguous go by their formula, the others by one launch; gradients are copied."""
    def layouts(device):
        a, b, c = [ag.tensor(np.arange(12.0).reshape(3, 4) / (i + 1), device=device) for i in range(3)]
        return [a.T.detach().requires_grad_(), b[:, ::2].detach().requires_grad_(), c.requires_grad_()]

    params, others = layouts("cuda"), layouts("cpu")
    for mine in (params, others):
        optimizer = getattr(optim, cls)(mine, **options)
        for _ in range(2):
            for i, param in enumerate(mine):
                g = ag.arange(float(param.numel()), device=param.device, dtype=param.dtype)
                param.grad = g.reshape(*reversed(param.shape)).T if i == 2 else g.reshape(*param.shape)
            counted = launches(optimizer.step)
        assert list(counted.values()) == ([1] if mine is params else [])
    assert_alike(params, others, rtol=1e-12)


@pytest.mark.parametrize("transposed", [False, True])
def test_a_step_makes_no_transfer(transposed, monkeypatch):
    """The addresses of new gradients are parameters of the launch."""
    params = drawn([(5, 7)] * 70)
    optimizer = optim.Adam(params)
    for _ in range(3):
        set_grads(params)
        if transposed:
            params[3].grad = ag.ones(7, 5, device="cuda").T
        with monkeypatch.context() as patch:
            patch.setattr(runtime.cupy(), "asarray", lambda *arguments: pytest.fail("a transfer"))
            assert launches(optimizer.step) == {"adam_step": 1}


@pytest.mark.parametrize("foreach", [False, True])
def test_a_captured_step(foreach):
    """What a replay does to the state is what a step does, but for the step count, which a capture fixes."""
    xp, results = runtime.cupy(), []
    for captured in (True, False):
        params = drawn([(5, 7), (3,)])
        optimizer = optim.SGD(params, lr=0.1, momentum=0.9, foreach=foreach)
        set_grads(params)
        optimizer.step()  # compiles, and makes the buffers
        xp.cuda.Device().synchronize()
        with xp.cuda.Stream(non_blocking=True) as stream:
            if captured:
                stream.begin_capture()
                optimizer.step()
                graph = stream.end_capture()
            for _ in range(3):
                graph.launch() if captured else optimizer.step()
            stream.synchronize()
        results.append(params)
    assert_alike(*results, rtol=0)


def test_parameters_are_looked_at_once(monkeypatch):
    params = drawn([(5, 7)] * 4)
    optimizer = optim.Adam(params)
    looked, look = [], array_lists._look
    monkeypatch.setattr(array_lists, "_look", lambda arrays, *rest: looked.append(arrays) or look(arrays, *rest))
    for _ in range(3):
        set_grads(params)
        del looked[:]
        optimizer.step()
    assert len(looked) == 1
    assert all(array is p.grad.array for array, p in zip(looked[0], params, strict=True))


@pytest.mark.parametrize("replaced", [0, 2])
def test_arrays_that_replace_others_are_looked_at(replaced):
    """Of the same shape, so that the memory, and the object's id, may be those of the array before."""
    params, others = drawn([(6,)] * 3), drawn([(6,)] * 3, device="cpu")
    for mine in (params, others):
        optimizer = optim.Adam(mine)
        for seed in range(4):
            set_grads(mine, seed)
            optimizer.step()
            param = mine[replaced]
            param.data = ag.full((6,), float(seed), device=param.device)
            state = optimizer.state[param]
            optimizer.load_state_dict(optimizer.state_dict())  # new arrays for all states
            assert optimizer.state[param] is not state
    assert_alike(params, others)


@pytest.mark.parametrize("cls", ["SGD", "Adam"])
def test_no_gradients_no_launch(cls):
    params = drawn([(3,), (4,)])
    assert not launches(getattr(optim, cls)(params).step)


def test_parameters_on_two_devices():
    params = [*drawn([(3,), (4,)]), *drawn([(3,), (4,)], device="cpu")]
    optimizer = optim.Adam(params)
    for _ in range(2):
        set_grads(params[:2])
        set_grads(params[2:])
        assert launches(optimizer.step) == {"adam_step": 1}
    assert_alike(params[:2], params[2:])


def test_step_in_backward_steps_each_parameter_by_a_launch():
    nets = []
    for device in ("cuda", "cpu"):
        ag.manual_seed(0)
        net = nn.Sequential(nn.Linear(5, 4, device="cpu"), nn.Tanh(), nn.Linear(4, 1, device="cpu")).to(device)
        optim.step_in_backward(optimizer := optim.Adam(net.parameters(), lr=0.1))
        for _ in range(3):
            loss = net(ag.ones(2, 5, device=device)).sum()
            counted = launches(loss.backward)
        assert counted.get("adam_step", 0) == (4 if device == "cuda" else 0)
        nets.append((net, optimizer))
    assert_alike(list(nets[0][0].parameters()), list(nets[1][0].parameters()))


@pytest.mark.parametrize("plain", [True, False])
def test_a_launch_that_fails_leaves_parameters_and_state(plain, monkeypatch):
    params = drawn([(3,), (4,)])
    optimizer = optim.SGD(params) if plain else optim.Adam(params)
    set_grads(params)
    optimizer.step()
    before = [p.detach().clone() for p in params]

    def fail(*arguments, **options):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(fused.kernels, "tensor_lists", fail)
        with pytest.raises(MemoryError):
            optimizer.step()
    assert_alike(params, before, rtol=0)
    if not plain:
        assert [optimizer.state[p]["step"] for p in params] == [1, 1]


# ---- clipping --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm_type", [1, 2, float("inf"), 3])
@pytest.mark.parametrize("dtypes", [(ag.float32,), (ag.float16, ag.float64, ag.float32)], ids=["one", "mixed"])
def test_clipping_is_that_of_the_cpu(norm_type, dtypes):
    sizes = [(3,), (0, 4), (), (20000,), (5, 6)]
    both = [[p for i, dtype in enumerate(dtypes) for p in drawn(sizes, dtype, device, i)] for device in ("cuda", "cpu")]
    totals = []
    for params in both:
        set_grads(params)
        with profiler.count() as counts:
            totals.append(nn.utils.clip_grad_norm_(params, 0.5, norm_type))
        if params[0].is_cuda:
            listed = 3 if norm_type != 3 else 1  # norm, total and scaling
            assert sum(counts.launches.values()) == listed * len(dtypes)
    assert totals[0].dtype == totals[1].dtype
    assert totals[0].shape == ()
    assert_alike(totals[:1], totals[1:])
    assert_alike([p.grad for p in both[0]], [p.grad for p in both[1]], rtol=1e-5 if len(dtypes) == 1 else 2e-3)


def test_clipping_bumps_versions_and_leaves_small_gradients():
    params = drawn([(3,), (4,)])
    set_grads(params)
    before = [p.grad.clone() for p in params]
    versions = [p.grad._version for p in params]
    nn.utils.clip_grad_norm_(params, 100.0)
    assert_alike([p.grad for p in params], before, rtol=0)
    assert [p.grad._version for p in params] == [version + 1 for version in versions]


def test_clipping_with_a_norm_of_another_kind():
    """On the host, of a half type: gradients are scaled as before, if not by a kernel."""
    for norm in (ag.tensor(4.0, device="cpu"), ag.tensor(4.0, dtype=ag.float16), ag.tensor([4.0], dtype=ag.float64)):
        params = drawn([(3,), (4,)])
        set_grads(params)
        expected = [p.grad / 4 for p in params]
        nn.utils.clip_grads_with_norm_(params, 1.0, norm)
        assert_alike([p.grad for p in params], expected, rtol=1e-3)


def test_clipping_gradients_that_overlap_or_are_not_contiguous():
    params = drawn([(4, 3), (3, 4), (4,), (4,)])
    set_grads(params)
    params[0].grad = params[1].grad.detach().clone().T
    params[3].grad = params[2].grad
    others = [p.detach().cpu().requires_grad_() for p in params]
    for param, other in zip(params, others, strict=True):
        other.grad = param.grad.detach().cpu()
    others[3].grad = others[2].grad
    totals = [nn.utils.clip_grad_norm_(tensors, 0.5) for tensors in (params, others)]
    assert_alike(totals[:1], totals[1:])
    assert_alike([p.grad for p in params], [p.grad for p in others])


def test_clipping_leaves_saved_gradients_alone():
    """Under allow_mutation_on_saved_tensors whoever saved a gradient keeps what it was."""
    params = drawn([(3,)])
    set_grads(params)
    x = ag.ones(3, device="cuda", requires_grad=True)
    with ag.autograd.graph.allow_mutation_on_saved_tensors():
        expected = params[0].grad.clone()
        y = (x * params[0].grad).sum()
        nn.utils.clip_grad_norm_(params, 0.1)
        y.backward()
    assert_alike([x.grad], [expected], rtol=0)


# ---- other lists -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [ag.float32, ag.bfloat16], ids=str)
def test_clipping_of_values_is_one_launch(dtype):
    params, others = drawn([(3,), (0,), (4, 5)], dtype), drawn([(3,), (0,), (4, 5)], dtype, "cpu")
    for tensors in (params, others):
        set_grads(tensors)
        tensors[0].grad[0] = float("nan")
        versions = [p.grad._version for p in tensors]
        counted = launches(lambda tensors=tensors: nn.utils.clip_grad_value_(tensors, 0.3))
        assert counted == ({"foreach_clamp": 1} if tensors is params else {})
        assert [p.grad._version for p in tensors] == [version + 1 for version in versions]
    assert_alike([p.grad for p in params], [p.grad for p in others], rtol=0)


def test_averages_of_weights_are_one_launch():
    results = []
    for device in ("cuda", "cpu"):
        net = nn.Sequential(nn.Linear(3, 4, device="cpu"), nn.Linear(4, 2, device="cpu")).to(device)
        with ag.no_grad():
            for i, p in enumerate(net.parameters()):
                p.fill_(i + 1.0)
        net.register_buffer("count", ag.tensor(8, device=device))
        net.register_buffer("wide", ag.arange(12.0, device=device).reshape(3, 4).T)
        ema = optim.swa_utils.AveragedModel(net, device, multi_avg_fn=optim.swa_utils.get_ema_multi_avg_fn(0.75),
                                            use_buffers=True)  # fmt: skip
        for _ in range(2):
            with ag.no_grad():
                for p in [*net.parameters(), *net.buffers()]:
                    p += 4
            counted = launches(lambda ema=ema, net=net: ema.update_parameters(net))
        assert counted == ({"foreach_lerp": 1} if device == "cuda" else {})
        results.append([*ema.module.parameters(), *ema.module.buffers()])
    assert_alike(*results)


def test_averages_of_tensors_that_do_not_fit_are_refused():
    update = optim.swa_utils.get_ema_multi_avg_fn(0.5)
    with pytest.raises(ValueError, match="broadcast"):
        update([ag.ones(2, 3)], [ag.ones(3, 2)], 2)
