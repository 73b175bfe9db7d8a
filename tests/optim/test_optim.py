"""Optimizers: plain formulas, dtypes and memory layouts, steps, hooks, state, errors. PyTorch: test_optim_oracle.py."""

import copy
import itertools
import pickle

import numpy as np
import pytest
from compiled_groups import count_of_calls
from optim_cases import CASES, ONE_EACH, OPTIONS, SMALL, advance, gradients, make, run, start
from updates import SGD

import autograd_gpu as ag
from autograd_gpu import nn, optim
from autograd_gpu.backend.optimizers import chunks, formulas


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


@pytest.mark.parametrize(("cls", "options"), [(cls, several[1]) for cls, several in OPTIONS.items()])
@pytest.mark.parametrize(("dtype", "rtol"), [("float32", 1e-4), ("float16", 2e-2), ("bfloat16", 1e-1)])
def test_other_dtypes(cls, options, dtype, rtol, device):
    """Gradients of one sign, since those of Rprop that are rounded to another one would make other steps."""
    exact, optimizer = make(cls, options, device)
    ours, other = make(cls, options, device, getattr(ag, dtype))
    for step in range(5):
        for param, twin, g in zip(exact, ours, gradients(step), strict=True):
            param.grad = ag.tensor(np.abs(g) + 0.1, device=device)
            twin.grad = param.grad.to(twin.dtype)
        optimizer.step()
        other.step()
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
    momentum = {**SGD, "decay": 0.0, "kept": 0.9, "damped": 1.0}
    plain = {**SGD, "decay": 0.5}
    expected = p - 0.1 * (0.9 * m + g)
    for param, grad, buffer in itertools.product(*(list(layouts(shape)) for _ in range(3))):
        for array, values in zip((param, grad, buffer), start_of, strict=True):
            array[...] = values
        chunks.sweep(formulas.sgd.on("p", "g", "momentum_buffer"), (param, grad, buffer), momentum)
        np.testing.assert_allclose(param, expected, rtol=1e-12, atol=1e-14)
        np.testing.assert_array_equal(grad, g)
        param[...] = p
        chunks.sweep(formulas.sgd.on("p", "g"), (param, grad), plain)
        np.testing.assert_allclose(param, p - 0.1 * (g + 0.5 * p), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("cls", "options"), CASES)
def test_gradients_are_not_written(cls, options, device):
    params, optimizer = make(cls, options, device)
    grads = [ag.tensor(g, device=device) for g in gradients(0)]
    for param, grad in zip(params, grads, strict=True):
        param.grad = grad
    for _ in range(2):
        optimizer.step()
    for grad, g in zip(grads, gradients(0), strict=True):
        np.testing.assert_array_equal(grad.numpy(force=True), g)


def test_read_only_memory_is_not_written():
    array = np.ones(3)
    array.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        chunks.sweep(formulas.sgd.on("p", "g"), (array, np.ones(3)), SGD)
    assert array.tolist() == [1.0] * 3


# ---- small parameters in buckets -------------------------------------------------------------


@pytest.mark.cpu
def test_state_of_small_parameters_lies_side_by_side():
    params, optimizer = run("Adam", {}, 2)
    small, large = params[:4], params[4:]
    assert len({id(optimizer.state[p]["exp_avg"].array.base) for p in small}) == 1
    assert all(optimizer.state[p]["exp_avg"].array.base is None for p in large)


@pytest.mark.cpu
@pytest.mark.parametrize(("cls", "options"), ONE_EACH)
def test_what_leaves_a_bucket_goes_on_alone(cls, options):
    """A parameter that skips a step, has its state replaced, or lies otherwise in memory."""
    params, optimizer = make(cls, options, shapes=SMALL)
    twins, lone = make(cls, options, shapes=SMALL)
    lone._ag_buckets.pack = lambda params, states: list(states)
    for group, pair in ((params, optimizer), (twins, lone)):
        group[0].data = ag.tensor(np.asfortranarray(group[0].detach().array))
        advance(group, pair, range(2))
        for param, g in zip(group[1:], gradients(2)[1:], strict=False):
            param.grad = ag.tensor(g)
        group[0].grad = None
        pair.step()
        advance(group, pair, range(3, 5))
        for state in [pair.state[group[1]]] if group[1] in pair.state else []:
            for name, value in state.items():
                state[name] = value.clone() if isinstance(value, ag.Tensor) else value
        advance(group, pair, range(5, 8))
    for a, b in zip(params, twins, strict=True):
        np.testing.assert_allclose(a.tolist(), b.tolist(), rtol=1e-12)


def test_options_that_need_more_state_later(device):
    params, optimizer = run("Adam", {"lr": 0.1}, 2, device, shapes=SMALL)
    optimizer.param_groups[0]["amsgrad"] = True
    advance(params, optimizer, range(2, 4))
    assert all("max_exp_avg_sq" in state and state["step"] == 4 for state in optimizer.state.values())


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))])
def test_copies_go_on_by_themselves(duplicate):
    params, optimizer = run("Adam", {"lr": 0.1}, 2, shapes=SMALL)
    twins, twin = duplicate((params, optimizer))
    advance(twins, twin, range(2, 4))
    assert params[1].tolist() != twins[1].tolist()
    advance(params, optimizer, range(2, 4))
    for a, b in zip(params, twins, strict=True):
        np.testing.assert_allclose(a.tolist(), b.tolist(), rtol=1e-12)


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


@pytest.mark.parametrize("cls", OPTIONS)
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


@pytest.mark.parametrize("cls", [cls for cls in OPTIONS if cls not in ("Adadelta", "ASGD", "Rprop")])
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
    assert first[-1] < 0.15 * first[0]
    assert losses() == first


def test_names_of_parameters():
    layer = nn.Linear(2, 1)
    optimizer = optim.SGD(layer.named_parameters(), lr=0.1)
    assert optimizer.param_groups[0]["params"] == [layer.weight, layer.bias]
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["weight", "bias"]
    twin = optim.SGD(layer.named_parameters(), lr=0.2)
    twin.load_state_dict(optimizer.state_dict())
    assert twin.param_groups[0]["param_names"] == ["weight", "bias"]
    with pytest.raises(ValueError, match="Some param names are missing"):
        optim.SGD([("weight", layer.weight), layer.bias])
    with pytest.raises(ValueError, match="cannot add param group without names to the optimizer"):
        optimizer.add_param_group({"params": [ag.ones(1, requires_grad=True)]})


# ---- hooks -----------------------------------------------------------------------------------


def test_step_hooks():
    w = ag.ones(1, requires_grad=True)
    optimizer = optim.SGD([w], lr=0.25)
    w.grad = ag.ones(1)
    calls = []
    before = optimizer.register_step_pre_hook(lambda *args: calls.append(("before", w.item(), *args)))
    after = optimizer.register_step_post_hook(lambda *args: calls.append(("after", w.item(), *args)))
    optimizer.step()
    assert calls == [("before", 1.0, optimizer, (optimizer,), {}), ("after", 0.75, optimizer, (optimizer,), {})]
    before.remove()
    after.remove()
    optimizer.step()
    assert len(calls) == 2


def test_hooks_of_all_optimizers_run_first():
    optimizer = optim.SGD([ag.ones(1, requires_grad=True)])
    calls = []
    optimizer.register_step_pre_hook(lambda *args: calls.append("own before"))
    optimizer.register_step_post_hook(lambda *args: calls.append("own after"))
    before = optim.hooks.register_optimizer_step_pre_hook(lambda *args: calls.append("before"))
    after = optim.hooks.register_optimizer_step_post_hook(lambda *args: calls.append("after"))
    with before, after:
        optimizer.step()
    optimizer.step()
    assert calls == ["before", "own before", "after", "own after", "own before", "own after"]


def test_state_dict_hooks():
    w = ag.ones(1, requires_grad=True)
    optimizer, calls = optim.SGD([w], lr=0.5), []
    optimizer.register_state_dict_pre_hook(lambda o: calls.append(("save", o)))
    optimizer.register_state_dict_post_hook(lambda o, state: {**state, "epoch": 3})
    optimizer.register_state_dict_post_hook(lambda o, state: state.update(first=list(state)), prepend=True)
    saved = optimizer.state_dict()
    assert (saved["epoch"], saved["first"]) == (3, ["state", "param_groups"])

    def halve(o, state):
        calls.append(("load", o, state.pop("epoch")))
        return {**state, "param_groups": [{**group, "lr": group["lr"] / 2} for group in state["param_groups"]]}

    optimizer.register_load_state_dict_pre_hook(halve)
    handle = optimizer.register_load_state_dict_post_hook(lambda o: calls.append(("loaded", o.param_groups[0]["lr"])))
    optimizer.load_state_dict(saved)
    assert calls == [("save", optimizer), ("load", optimizer, 3), ("loaded", 0.25)]
    assert saved["epoch"] == 3  # the hook has a copy
    handle.remove()
    optimizer.load_state_dict(saved)
    assert len(calls) == 4


def test_a_pre_hook_may_change_the_arguments():
    optimizer = optim.SGD([ag.ones(1, requires_grad=True)])
    handle = optimizer.register_step_pre_hook(lambda optimizer, args, kwargs: ((optimizer, lambda: 3.0), {}))
    assert optimizer.step() == 3.0
    handle.remove()
    optimizer.register_step_pre_hook(lambda optimizer, args, kwargs: 7)
    with pytest.raises(RuntimeError, match=r"must return None or a tuple of \(new_args, new_kwargs\), but got 7"):
        optimizer.step()


def test_an_optimizer_of_ones_own():
    """Written as with PyTorch: a step over param_groups and state. Its hooks run, once if it calls the base's step."""

    class Sign(optim.Optimizer):
        def __init__(self, params, lr=0.25):
            super().__init__(params, {"lr": lr})

        @ag.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    self.state[p]["count"] = self.state[p].get("count", 0) + 1
                    p.add_(p.grad.sign(), alpha=-group["lr"])

    class Twice(optim.SGD):
        def step(self, closure=None):
            super().step()
            return super().step(closure)

    for cls, expected in ((Sign, 0.75), (Twice, 0.0)):
        w = ag.ones(1, requires_grad=True)
        w.grad = ag.full((1,), 2.0)
        optimizer = cls([w], lr=0.25)
        calls = []
        optimizer.register_step_post_hook(lambda *args, calls=calls: calls.append(args))
        optimizer.step()
        assert w.item() == expected
        assert len(calls) == 1
        twin = cls([w], lr=0.5)
        twin.load_state_dict(optimizer.state_dict())
        assert twin.state == optimizer.state
    with pytest.raises(NotImplementedError, match="Bare defines neither"):
        type("Bare", (optim.Optimizer,), {})([w], {}).step()


# ---- state -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("cls", "options"), ONE_EACH)
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


def test_a_state_dict_sets_what_is_computed_not_how():
    w = ag.ones(2, requires_grad=True)
    saved = optim.Adam([w], lr=0.1, foreach=True).state_dict()
    (group,) = saved["param_groups"]
    group.update(capturable=True, differentiable=True)
    del group["amsgrad"], group["maximize"], group["decoupled_weight_decay"]  # of a version that had none
    optimizer = optim.Adam([w], fused=True)
    optimizer.load_state_dict(saved)
    (group,) = optimizer.param_groups
    assert (group["lr"], group["fused"], group["foreach"], group["capturable"]) == (0.1, True, None, False)
    assert not group["amsgrad"]
    decoupled = optim.AdamW([w])
    decoupled.load_state_dict(optimizer.state_dict())
    assert decoupled.param_groups[0]["decoupled_weight_decay"]


def test_load_state_dict_errors_change_nothing():
    w = ag.ones(2, requires_grad=True)
    optimizer = optim.Adam([w], lr=0.1)
    good = optimizer.state_dict()
    cases = [
        ({**good, "param_groups": good["param_groups"] * 2}, "different number of parameter groups"),
        ({**good, "param_groups": [{**good["param_groups"][0], "params": [0, 1]}]}, "doesn't match the size"),
        (optim.SGD([w]).state_dict(), "lacks the options betas, eps of Adam"),
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
        ("Adamax", {"betas": (0.9, 1.0)}, "Invalid beta parameter at index 1: 1.0"),
        ("NAdam", {"momentum_decay": -1}, "Invalid momentum_decay value: -1"),
        ("RAdam", {"eps": -1}, "Invalid epsilon value: -1"),
        ("RMSprop", {"alpha": -1}, "Invalid alpha value: -1"),
        ("RMSprop", {"momentum": -1}, "Invalid momentum value: -1"),
        ("Adagrad", {"lr_decay": -1}, "Invalid lr_decay value: -1"),
        ("Adagrad", {"initial_accumulator_value": -1}, "Invalid initial_accumulator_value value: -1"),
        ("Adadelta", {"rho": 1.5}, "Invalid rho value: 1.5"),
        ("ASGD", {"weight_decay": -1}, "Invalid weight_decay value: -1"),
        ("Rprop", {"etas": (1.5, 1.2)}, "Invalid eta values: 1.5, 1.2"),
        ("LBFGS", {"lr": -1}, "Invalid learning rate: -1"),
    ],
)
def test_option_errors(cls, options, message):
    w = ag.ones(2, requires_grad=True)
    with pytest.raises(ValueError, match=message):
        getattr(optim, cls)([w], **options)


def test_asgd_averages_from_t0_on(device):
    w = ag.tensor([1.0, -2.0], dtype=np.float64, device=device, requires_grad=True)
    optimizer = optim.ASGD([w], lr=0.1, lambd=0.0, t0=2)
    mean = None
    for step in range(1, 7):
        optimizer.zero_grad()
        (w**2).sum().backward()
        optimizer.step()
        now = w.detach().cpu().numpy().copy()
        count = max(1, step - 1 - 2)  # the weight of a step is set by the step before it
        mean = now if count == 1 else mean + (now - mean) / count
        np.testing.assert_allclose(optimizer.state[w]["ax"].cpu().numpy(), mean, rtol=1e-12)


@pytest.mark.parametrize("cls", [*OPTIONS, "LBFGS"])
def test_lr_as_a_tensor_is_read_at_each_step(cls, device):
    ends = []
    for lr in (0.5, ag.tensor(0.5, device=device)):
        w = ag.tensor([1.0, 2.0], device=device, requires_grad=True)
        optimizer = getattr(optim, cls)([w], lr=lr)
        for _ in range(2):
            optimizer.step(lambda w=w, optimizer=optimizer: halfway(w, optimizer))
            if isinstance(lr, ag.Tensor):
                lr.fill_(0.25)
            else:
                optimizer.param_groups[0]["lr"] = 0.25
        ends.append(w.tolist())
    assert ends[0] == ends[1]
    with pytest.raises(ValueError, match=r"Tensor lr must be 1-element, got one of shape \[2\]"):
        getattr(optim, cls)([w], lr=ag.ones(2))


def halfway(w, optimizer):
    optimizer.zero_grad()
    loss = (w * w).sum() / 2
    loss.backward()
    return loss


def test_a_scheduler_fills_a_tensor_lr():
    lr = ag.tensor(1.0)
    optimizer = optim.SGD([ag.ones(1, requires_grad=True)], lr=lr)
    scheduler = optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    plateau = optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0)
    optimizer.step()
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] is lr
    assert (lr.item(), scheduler.get_last_lr()) == (0.5, [0.5])
    for loss in (1.0, 2.0):
        plateau.step(loss)
    assert lr.item() == 0.25


def test_an_optimizer_without_a_formula():
    w = ag.ones(1, requires_grad=True)
    w.grad = ag.ones(1)
    with pytest.raises(NotImplementedError, match=r"Optimizer defines neither step\(\) nor _ag_update"):
        optim.Optimizer([w], {}).step()


@pytest.mark.parametrize("cls", OPTIONS)
def test_ways_to_run_a_step(cls):
    w = ag.ones(2, requires_grad=True)
    assert getattr(optim, cls)([w], foreach=True).param_groups[0]["foreach"]
    with pytest.raises(RuntimeError, match="`foreach` does not support `differentiable`"):
        getattr(optim, cls)([w], foreach=True, differentiable=True)
    if cls in ("SGD", "Adam", "AdamW", "Adagrad"):
        with pytest.raises(RuntimeError, match="`fused` and `foreach` cannot be `True` together"):
            getattr(optim, cls)([w], foreach=True, fused=True)
        with pytest.raises(RuntimeError, match="`fused` does not support `differentiable`"):
            getattr(optim, cls)([w], fused=True, differentiable=True)
    if cls not in ("SGD", "Adagrad"):
        assert getattr(optim, cls)([w], capturable=True).param_groups[0]["capturable"]


def test_lbfgs_errors():
    w = ag.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="only 'strong_wolfe' is supported, or None, got 'armijo'"):
        optim.LBFGS([w], line_search_fn="armijo")
    with pytest.raises(ValueError, match="LBFGS doesn't support per-parameter options"):
        optim.LBFGS([{"params": [w]}, {"params": [ag.ones(1, requires_grad=True)]}])
    with pytest.raises(TypeError, match="closure"):
        optim.LBFGS([w]).step()


def test_lbfgs_takes_what_has_no_gradient_and_stops_where_there_is_none(device):
    w, idle = ag.ones(2, device=device, requires_grad=True), ag.ones((2, 1), device=device, requires_grad=True)
    optimizer = optim.LBFGS([w, idle], line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = ((w - 3.0) ** 2).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 8.0
    np.testing.assert_allclose(w.tolist(), [3.0, 3.0], rtol=1e-5)
    assert idle.tolist() == [[1.0], [1.0]]
    evaluations = optimizer.state[w]["func_evals"]
    optimizer.step(closure)
    assert optimizer.state[w]["func_evals"] == evaluations + 1


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


@pytest.mark.parametrize("optimizer", [lambda p: optim.SGD(p, lr=0.1, momentum=0.9), lambda p: optim.Adam(p, lr=0.1)])
@pytest.mark.parametrize("tied", [lambda a: a, lambda a: a[1:]])
def test_parameters_that_share_memory_get_both_steps(optimizer, tied):
    """As one after the other would give them; those of a bucket are gathered before the step."""
    base = ag.ones(4, 3)
    a, b = ag.nn.Parameter(base), ag.nn.Parameter(tied(base.detach()))
    alone = [ag.nn.Parameter(a.detach().clone()), ag.nn.Parameter(b.detach().clone())]
    for parameters in ([a, b], alone):
        for p in parameters:
            p.grad = ag.ones_like(p)
        optimizer(parameters).step()
    moved = [1 - alone[0].detach(), 1 - alone[1].detach()]
    expected = 1 - moved[0]
    expected[4 - b.shape[0] :] -= moved[1]
    np.testing.assert_allclose(base.tolist(), expected.tolist(), rtol=1e-5)


@pytest.mark.cpu
def test_what_zero_grad_and_a_loss_cost():
    """The Python functions that they enter: zero_grad none for a parameter, cross_entropy few for its checks."""
    model = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6))
    optimizer, loss_of = optim.SGD(model.parameters(), lr=0.1), nn.CrossEntropyLoss()
    x, y = ag.randn(4, 6), ag.tensor([0, 1, 2, 5])
    out = model(x)
    loss_of(out, y).backward()
    count, entered = count_of_calls(optimizer.zero_grad)
    assert all(p.grad is None for p in model.parameters())
    assert count <= 5, entered
    count, entered = count_of_calls(loss_of, out, y)
    assert count <= 34, entered


def test_zero_grad_of_a_users_class_goes_by_its_grad():
    told = []

    class Mine(nn.Parameter):
        grad = property(lambda self: self._grad, lambda self, value: told.append(value))

    x = Mine(ag.ones(2))
    x._grad = ag.ones(2)
    optim.SGD([x], lr=0.1).zero_grad()
    assert told == [None]
