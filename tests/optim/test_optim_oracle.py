"""Optimizers against PyTorch: trajectories in float64, state dicts that it wrote, L-BFGS evaluation by evaluation."""

import inspect

import numpy as np
import pytest
from optim_cases import CASES, ONE_EACH, OPTIONS, SMALL, advance, gradients, make, run, start

import autograd_gpu as ag
from autograd_gpu import optim

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def _double_and_alone():
    """PyTorch keeps scalars of the state in the default dtype; its threads would only wait for each other here."""
    before, threads = torch.get_default_dtype(), torch.get_num_threads()
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    yield
    torch.set_default_dtype(before)
    torch.set_num_threads(threads)


def reference(cls, options, count):
    params = [torch.tensor(v, requires_grad=True) for v in start()[:count]]
    return params, getattr(torch.optim, cls)(params, **options)


def advance_reference(params, optimizer, steps):
    for step in steps:
        for param, g in zip(params, gradients(step), strict=False):
            param.grad = torch.tensor(g)
        optimizer.step()


def assert_same(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.numpy(force=True), b.detach().numpy(), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(("cls", "options"), CASES)
def test_trajectory(cls, options, device):
    theirs, optimizer = reference(cls, options, len(SMALL))
    advance_reference(theirs, optimizer, range(50))
    ours, _ = run(cls, options, 50, device, shapes=SMALL)
    assert_same(ours, theirs)


@pytest.mark.parametrize(("cls", "options"), ONE_EACH)
def test_trajectory_of_large_parameters(cls, options, device):
    theirs, optimizer = reference(cls, options, 6)
    advance_reference(theirs, optimizer, range(6))
    ours, _ = run(cls, options, 6, device)
    assert_same(ours, theirs)


@pytest.mark.parametrize("cls", [*OPTIONS, "LBFGS"])
def test_signature(cls):
    def listed(where):
        parameters = inspect.signature(getattr(where, cls)).parameters.values()
        return [(p.name, p.kind, p.default) for p in parameters]

    assert listed(optim) == listed(torch.optim)


@pytest.mark.parametrize("cls", OPTIONS)
def test_printed_form(cls):
    def printed(library, where):
        groups = [{"params": [library.ones(2, requires_grad=True)]} for _ in range(2)]
        return repr(getattr(where, cls)([groups[0], {**groups[1], "lr": 0.5}]))

    assert printed(ag, optim) == printed(torch, torch.optim)


def test_a_learning_rate_that_pytorch_saved_as_a_tensor():
    theirs = torch.optim.Adam([torch.ones(2, requires_grad=True)], lr=torch.tensor(0.25))
    optimizer = optim.Adam([ag.ones(2, requires_grad=True)])
    optimizer.load_state_dict(theirs.state_dict())
    assert optimizer.param_groups[0]["lr"] == 0.25
    assert isinstance(optimizer.param_groups[0]["lr"], float)


@pytest.mark.parametrize(("cls", "options"), ONE_EACH)
def test_state_dict_of_pytorch(cls, options, device):
    """Its layout is ours, and training goes on from it, here as there."""
    theirs, optimizer = reference(cls, options, len(SMALL))
    advance_reference(theirs, optimizer, range(5))
    saved = optimizer.state_dict()
    mine = run(cls, options, 1, device, shapes=SMALL)[1].state_dict()
    assert mine["state"].keys() == saved["state"].keys()
    assert mine["state"][0].keys() == saved["state"][0].keys()
    assert mine["param_groups"] == saved["param_groups"]
    ours, twin = make(cls, {"lr": 7.0}, device, shapes=SMALL)
    with ag.no_grad():
        for a, b in zip(ours, theirs, strict=True):
            a.copy_(ag.tensor(b.detach().clone().numpy(), device=device))
    twin.load_state_dict(saved)
    advance_reference(theirs, optimizer, range(5, 12))
    advance(ours, twin, range(5, 12))
    assert_same(ours, theirs)


def test_bfloat16_state_of_pytorch():
    w = torch.ones(3, dtype=torch.bfloat16, requires_grad=True)
    w.grad = torch.full((3,), 2.0, dtype=torch.bfloat16)
    theirs = torch.optim.SGD([w], lr=0.1, momentum=0.9)
    theirs.step()
    ours = optim.SGD([ag.ones(3, requires_grad=True)], lr=0.1, momentum=0.9)
    ours.load_state_dict(theirs.state_dict())
    (state,) = ours.state.values()
    assert state["momentum_buffer"].tolist() == [2.0] * 3


# ---- L-BFGS ----------------------------------------------------------------------------------

LBFGS = [
    {"lr": 0.05},
    {"lr": 0.02, "history_size": 3, "max_iter": 7},
    {"line_search_fn": "strong_wolfe"},
    {"line_search_fn": "strong_wolfe", "history_size": 2, "max_iter": 5, "max_eval": 9},
    {"line_search_fn": "strong_wolfe", "lr": 8.0},
    {"line_search_fn": "strong_wolfe", "lr": 1e-4, "tolerance_change": 1e-14},
]


def rosenbrock(x, y):
    return ((1 - x) ** 2 + 100 * (y - x**2) ** 2).sum() + (x**4).sum()


def minimize(optimizer, x, y, steps):
    """Losses that the closure gave, one list per step."""
    losses = []

    def closure():
        optimizer.zero_grad()
        loss = rosenbrock(x, y)
        loss.backward()
        losses[-1].append(loss.item())
        return loss

    for _ in range(steps):
        losses.append([])
        optimizer.step(closure)
    return losses


@pytest.mark.parametrize("options", LBFGS)
def test_lbfgs_makes_the_same_evaluations(options, device):
    values = [np.linspace(-1.0, 1.3, 6).reshape(2, 3), np.linspace(0.5, -1.0, 6).reshape(2, 3)]
    theirs = [torch.tensor(v, requires_grad=True) for v in values]
    ours = [ag.tensor(v, device=device, requires_grad=True) for v in values]
    reference, optimizer = torch.optim.LBFGS(theirs, **options), optim.LBFGS(ours, **options)
    expected, got = minimize(reference, *theirs, 4), minimize(optimizer, *ours, 4)
    assert [len(losses) for losses in got] == [len(losses) for losses in expected]
    np.testing.assert_allclose(np.concatenate(got), np.concatenate(expected), rtol=1e-6)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.numpy(force=True), b.detach().numpy(), rtol=1e-6)
    (state,), (other,) = optimizer.state.values(), reference.state.values()
    assert (state["n_iter"], state["func_evals"]) == (other["n_iter"], other["func_evals"])
    assert state.keys() == other.keys() - {"al"}  # scratch of PyTorch's


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("wall", [0.2, 0.7, 3.0, 40.0])
def test_a_line_search_whose_losses_are_nearly_equal(wall, dtype, device, monkeypatch):
    """A step too small for the loss to tell it from none has to come out as none, which depends on the rounding.

    MKL's square root, which PyTorch takes, can be off by one bit, depending on the CPU; here PyTorch takes NumPy's.
    """
    monkeypatch.setattr(torch.Tensor, "sqrt", lambda tensor: torch.tensor(np.sqrt(tensor.numpy())))
    seen = []
    for m, kwargs in ((torch, {}), (ag, {"device": device})):
        x = m.zeros((), dtype=getattr(m, dtype), requires_grad=True, **kwargs)
        optimizer = m.optim.LBFGS([x], lr=1000.0, line_search_fn="strong_wolfe")
        places = []

        def closure(m=m, x=x, optimizer=optimizer, places=places):
            optimizer.zero_grad()
            loss = 0.34 - 1e-3 * x + 1.56e5 * (x - wall).clamp(min=0) ** 2
            loss.backward()
            places.append(x.item())
            return loss

        optimizer.step(closure)
        seen.append(places)
    np.testing.assert_allclose(seen[1], seen[0], rtol=1e-6)


def test_lbfgs_continues_from_a_state_dict_of_pytorch(device):
    values = [np.linspace(-1.0, 1.3, 4), np.linspace(0.5, -1.0, 4)]
    theirs = [torch.tensor(v, requires_grad=True) for v in values]
    reference = torch.optim.LBFGS(theirs, max_iter=4, line_search_fn="strong_wolfe")
    minimize(reference, *theirs, 2)
    ours = [ag.tensor(v.detach().numpy(), device=device, requires_grad=True) for v in theirs]
    optimizer = optim.LBFGS(ours)
    optimizer.load_state_dict(reference.state_dict())
    expected, got = minimize(reference, *theirs, 2), minimize(optimizer, *ours, 2)
    np.testing.assert_allclose(np.concatenate(got), np.concatenate(expected), rtol=1e-6)


def test_options_that_a_state_dict_lacks_were_not_in_use():
    """As in PyTorch: an old checkpoint does not get the momentum that the constructor was told."""
    options = {"momentum": 0.9, "centered": True, "maximize": True}
    seen = []
    for lib in (ag, torch):
        w = lib.ones(2, requires_grad=True)
        state = lib.optim.RMSprop([w]).state_dict()
        for option in options:
            del state["param_groups"][0][option]
        optimizer = lib.optim.RMSprop([w], **options)
        optimizer.load_state_dict(state)
        seen.append([optimizer.param_groups[0][option] for option in options])
    assert seen[0] == seen[1] == [0, False, False]


def test_hooks_see_adamw_decoupled():
    seen = []
    w = ag.ones(2, requires_grad=True)
    optimizer = ag.optim.AdamW([w])
    optimizer.register_load_state_dict_post_hook(lambda o: seen.append(o.param_groups[0]["decoupled_weight_decay"]))
    optimizer.load_state_dict(ag.optim.Adam([w]).state_dict())
    assert seen == [True]
