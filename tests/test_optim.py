"""Optimizers: trajectories against PyTorch and against plain formulas, state, errors, memory layouts."""

import copy
import functools
import itertools

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import nn, optim
from autograd_gpu.backend import optimizers as kernels

SHAPES = [(5, 4), (4,), (), (0, 3), (1, 70000)]  # the last one takes more than one chunk


@functools.cache
def start(seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape) for shape in SHAPES]


def gradients(step):
    return start(1000 + step)


def run(cls, options, steps, device="cpu", dtype=ag.float64):
    params = [ag.tensor(v, dtype=dtype, device=device, requires_grad=True) for v in start()]
    optimizer = getattr(optim, cls)(params, **options)
    for step in range(steps):
        for param, g in zip(params, gradients(step), strict=True):
            param.grad = ag.tensor(g, dtype=dtype, device=device)
        optimizer.step()
    return params, optimizer


SGD = [
    {"lr": 0.1},
    {"lr": 0.1, "weight_decay": 0.05},
    {"lr": 0.1, "maximize": True},
    {"lr": 0.1, "weight_decay": 0.05, "maximize": True},
    *(
        {"lr": 0.1, "momentum": 0.9, "weight_decay": decay, "maximize": maximize, **extra}
        for decay, maximize, extra in itertools.product(
            (0.0, 0.05), (False, True), ({}, {"dampening": 0.3}, {"nesterov": True})
        )
    ),
]
ADAM = [
    {
        "lr": 0.01,
        "betas": (0.8, 0.95),
        "eps": 1e-6,
        "weight_decay": decay,
        "amsgrad": amsgrad,
        "maximize": maximize,
    }
    for decay, amsgrad, maximize in itertools.product((0.0, 0.1), (False, True), (False, True))
]
CASES = [("SGD", o) for o in SGD] + [(cls, o) for cls in ("Adam", "AdamW") for o in ADAM]


@pytest.mark.parametrize(("cls", "options"), CASES)
def test_trajectory_equals_pytorch(cls, options, device):
    torch = pytest.importorskip("torch")
    theirs = [torch.tensor(v, requires_grad=True) for v in start()]
    reference = getattr(torch.optim, cls)(theirs, **options)
    for step in range(50):
        for param, g in zip(theirs, gradients(step), strict=True):
            param.grad = torch.tensor(g)
        reference.step()
    ours, _ = run(cls, options, 50, device)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.numpy(force=True), b.detach().numpy(), rtol=1e-9, atol=1e-11)


def sgd_by_hand(p, gs, lr, momentum, dampening, weight_decay, nesterov):
    buffer = None
    for g in gs:
        g = g + weight_decay * p
        if momentum:
            buffer = g if buffer is None else momentum * buffer + (1 - dampening) * g
            g = g + momentum * buffer if nesterov else buffer
        p = p - lr * g
    return p


@pytest.mark.parametrize(("dampening", "nesterov"), [(0.0, False), (0.5, False), (0.0, True)])
def test_sgd_by_hand(dampening, nesterov, device):
    options = {"lr": 0.1, "momentum": 0.9, "dampening": dampening, "weight_decay": 0.01, "nesterov": nesterov}
    params, _ = run("SGD", options, 5, device)
    for i, (param, p) in enumerate(zip(params, start(), strict=True)):
        expected = sgd_by_hand(p, [gradients(s)[i] for s in range(5)], **options)
        np.testing.assert_allclose(param.numpy(force=True), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("decoupled", [False, True])
def test_adam_by_hand(decoupled, device):
    lr, (b1, b2), eps, decay = 0.01, (0.9, 0.99), 1e-8, 0.1
    options = {"lr": lr, "betas": (b1, b2), "eps": eps, "weight_decay": decay}
    params, _ = run("AdamW" if decoupled else "Adam", options, 5, device)
    for i, (param, p) in enumerate(zip(params, start(), strict=True)):
        m = v = np.zeros_like(p)
        for step in range(5):
            g = gradients(step)[i]
            p, g = (p * (1 - lr * decay), g) if decoupled else (p, g + decay * p)
            m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
            corrected = v / (1 - b2 ** (step + 1))
            p = p - lr * m / (1 - b1 ** (step + 1)) / (np.sqrt(corrected) + eps)
        np.testing.assert_allclose(param.numpy(force=True), p, rtol=1e-12, atol=1e-14)


# ---- dtypes and memory layouts ---------------------------------------------------------------


@pytest.mark.parametrize(("cls", "options"), [("SGD", SGD[-1]), ("Adam", ADAM[-1]), ("SGD", SGD[0])])
@pytest.mark.parametrize(("dtype", "rtol"), [("float32", 1e-4), ("float16", 2e-2), ("bfloat16", 1e-1)])
def test_other_dtypes(cls, options, dtype, rtol, device):
    ours, _ = run(cls, options, 5, device, getattr(ag, dtype))
    exact, _ = run(cls, options, 5, device)
    for a, b in zip(ours, exact, strict=True):
        assert str(a.dtype) == dtype
        np.testing.assert_allclose(a.numpy(force=True).astype(float), b.numpy(force=True), rtol=rtol, atol=rtol)


def layouts(shape):
    """The same values in every memory layout that an array can have."""
    values = np.random.default_rng(0).standard_normal(shape)
    yield values.copy()
    yield np.asfortranarray(values)
    wide = np.zeros((shape[0], 2 * shape[1]))
    wide[:, ::2] = values
    yield wide[:, ::2]
    back = values[::-1].copy()
    yield back[::-1]


@pytest.mark.parametrize("shape", [(7, 5), (3, 70000), (70000, 3), (400, 400)])
def test_memory_layouts(shape):
    p, g, m = start_of = [np.random.default_rng(i).standard_normal(shape) for i in range(3)]
    expected_sgd = p - 0.1 * (0.9 * m + g)
    for param, grad, buffer in itertools.product(*(list(layouts(shape)) for _ in range(3))):
        for array, values in zip((param, grad, buffer), start_of, strict=True):
            array[...] = values
        kernels.sgd_step([param], [grad], [buffer], lr=0.1, momentum=0.9)
        np.testing.assert_allclose(param, expected_sgd, rtol=1e-12, atol=1e-14)
        np.testing.assert_array_equal(grad, g)
        param[...], buffer[...] = p, 0.0
        kernels.sgd_step([param], [grad], [], lr=0.1)
        np.testing.assert_allclose(param, p - 0.1 * g, rtol=1e-12, atol=1e-14)


def test_gradients_are_not_written(device):
    w = ag.ones(3, device=device, requires_grad=True)
    for cls, options in CASES:
        w.grad = ag.full((3,), 2.0, device=device)
        getattr(optim, cls)([w], **options).step()
        assert w.grad.tolist() == [2.0] * 3


def test_read_only_memory_is_not_written():
    array = np.ones(3)
    array.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        kernels.sgd_step([array], [np.ones(3)], [], lr=0.1)
    assert array.tolist() == [1.0] * 3


def test_a_state_of_another_dtype_is_refused():
    w = ag.ones(3, requires_grad=True)
    optimizer = optim.SGD([w], lr=0.1, momentum=0.9)
    w.grad = ag.ones(3)
    optimizer.step()
    layer = nn.Module()
    layer.w = nn.Parameter(ag.ones(3))
    optimizer = optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)
    layer.w.grad = ag.ones(3)
    optimizer.step()
    layer.double()
    with pytest.raises(RuntimeError, match=r"arrays of float32 for a parameter that is .* float64"):
        optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.step()
    assert optimizer.state[layer.w]["momentum_buffer"].dtype == ag.float64


# ---- the step --------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", ["SGD", "Adam", "AdamW"])
def test_step_bumps_versions_and_skips_parameters_without_gradient(cls, device):
    w, idle = (ag.ones(3, device=device, requires_grad=True) for _ in range(2))
    optimizer = getattr(optim, cls)([w, idle], lr=0.1)
    y = (w * w).sum()
    w.grad = ag.ones(3, device=device)
    before = idle._version
    optimizer.step()
    assert idle._version == before
    assert idle.tolist() == [1.0] * 3
    assert idle not in optimizer.state
    assert w.is_leaf
    assert w.requires_grad
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_closure_runs_with_grad(device):
    w = ag.ones(1, device=device, requires_grad=True)
    optimizer = optim.SGD([w], lr=0.25)

    def closure():
        optimizer.zero_grad()
        loss = (w * w).sum()
        loss.backward()
        return loss

    with ag.no_grad():
        assert optimizer.step(closure).item() == 1.0
    assert w.tolist() == [0.5]


def test_zero_grad():
    w = ag.ones(1, requires_grad=True)
    optimizer = optim.SGD([w], lr=0.25)
    w.sum().backward()
    held = w.grad
    optimizer.zero_grad(set_to_none=False)
    assert w.grad is held
    assert held.tolist() == [0.0]
    optimizer.zero_grad()
    assert w.grad is None
    optimizer.step()
    assert w.tolist() == [1.0]


def test_groups_have_their_own_options():
    a, b = (ag.ones(1, requires_grad=True) for _ in range(2))
    optimizer = optim.SGD([{"params": [a]}, {"params": b, "lr": 0.5}], lr=0.1)
    for _ in range(2):
        a.grad, b.grad = ag.ones(1), ag.ones(1)
        optimizer.step()
        optimizer.param_groups[1]["lr"] = 0.25
    assert a.tolist() == pytest.approx([0.8])
    assert b.tolist() == pytest.approx([0.25])
    assert "lr: 0.25" in repr(optimizer)


@pytest.mark.parametrize("cls", ["SGD", "Adam"])
def test_training_reduces_the_loss_and_repeats(cls, device):
    def losses():
        ag.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)
        x = ag.randn(64, 4, device=device)
        y = x.sum(1, keepdim=True)
        optimizer = getattr(optim, cls)(net.parameters(), lr=0.05)
        result = []
        for _ in range(60):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(net(x), y)
            loss.backward()
            optimizer.step()
            result.append(loss.item())
        return result

    first = losses()
    assert first[-1] < 0.1 * first[0]
    assert losses() == first


# ---- state -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("cls", "options"), [("SGD", SGD[-1]), ("Adam", ADAM[-1]), ("AdamW", ADAM[0])])
def test_state_dict_continues_the_trajectory(cls, options, device):
    params, optimizer = run(cls, options, 3, device)
    state = copy.deepcopy(optimizer.state_dict())
    twins = [ag.tensor(p.detach().array, requires_grad=True) for p in params]
    twin = getattr(optim, cls)(twins, lr=7.0)
    twin.load_state_dict(state)
    for step in range(3, 6):
        for group in (params, twins):
            for param, g in zip(group, gradients(step), strict=True):
                param.grad = ag.tensor(g, device=device)
        optimizer.step()
        twin.step()
    for a, b in zip(params, twins, strict=True):
        assert a.tolist() == b.tolist()
    assert state["state"][0] is not twin.state[twins[0]]


def test_state_dict_has_pytorchs_layout():
    torch = pytest.importorskip("torch")
    for cls, options in (("SGD", SGD[-1]), ("Adam", ADAM[-1])):
        _, optimizer = run(cls, options, 2)
        ours = optimizer.state_dict()
        params = [torch.tensor(v, requires_grad=True) for v in start()]
        reference = getattr(torch.optim, cls)(params, **options)
        for param, g in zip(params, gradients(0), strict=True):
            param.grad = torch.tensor(g)
        reference.step()
        theirs = reference.state_dict()
        assert ours["state"].keys() == theirs["state"].keys()
        assert ours["state"][0].keys() == theirs["state"][0].keys()
        assert ours["param_groups"][0].items() <= theirs["param_groups"][0].items()


def test_load_state_dict_errors_change_nothing():
    w = ag.ones(2, requires_grad=True)
    optimizer = optim.Adam([w], lr=0.1)
    good = optimizer.state_dict()
    cases = [
        ({**good, "param_groups": good["param_groups"] * 2}, "different number of parameter groups"),
        ({**good, "param_groups": [{**good["param_groups"][0], "params": [0, 1]}]}, "doesn't match the size"),
        (optim.SGD([w]).state_dict(), "lacks the options betas, eps, amsgrad of Adam"),
        ({**good, "param_groups": [{**good["param_groups"][0], "lr": -1.0}]}, "Invalid learning rate: -1.0"),
        ({**good, "state": {0: {"step": 1, "exp_avg": ag.zeros(3)}}}, r"'exp_avg' has shape \(3,\)"),
    ]
    for bad, message in cases:
        with pytest.raises(ValueError, match=message):
            optimizer.load_state_dict(bad)
        assert not optimizer.state
        assert optimizer.param_groups[0]["lr"] == 0.1


# ---- errors ----------------------------------------------------------------------------------


def test_parameter_errors():
    w = ag.ones(2, requires_grad=True)
    with pytest.raises(ValueError, match="optimizer got an empty parameter list"):
        optim.SGD([])
    with pytest.raises(TypeError, match="iterable of Tensors or dicts, but got Tensor"):
        optim.SGD(w)
    with pytest.raises(TypeError, match="can only optimize Tensors, but one of the params is int"):
        optim.SGD([3])
    with pytest.raises(ValueError, match="can't optimize a non-leaf Tensor"):
        optim.SGD([w * 2])
    with pytest.raises(TypeError, match="floating point Tensors, but one of the params is int64"):
        optim.SGD([ag.tensor([1])])
    with pytest.raises(ValueError, match="duplicate parameters"):
        optim.SGD([w, w])
    with pytest.raises(ValueError, match="appear in more than one parameter group"):
        optim.SGD([{"params": [w]}, {"params": [w]}])
    with pytest.raises(TypeError, match="ordered collections"):
        optim.SGD([{"params": {w}}])
    with pytest.raises(TypeError, match="param_group must be a dict"):
        optim.SGD([w]).add_param_group([w])


@pytest.mark.parametrize(
    ("cls", "options", "message"),
    [
        ("SGD", {"lr": -1}, "Invalid learning rate: -1"),
        ("SGD", {"lr": float("nan")}, "Invalid learning rate: nan"),
        ("SGD", {"momentum": -0.1}, "Invalid momentum value: -0.1"),
        ("SGD", {"weight_decay": -2}, "Invalid weight_decay value: -2"),
        ("SGD", {"nesterov": True}, "Nesterov momentum requires a momentum and zero dampening"),
        ("Adam", {"lr": -1}, "Invalid learning rate: -1"),
        ("Adam", {"eps": -1}, "Invalid epsilon value: -1"),
        ("Adam", {"betas": (1.0, 0.9)}, "Invalid beta parameter at index 0: 1.0"),
        ("AdamW", {"betas": (0.9, -1)}, "Invalid beta parameter at index 1: -1"),
        ("AdamW", {"weight_decay": -1}, "Invalid weight_decay value: -1"),
    ],
)
def test_option_errors(cls, options, message):
    w = ag.ones(2, requires_grad=True)
    with pytest.raises(ValueError, match=message):
        getattr(optim, cls)([w], **options)


def test_lr_as_a_tensor_is_refused():
    with pytest.raises(TypeError, match="lr as a Tensor is not supported"):
        optim.SGD([ag.ones(2, requires_grad=True)], lr=ag.tensor(0.1))


def test_a_gradient_of_another_kind_is_refused():
    layer = nn.Linear(2, 2)
    optimizer = optim.SGD(layer.parameters(), lr=0.1)
    layer(ag.ones(1, 2)).sum().backward()
    stale = layer.weight.grad
    layer.weight.grad = None
    layer.double()
    layer.weight._grad = stale
    with pytest.raises(RuntimeError, match="another dtype than the parameter: float32, expected float64"):
        optimizer.step()
