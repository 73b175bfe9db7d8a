"""Learning rate schedulers: PyTorch's values over 60 steps, state dicts of both, warnings and errors."""

import copy
import warnings

import pytest

import autograd_gpu as ag
from autograd_gpu import optim
from autograd_gpu.optim import lr_scheduler, swa_utils

pytestmark = pytest.mark.cpu

METRICS = [3.0, 2.0, 2.5, 2.4, 2.3, 2.2, 1.0, 1.0, 1.1, 1.2, 1.0, 0.9999, 0.9998] + [0.9998] * 47


class Halving:
    """A function with state of its own."""

    def __init__(self, base):
        self.base = base

    def __call__(self, step):
        return self.base**step


def half(step):
    return 0.5 ** (step // 7)


def steady(step):
    return 0.97


def peak(x):
    return 1.0 / x


# name: (where, how it is made)
CASES = {
    "LambdaLR": lambda m, o: m.LambdaLR(o, half),
    "LambdaLR, each": lambda m, o: m.LambdaLR(o, [half, Halving(0.9)]),
    "MultiplicativeLR": lambda m, o: m.MultiplicativeLR(o, steady),
    "StepLR": lambda m, o: m.StepLR(o, 7, gamma=0.5),
    "MultiStepLR": lambda m, o: m.MultiStepLR(o, [3, 3, 11, 40], gamma=0.5),
    "ConstantLR": lambda m, o: m.ConstantLR(o, factor=0.25, total_iters=9),
    "LinearLR": lambda m, o: m.LinearLR(o, start_factor=0.25, end_factor=0.75, total_iters=13),
    "ExponentialLR": lambda m, o: m.ExponentialLR(o, 0.93),
    "PolynomialLR": lambda m, o: m.PolynomialLR(o, total_iters=33, power=2.0),
    "CosineAnnealingLR": lambda m, o: m.CosineAnnealingLR(o, T_max=11, eta_min=0.01),
    "CosineAnnealingWarmRestarts": lambda m, o: m.CosineAnnealingWarmRestarts(o, T_0=7, T_mult=2, eta_min=0.01),
    "CosineAnnealingWarmRestarts, even": lambda m, o: m.CosineAnnealingWarmRestarts(o, T_0=9),
    "CyclicLR": lambda m, o: m.CyclicLR(o, 0.1, [1.0, 0.5], step_size_up=5, step_size_down=8),
    "CyclicLR, triangular2": lambda m, o: m.CyclicLR(o, 0.1, 1.0, 6, mode="triangular2", base_momentum=[0.7, 0.8]),
    "CyclicLR, exp_range": lambda m, o: m.CyclicLR(o, 0.1, 1.0, 6, mode="exp_range", gamma=0.97, cycle_momentum=False),
    "CyclicLR, function": lambda m, o: m.CyclicLR(o, 0.1, 1.0, 6, scale_fn=peak),
    "CyclicLR, iterations": lambda m, o: m.CyclicLR(o, 0.1, 1.0, 6, scale_fn=Halving(0.9), scale_mode="iterations"),
    "OneCycleLR": lambda m, o: m.OneCycleLR(o, max_lr=[1.0, 2.0], total_steps=61),
    "OneCycleLR, linear": lambda m, o: m.OneCycleLR(o, 1.0, epochs=9, steps_per_epoch=7, anneal_strategy="linear"),
    "OneCycleLR, three": lambda m, o: m.OneCycleLR(o, 1.0, 61, three_phase=True, pct_start=0.4, cycle_momentum=False),
    "ReduceLROnPlateau": lambda m, o: m.ReduceLROnPlateau(o, factor=0.5, patience=2, cooldown=3, min_lr=[0.01, 0.1]),
    "ReduceLROnPlateau, max": lambda m, o: m.ReduceLROnPlateau(o, "max", 0.5, 1, 0.1, "abs", min_lr=0.01),
    "ReduceLROnPlateau, abs": lambda m, o: m.ReduceLROnPlateau(o, threshold=0.05, threshold_mode="abs", patience=4),
    "ReduceLROnPlateau, rel": lambda m, o: m.ReduceLROnPlateau(o, "max", threshold=0.05, patience=4, eps=0.05),
    "SequentialLR": lambda m, o: m.SequentialLR(
        o, [m.ConstantLR(o, 0.1, 5), m.ExponentialLR(o, 0.9), m.CosineAnnealingLR(o, 10)], [7, 20]
    ),
    "SequentialLR, chained": lambda m, o: m.SequentialLR(
        o, [m.ChainedScheduler([m.LinearLR(o, 0.1), m.StepLR(o, 3)]), m.CosineAnnealingWarmRestarts(o, 5)], [9]
    ),
    "ChainedScheduler": lambda m, o: m.ChainedScheduler(
        [m.LinearLR(o, 0.1, total_iters=7), m.ExponentialLR(o, 0.97), m.CosineAnnealingLR(o, 13), m.PolynomialLR(o, 70)]
    ),
}
SWALR = {
    "SWALR": lambda m, o: m.SWALR(o, swa_lr=0.05, anneal_epochs=9),
    "SWALR, linear": lambda m, o: m.SWALR(o, swa_lr=[0.05, 0.2], anneal_epochs=9, anneal_strategy="linear"),
    "SWALR, at once": lambda m, o: m.SWALR(o, swa_lr=0.05, anneal_epochs=0),
}
ALL = [*((name, lr_scheduler, "lr_scheduler", make) for name, make in CASES.items()),
       *((name, swa_utils, "swa_utils", make) for name, make in SWALR.items())]  # fmt: skip
each_scheduler = pytest.mark.parametrize(("name", "module", "where", "make"), ALL, ids=[case[0] for case in ALL])


def ours(cls="SGD", count=2, **options):
    params = [ag.ones(1, requires_grad=True) for _ in range(count)]
    groups = [{"params": [p], "lr": 0.5 / (i + 1)} for i, p in enumerate(params)]
    return getattr(optim, cls)(groups, **options)


def theirs(cls="SGD", **options):
    torch = pytest.importorskip("torch")
    params = [torch.ones(1, requires_grad=True) for _ in range(2)]
    groups = [{"params": [p], "lr": 0.5 / (i + 1)} for i, p in enumerate(params)]
    return getattr(torch.optim, cls)(groups, **options)


def observed(optimizer, scheduler, steps=60):
    """Learning rates and momenta, before each step and after the last."""
    seen = []
    plateau = type(scheduler).__name__ == "ReduceLROnPlateau"
    for step in range(steps + 1):
        momenta = [group.get("momentum", group.get("betas", (0,))) for group in optimizer.param_groups]
        seen.append(([group["lr"] for group in optimizer.param_groups], scheduler.get_last_lr(), momenta))
        if step < steps:
            optimizer.step()
            scheduler.step(*[METRICS[step]] * plateau)
    return [[float(v) for part in row for value in part for v in (value if isinstance(value, tuple) else [value])]
            for row in seen]  # fmt: skip


@each_scheduler
@pytest.mark.parametrize("cls", ["SGD", "Adam"])
def test_learning_rates_equal_pytorchs(name, module, where, make, cls):
    torch = pytest.importorskip("torch")
    options = {"momentum": 0.9} if cls == "SGD" else {}
    reference, optimizer = theirs(cls, **options), ours(cls, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's first step of a chain in a sequence takes itself for a second
        expected = observed(reference, make(getattr(torch.optim, where), reference))
    got = observed(optimizer, make(module, optimizer))
    assert len(got) == len(expected) == 61
    for a, b in zip(got, expected, strict=True):
        assert a == b


@each_scheduler
def test_state_dict_continues(name, module, where, make):
    """Ours, and one that PyTorch wrote."""
    torch = pytest.importorskip("torch")
    optimizer, reference = ours(momentum=0.9), theirs(momentum=0.9)
    scheduler = make(module, optimizer)
    observed(optimizer, scheduler, 10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other = make(getattr(torch.optim, where), reference)
        observed(reference, other, 10)
    for saved, saved_optimizer in (
        (scheduler.state_dict(), optimizer.state_dict()),
        (other.state_dict(), reference.state_dict()),
    ):
        twin = ours(momentum=0.9)
        resumed = make(module, twin)
        twin.load_state_dict(copy.deepcopy(saved_optimizer))
        resumed.load_state_dict(copy.deepcopy(saved))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            got = observed(twin, resumed, 20)
        expected = observed(*_copy_of(module, make, optimizer, scheduler), 20)
        for a, b in zip(got, expected, strict=True):
            assert a == pytest.approx(b, rel=1e-12, abs=1e-15)


def _copy_of(module, make, optimizer, scheduler):
    twin = ours(momentum=0.9)
    result = make(module, twin)
    twin.load_state_dict(optimizer.state_dict())
    result.load_state_dict(copy.deepcopy(scheduler.state_dict()))
    return twin, result


def test_functions_with_state_are_saved():
    optimizer = ours(count=1)
    scheduler = lr_scheduler.LambdaLR(optimizer, Halving(0.5))
    assert scheduler.state_dict()["lr_lambdas"] == [{"base": 0.5}]
    assert lr_scheduler.LambdaLR(optimizer, half).state_dict()["lr_lambdas"] == [None]
    other = lr_scheduler.LambdaLR(optimizer, Halving(0.25))
    other.load_state_dict(scheduler.state_dict())
    assert other.lr_lambdas[0].base == 0.5


@pytest.mark.parametrize("name", ["StepLR", "MultiStepLR", "LinearLR", "ExponentialLR", "PolynomialLR", "ConstantLR",
                                  "CosineAnnealingLR", "LambdaLR"])  # fmt: skip
def test_jumping_to_a_step(name):
    torch = pytest.importorskip("torch")
    reference, optimizer = theirs(), ours()
    expected, scheduler = CASES[name](torch.optim.lr_scheduler, reference), CASES[name](lr_scheduler, optimizer)
    reference.step()
    optimizer.step()
    for epoch in (3, 12, 5):
        with pytest.warns(UserWarning, match="The epoch parameter in"):
            scheduler.step(epoch)
        with pytest.warns(UserWarning, match="The epoch parameter in"):
            expected.step(epoch)
        assert scheduler.get_last_lr() == pytest.approx(expected.get_last_lr(), rel=1e-12)


def test_warm_restarts_within_an_epoch():
    torch = pytest.importorskip("torch")
    reference, optimizer = theirs(), ours()
    for mult in (1, 2, 3):
        expected = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(reference, 3, mult)
        scheduler = lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 3, mult)
        for i in range(40):
            scheduler.step(i / 4)
            expected.step(i / 4)
            assert scheduler.get_last_lr() == pytest.approx(expected.get_last_lr(), rel=1e-12)


def test_resuming_needs_initial_learning_rates():
    optimizer = ours()
    with pytest.raises(KeyError, match=r"'initial_lr' is not specified in param_groups\[0\] when resuming"):
        lr_scheduler.StepLR(optimizer, 3, last_epoch=4)
    for group in optimizer.param_groups:
        group["initial_lr"] = 1.0
    assert lr_scheduler.StepLR(optimizer, 3, gamma=0.5, last_epoch=4).last_epoch == 5


def test_the_initial_rate_of_a_tensor_is_a_copy():
    optimizer = ag.optim.Adam([ag.ones(1, requires_grad=True)], lr=ag.tensor(0.5))
    ag.optim.lr_scheduler.ConstantLR(optimizer, 0.5)
    group = optimizer.param_groups[0]
    assert (type(group["initial_lr"]), group["initial_lr"].item(), group["lr"].item()) == (ag.Tensor, 0.5, 0.25)


def test_order_of_steps():
    optimizer = ours()
    scheduler = lr_scheduler.StepLR(optimizer, 3)
    with pytest.warns(UserWarning, match=r"Detected call of `lr_scheduler.step\(\)` before `optimizer.step\(\)`"):
        scheduler.step()
    optimizer.step()
    scheduler = lr_scheduler.StepLR(optimizer, 3)
    with pytest.warns(UserWarning, match="Detected call"):
        scheduler.step()


def test_get_lr_is_for_step():
    scheduler = lr_scheduler.StepLR(ours(), 3)
    with pytest.warns(UserWarning, match=r"please use `get_last_lr\(\)`"):
        scheduler.get_lr()
    with pytest.raises(NotImplementedError, match=r"LRScheduler does not define get_lr\(\)"):
        lr_scheduler.LRScheduler(ours())


def test_reductions_replaced_by_the_user():
    optimizer = ours()
    scheduler, epochs = optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0), []
    scheduler._reduce_lr = epochs.append
    for loss in (1.0, 1.0, 0.5, 1.0):
        scheduler.step(loss)
    assert (epochs, scheduler.get_last_lr()) == ([2, 4], [0.5, 0.25])


def test_plateau_with_a_new_group():
    w = ag.ones(1, requires_grad=True)
    optimizer = ours(count=1)
    one, several = (lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, min_lr=m) for m in (0.0, [0.0]))
    optimizer.add_param_group({"params": [w], "lr": 1.0})
    one.step(1.0)
    one.step(1.0)
    assert one.get_last_lr() == pytest.approx([0.05, 0.1])
    several.step(1.0)
    with pytest.raises(RuntimeError, match=r"param groups in the `optimizer` \(2\) differs .* initialized \(1\)"):
        several.step(1.0)


ERRORS = [
    (ValueError, "Expected 2 lr_lambdas, but got 1", lambda o: lr_scheduler.LambdaLR(o, [half])),
    (TypeError, "lr_lambda should be a function, but got int", lambda o: lr_scheduler.LambdaLR(o, 3)),
    (TypeError, "int is not an Optimizer", lambda o: lr_scheduler.StepLR(3, 3)),
    (ValueError, "Constant multiplicative factor", lambda o: lr_scheduler.ConstantLR(o, 2.0)),
    (ValueError, "Starting multiplicative factor", lambda o: lr_scheduler.LinearLR(o, 0.0)),
    (ValueError, "Ending multiplicative factor", lambda o: lr_scheduler.LinearLR(o, 0.5, 2.0)),
    (ValueError, "positive integer T_0, but got 0", lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 0)),
    (ValueError, "integer T_mult >= 1, but got 0", lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 3, 0)),
    (ValueError, "eta_min, but got x", lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 3, 1, "x")),
    (ValueError, "Expected non-negative epoch", lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 3).step(-1)),
    (ValueError, "mode is invalid and scale_fn is None", lambda o: lr_scheduler.CyclicLR(o, 0.1, 1.0, mode="saw")),
    (ValueError, "max_lr must have the same length", lambda o: lr_scheduler.CyclicLR(o, 0.1, [1.0])),
    (ValueError, "either total_steps OR", lambda o: lr_scheduler.OneCycleLR(o, 1.0, epochs=3)),
    (ValueError, "positive integer total_steps", lambda o: lr_scheduler.OneCycleLR(o, 1.0, 0)),
    (ValueError, "positive integer epochs", lambda o: lr_scheduler.OneCycleLR(o, 1.0, epochs=0, steps_per_epoch=1)),
    (ValueError, "between 0 and 1 pct_start", lambda o: lr_scheduler.OneCycleLR(o, 1.0, 9, pct_start=2.0)),
    (ValueError, "instead got x", lambda o: lr_scheduler.OneCycleLR(o, 1.0, 9, anneal_strategy="x")),
    (ValueError, "Factor should be < 1.0", lambda o: lr_scheduler.ReduceLROnPlateau(o, factor=1.0)),
    (ValueError, "mode x is unknown", lambda o: lr_scheduler.ReduceLROnPlateau(o, "x")),
    (ValueError, "threshold mode x is unknown", lambda o: lr_scheduler.ReduceLROnPlateau(o, threshold_mode="x")),
    (ValueError, "expected 2 min_lrs, got 1", lambda o: lr_scheduler.ReduceLROnPlateau(o, min_lr=[0.1])),
    (ValueError, "at least one scheduler", lambda o: lr_scheduler.SequentialLR(o, [], [])),
    (ValueError, "at least one scheduler to be chained", lambda o: lr_scheduler.ChainedScheduler([])),
    (ValueError, "one more than the number of milestone", lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.StepLR(o, 3)], [3])),
    (TypeError, "at index 0 should have `optimizer`", lambda o: lr_scheduler.SequentialLR(o, [3], [])),
    (ValueError, "does not support `ReduceLROnPlateau`", lambda o: lr_scheduler.ChainedScheduler(
        [lr_scheduler.ReduceLROnPlateau(o)])),
    (ValueError, "belong to the same optimizer", lambda o: lr_scheduler.ChainedScheduler(
        [lr_scheduler.StepLR(o, 3), lr_scheduler.StepLR(ours(), 3)])),
    (ValueError, "takes no other SequentialLR, but got one at index 0", lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.SequentialLR(o, [lr_scheduler.StepLR(o, 3)], [])], [])),
    (ValueError, "cannot start a ChainedScheduler anew at a milestone", lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.StepLR(o, 3), lr_scheduler.ChainedScheduler([lr_scheduler.StepLR(o, 3)])], [3])),
    (ValueError, "anneal_strategy must be", lambda o: swa_utils.SWALR(o, 0.1, anneal_strategy="x")),
    (ValueError, "anneal_epochs must be equal or greater than 0", lambda o: swa_utils.SWALR(o, 0.1, -1)),
]  # fmt: skip


@pytest.mark.parametrize(("error", "message", "make"), ERRORS, ids=[message for _, message, _ in ERRORS])
def test_errors(error, message, make):
    with pytest.raises(error, match=message):
        make(ours(momentum=0.9))


def test_momentum_is_asked_for():
    with pytest.raises(ValueError, match="optimizer must support momentum or beta1 with `cycle_momentum`"):
        lr_scheduler.CyclicLR(ours("Adagrad"), 0.1, 1.0)


def test_one_cycle_ends():
    optimizer = ours(momentum=0.9)
    scheduler = lr_scheduler.OneCycleLR(optimizer, 1.0, total_steps=3)
    for _ in range(3):
        optimizer.step()
        scheduler.step()
    with pytest.raises(ValueError, match=r"Tried to step 4 times\. The specified number of total steps is 3"):
        scheduler.step()
