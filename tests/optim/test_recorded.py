"""Steps with differentiable=True: derivatives by differences and by PyTorch, unrolled steps, what is refused."""

import copy

import numpy as np
import pytest
from optim_cases import CASES, ONE_EACH, OPTIONS

import autograd_gpu as ag
from autograd_gpu import nn, optim
from autograd_gpu.autograd.graph import allow_mutation_on_saved_tensors

# What a step may start with besides a parameter and a gradient: states that are tensors, and those that are numbers.
STATES = {
    "SGD": lambda options: ["momentum_buffer"] if options.get("momentum") else [],
    "Adam": lambda options: ["exp_avg", "exp_avg_sq"] + ["max_exp_avg_sq"] * options.get("amsgrad", False),
    "AdamW": lambda options: ["exp_avg", "exp_avg_sq"] + ["max_exp_avg_sq"] * options.get("amsgrad", False),
    "Adamax": lambda options: ["exp_avg", "exp_inf"],
    "NAdam": lambda options: ["exp_avg", "exp_avg_sq"],
    "RAdam": lambda options: ["exp_avg", "exp_avg_sq"],
    "RMSprop": lambda options: [
        "square_avg", *["momentum_buffer"] * bool(options["momentum"]), *["grad_avg"] * options["centered"]
    ],
    "Adagrad": lambda options: ["sum"],
    "Adadelta": lambda options: ["square_avg", "acc_delta"],
    "ASGD": lambda options: ["ax"],
    "Rprop": lambda options: ["prev", "step_size"],
}  # fmt: skip
NUMBERS = {"NAdam": {"mu_product": 0.4}, "ASGD": {"eta": 0.02, "mu": 0.5}}


def values(names, seed=0, shape=(2, 3)):
    """Values of a parameter, its gradient and `names`; squares and sizes are positive."""
    rng = np.random.default_rng(seed)
    signed = {"momentum_buffer", "exp_avg", "ax", "prev", "grad_avg"}
    states = [rng.standard_normal(shape) * 0.1 if name in signed else rng.random(shape) + 0.5 for name in names]
    return [rng.standard_normal(shape), rng.standard_normal(shape), *states]


def stepped(library, cls, options, names, param, grad, *states, steps=1, number=float, averaged=True):
    """The parameter and the states in `names` after steps from `states`."""
    param = param.clone()
    optimizer = getattr(library.optim, cls)([param], differentiable=True, **options)
    if names:
        numbers = {"step": 7, **NUMBERS.get(cls, {})} if cls != "SGD" else {}
        if not averaged and cls == "ASGD":
            numbers["mu"] = 1.0
        optimizer.state[param] = {
            **{name: number(value) for name, value in numbers.items()},
            **{name: state.clone() for name, state in zip(names, states, strict=True)},
        }
    for i in range(steps):
        param.grad = grad * (1 + i)
        optimizer.step()
    return [param, *[optimizer.state[param][name] for name in names]]


@pytest.mark.parametrize(("cls", "options"), CASES)
def test_derivatives_of_a_step_by_differences(cls, options, device):
    if device != "cpu" and (cls, options) not in ONE_EACH:
        pytest.skip("one case of each optimizer is enough on CUDA: all are the same ops")
    names = STATES[cls](options)
    inputs = [ag.tensor(v, device=device, requires_grad=True) for v in values(names)]
    lr = ag.tensor(options.get("lr", 0.05), dtype=ag.float64, requires_grad=True)

    def step(lr, *tensors):
        return tuple(stepped(ag, cls, {**options, "lr": lr}, names, *tensors, steps=2, number=lambda n: n))

    assert ag.autograd.gradcheck(step, (lr, *inputs))
    if (cls, options) in ONE_EACH and device == "cpu":
        assert ag.autograd.gradgradcheck(step, (lr, *inputs))


@pytest.mark.cpu
@pytest.mark.parametrize(("cls", "options"), CASES)
def test_derivatives_of_a_step_are_those_of_pytorch(cls, options):
    """Its ASGD writes to the weight of the mean that its graph has saved, so here the mean has not begun."""
    torch = pytest.importorskip("torch")
    names, result = STATES[cls](options), []
    for library in (ag, torch):
        inputs = [library.tensor(v, dtype=library.float64, requires_grad=True) for v in values(names)]
        number = (lambda n: n) if library is ag else (lambda n: torch.tensor(n, dtype=torch.float64))
        outputs = stepped(library, cls, options, names, *inputs, number=number, averaged=False)
        total = sum((out * (i + 1)).square().sum() for i, out in enumerate(outputs))
        gradients = library.autograd.grad(total, inputs, allow_unused=True)
        result.append([*outputs, *[input * 0 if g is None else g for input, g in zip(inputs, gradients, strict=True)]])
    for ours, theirs in zip(*result, strict=True):
        np.testing.assert_allclose(ours.numpy(force=True), theirs.detach().numpy(), rtol=1e-9, atol=1e-12)


TENSOR_OPTIONS = [
    ("SGD", {"lr": 0.1}), ("SGD", {"lr": 0.1, "weight_decay": 0.2}), ("SGD", {"lr": 0.1, "momentum": (0.9,)}),
    ("Adam", {"lr": 0.1, "betas": (0.9, 0.99), "weight_decay": 0.1}), ("AdamW", {"lr": 0.1, "betas": (0.8, 0.95)}),
]  # fmt: skip


@pytest.mark.parametrize(("cls", "options"), TENSOR_OPTIONS)
def test_hyperparameters_that_pytorch_takes_as_tensors(cls, options):
    torch, result = pytest.importorskip("torch"), []
    for library in (ag, torch):
        made = []

        def leaf(value, library=library, made=made):
            if isinstance(value, tuple):
                return value[0] if len(value) == 1 else tuple(map(leaf, value))
            made.append(library.tensor(value, dtype=library.float64, requires_grad=True))
            return made[-1]

        taken = {name: leaf(value) for name, value in options.items()}
        names = STATES[cls](options)
        number = (lambda n: n) if library is ag else (lambda n: torch.tensor(n, dtype=torch.float64))
        inputs = [library.tensor(v, dtype=library.float64) for v in values(names)]
        param, *_ = stepped(library, cls, taken, names, *inputs, number=number)
        result.append([g.item() for g in library.autograd.grad(param.square().sum(), made)])
    np.testing.assert_allclose(*result, rtol=1e-9)


def unrolled(cls, rate, steps=3, device="cpu"):
    """The loss of a network after `steps`, its learning rate, and the weights that it started with."""
    rng = np.random.default_rng(0)
    lr = ag.tensor(rate, dtype=ag.float64, requires_grad=True)
    starts = [ag.tensor(rng.standard_normal(s), device=device, requires_grad=True) for s in ((3, 4), (4, 1))]
    x, y = [ag.tensor(rng.standard_normal(s), device=device) for s in ((5, 3), (5, 1))]
    params = [start.clone() for start in starts]
    optimizer = getattr(optim, cls)(params, lr=lr, differentiable=True)

    def loss():
        return ((ag.tanh(x @ params[0]) @ params[1] - y) ** 2).mean()

    for _ in range(steps):
        for param, g in zip(params, ag.autograd.grad(loss(), params, create_graph=True), strict=True):
            param.grad = g
        optimizer.step()
    return loss(), lr, starts


@pytest.mark.parametrize("cls", OPTIONS)
def test_unrolled_steps_have_the_gradient_of_the_learning_rate(cls, device):
    with allow_mutation_on_saved_tensors():
        final, lr, starts = unrolled(cls, 0.05, device=device)
        g, *others = ag.autograd.grad(final, [lr, *starts])
    assert all(bool(other.isfinite().all()) for other in others)
    with allow_mutation_on_saved_tensors():
        above, below = [unrolled(cls, 0.05 + e, device=device)[0].item() for e in (1e-6, -1e-6)]
    np.testing.assert_allclose(g.item(), (above - below) / 2e-6, rtol=1e-6)


def test_a_learning_rate_is_learned():
    log_rate = ag.tensor(-4.0, requires_grad=True)
    outer, losses = optim.Adam([log_rate], lr=0.2), []
    for _ in range(16):
        with allow_mutation_on_saved_tensors():
            w = ag.tensor([3.0, -2.0], requires_grad=True).clone()
            inner = optim.SGD([w], lr=log_rate.exp(), differentiable=True)
            for _ in range(5):
                (w.grad,) = ag.autograd.grad((w * w * ag.tensor([1.0, 0.3])).sum(), w, create_graph=True)
                inner.step()
            final = (w * w).sum()
            outer.zero_grad()
            final.backward()
        outer.step()
        losses.append(final.item())
    assert losses[-1] < 0.05 * losses[0]


# ---- values, dtypes, zeros -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cls", "options"), ONE_EACH)
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_values_are_those_of_an_ordinary_step(cls, options, dtype, device):
    seen = []
    for recorded in (False, True):
        params = [ag.tensor(v, dtype=getattr(ag, dtype), device=device) for v in values([])]
        params.append(ag.tensor(0.5, dtype=getattr(ag, dtype), device=device))
        optimizer = getattr(optim, cls)(params, differentiable=recorded, **options)
        for step in range(3):
            for param in params:
                param.grad = (param * (step - 0.5)).abs() + 0.25
            optimizer.step()
        assert all(str(param.dtype) == dtype for param in params)
        states = [s for param in params for s in optimizer.state[param].values() if isinstance(s, ag.Tensor)]
        seen.append([*params, *states])
    tolerance = {"float64": 1e-12, "float32": 1e-5, "bfloat16": 2e-2}[dtype]
    for ours, expected in zip(*seen, strict=True):
        assert ours.dtype == expected.dtype
        np.testing.assert_allclose(
            ours.numpy(force=True).astype(float), expected.numpy(force=True).astype(float), tolerance, tolerance
        )


@pytest.mark.parametrize("cls", OPTIONS)
def test_gradients_of_zero_have_finite_derivatives(cls):
    """As behind a ReLU: the root of a mean square of 0 would have an infinite one. PyTorch's are NaN."""
    start, grad = ag.tensor([1.0, 2.0], requires_grad=True), ag.tensor([0.0, 0.5], requires_grad=True)
    param, *_ = stepped(ag, cls, {}, [], start, grad, steps=2)
    grads = ag.autograd.grad(param.sum(), [start, grad], allow_unused=True, materialize_grads=True)
    assert all(bool(g.isfinite().all()) for g in grads)
    if cls == "Adam":  # eps is 1e-8: the slope of g / (|g| + eps) at 0
        assert grads[1][0].item() < -1e4


def test_a_weight_decay_of_zero_has_a_derivative():
    decay = ag.tensor(0.0, requires_grad=True)
    param, *_ = stepped(ag, "SGD", {"lr": 0.5, "weight_decay": decay}, [], ag.tensor([3.0]), ag.tensor([1.0]))
    param.sum().backward()
    assert decay.grad.item() == -1.5


def test_a_learning_rate_on_the_cpu_for_parameters_on_another_device(device):
    lr = ag.tensor([0.5], device="cpu", requires_grad=True)
    param, *_ = stepped(ag, "Adam", {"lr": lr}, [], ag.ones(2, device=device), ag.full((2,), 3.0, device=device))
    param.sum().backward()
    np.testing.assert_allclose(lr.grad.tolist(), [-2.0], rtol=1e-6)


# ---- what is kept ------------------------------------------------------------------------------------------------


def test_the_step_is_recorded_under_no_grad_and_returns_the_loss():
    start = ag.tensor([2.0], requires_grad=True)
    param = start.clone()
    optimizer = optim.SGD([param], lr=0.25, differentiable=True)

    def closure():
        loss = (param * param).sum()
        (param.grad,) = ag.autograd.grad(loss, param, create_graph=True)
        return loss

    with ag.no_grad():
        assert optimizer.step(closure).item() == 4.0
    assert param.tolist() == [1.0]
    param.sum().backward()
    assert start.grad.tolist() == [0.5]


def test_a_parameter_that_is_a_view_updates_its_base():
    flat = ag.zeros(4, requires_grad=True).clone()
    parts = [flat[:2], flat[2:]]
    optimizer = optim.SGD(parts, lr=1.0, differentiable=True)
    grads = [ag.ones(2, requires_grad=True), ag.full((2,), 2.0, requires_grad=True)]
    for part, g in zip(parts, grads, strict=True):
        part.grad = g
    optimizer.step()
    assert flat.tolist() == [-1.0, -1.0, -2.0, -2.0]
    (flat * ag.arange(4.0)).sum().backward()
    assert grads[1].grad.tolist() == [-2.0, -3.0]


def test_groups_choose_and_parameters_without_gradients_stay():
    recorded, plain, idle = ag.ones(1), ag.ones(1), ag.ones(1)
    lr = ag.tensor(0.5, requires_grad=True)
    groups = [{"params": [recorded, idle], "differentiable": True}, {"params": [plain], "lr": 0.25}]
    optimizer = optim.Adam(groups, lr=lr)
    recorded.grad, plain.grad = ag.ones(1), ag.ones(1)
    optimizer.step()
    assert (recorded.requires_grad, plain.requires_grad, idle.requires_grad) == (True, False, False)
    assert idle not in optimizer.state
    np.testing.assert_allclose([recorded.item(), plain.item(), idle.item()], [0.5, 0.75, 1.0])


def test_schedulers_write_to_the_learning_rate_that_a_graph_has():
    for dtype in (ag.float32, ag.float64):
        lr = ag.tensor(0.5, dtype=dtype, requires_grad=True)
        start = ag.tensor([1.0], requires_grad=True)
        param = start.clone()
        optimizer = optim.SGD([param], lr=lr, differentiable=True)
        scheduler = optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        for _ in range(2):
            (param.grad,) = ag.autograd.grad((param * param).sum(), param, create_graph=True)
            optimizer.step()
            scheduler.step()
        assert optimizer.param_groups[0]["lr"] is lr
        assert lr.item() == 0.125
        assert param.tolist() == [0.0]  # 1 - 2 * 0.5 = 0
        assert ag.autograd.grad(param.sum(), lr)[0].item() == -1.0  # (1 - 2 a)(1 - 2 b) at a = 0.5, b = 0.25


@pytest.mark.parametrize("cls", OPTIONS)
def test_ordinary_steps_after_recorded_ones(cls):
    """They make the same steps, and write to state that is not what the graph has saved."""
    seen = []
    for last in (True, False):
        start, scale = [ag.tensor(v, requires_grad=True) for v in ([1.0, -2.0], 1.5)]
        param, lr = start.clone(), ag.tensor(0.05, requires_grad=True)
        optimizer = getattr(optim, cls)([param], lr=lr, differentiable=True)
        for step in range(3):
            if step == 2:
                states = [s for s in optimizer.state[param].values() if isinstance(s, ag.Tensor)]
                probe = sum([(s * s).sum() for s in states], scale * 1.0)
                optimizer.param_groups[0]["differentiable"] = last
            param.grad = ag.tensor([0.5, 0.25]) * (step + 1) * scale
            optimizer.step()
        state = dict(optimizer.state[param])
        optimizer.step()
        kept = [state[name] is value for name, value in optimizer.state[param].items() if isinstance(value, ag.Tensor)]
        assert all(kept) or last  # the first ordinary step copies the state, the later ones write to it
        seen.append((param, *ag.autograd.grad(probe, [scale, lr], materialize_grads=True)))
    for ours, expected in zip(*seen, strict=True):
        np.testing.assert_allclose(ours.tolist(), expected.tolist(), rtol=1e-5)


def test_an_optimizer_that_was_copied_after_recorded_steps():
    """The copy has the same state, and does not write to what a graph has saved of it."""
    param, lr = ag.tensor([1.0]), ag.tensor(0.5, requires_grad=True)
    optimizer = optim.Adam([param], lr=lr, differentiable=True)
    param.grad = ag.tensor([2.0])
    optimizer.step()
    average = optimizer.state[param]["exp_avg"]
    other = copy.copy(optimizer)
    other.param_groups = [{**optimizer.param_groups[0], "differentiable": False}]
    other.step()
    np.testing.assert_allclose(average.tolist(), [0.2], rtol=1e-6)


@pytest.mark.parametrize("cls", OPTIONS)
def test_the_state_of_a_recorded_step_is_saved_and_loaded(cls):
    options = {"lr": ag.tensor(0.05, requires_grad=True)}
    results = []
    for reload in (False, True):
        param = ag.tensor([1.0, -2.0])
        optimizer = getattr(optim, cls)([param], differentiable=True, **options)
        for _ in range(3):
            param.grad = ag.tensor([0.5, 0.25])
            optimizer.step()
            if reload:
                optimizer.load_state_dict(optimizer.state_dict())
                assert not any(s.requires_grad for s in optimizer.state[param].values() if isinstance(s, ag.Tensor))
        results.append(param.tolist())
    np.testing.assert_allclose(*results, rtol=1e-6)


# ---- what is refused -----------------------------------------------------------------------------------------------


def test_leaves_are_refused_before_anything_is_written():
    leaf, other = ag.ones(1, requires_grad=True), ag.ones(1)
    optimizer = optim.Adam([other, leaf], differentiable=True)
    leaf.grad, other.grad = ag.ones(1), ag.ones(1)
    with pytest.raises(RuntimeError, match=r"a leaf Variable that requires grad .* clone\(\)s of the leaves"):
        optimizer.step()
    assert other.item() == 1.0
    assert not optimizer.state


def test_a_step_that_fails_leaves_parameters_and_state(monkeypatch):
    params = [ag.ones(1), ag.ones(1)]
    optimizer = optim.Adam(params, differentiable=True)
    for param in params:
        param.grad = ag.ones(1)
    optimizer.step()
    before, calls = [param.tolist() for param in params], []

    def fail(*arguments):
        calls.append(arguments)
        if len(calls) == 2:
            raise MemoryError
        return apply(*arguments)

    apply = optim.recorded.apply_recorded
    monkeypatch.setattr(optim.recorded, "apply_recorded", fail)
    with pytest.raises(MemoryError):
        optimizer.step()
    assert [param.tolist() for param in params] == before
    assert [optimizer.state[param]["step"] for param in params] == [1, 1]


def test_gradients_of_another_kind_are_refused():
    param = ag.ones(2)
    optimizer = optim.SGD([param], differentiable=True)
    param._grad = ag.ones(2, dtype=ag.float64)
    with pytest.raises(RuntimeError, match="another dtype than the parameter: float64, expected float32"):
        optimizer.step()


def test_a_step_in_backward_is_refused():
    net = nn.Linear(2, 1)
    with pytest.raises(ValueError, match="updates tensors that are no leaves"):
        optim.step_in_backward(optim.SGD(net.parameters(), differentiable=True))


def test_only_recorded_steps_take_tensors_that_are_no_leaves():
    param = ag.ones(1, requires_grad=True).clone()
    with pytest.raises(ValueError, match="can't optimize a non-leaf Tensor"):
        optim.SGD([param])
    optimizer = optim.SGD([ag.ones(1)])
    optimizer.add_param_group({"params": [param], "differentiable": True})
    with pytest.raises(TypeError, match="LBFGS"):
        optim.LBFGS([param], differentiable=True)
