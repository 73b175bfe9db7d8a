"""Public functions, layers, losses and optimizers, compiled beside eager on data that no trace has seen.

Bits, strides and dtypes have to be equal: of results (order 0), gradients (1), and gradients of gradients (2).
"""

import warnings
from itertools import cycle

import numpy as np
import pytest
from module_cases import CASES as MODULES
from module_cases import LOSSES
from optim_cases import CASES as OPTIMIZERS
from optim_cases import ONE_EACH
from transformed_calls import of_module, outputs, public

import autograd_gpu as ag
from autograd_gpu import nn, optim
from autograd_gpu.autograd import grad

pytestmark = [pytest.mark.cpu, pytest.mark.filterwarnings("ignore::RuntimeWarning")]
ALLOWED = (  # why a call may stay eager
    "the size of the result of", "ag.tensor copies the values of an array",
)  # fmt: skip
READS = (  # calls that look at values: at indices, at offsets, at whether two tensors are equal
    "scatter_reduce", "index_reduce", "masked_scatter", "equal", "allclose", "EmbeddingBag", "quantile",
    "BatchNorm1d",  # which divides by the number of batches if momentum is None
)  # fmt: skip


def derived(run, order):
    """The results of `run`, or their derivatives of this order by the tensors that require grad."""

    def fn(*tensors):
        outs = [x for x in outputs(run(*tensors)) if isinstance(x, ag.Tensor)]
        wanted = [x for x in tensors if x.requires_grad]
        for more in reversed(range(order)):
            smooth = [x for x in outs if x.requires_grad]
            if not smooth:
                return [x.detach() for x in outs]
            found = grad([(x * x).sum() for x in smooth], wanted, create_graph=more > 0, allow_unused=True)
            outs = [x for x in found if x is not None]
        return [x.detach() for x in outs]

    return fn


def tensors(arrays, requires_grad):
    return [ag.tensor(np.array(a), requires_grad=requires_grad and a.dtype.kind == "f") for a in arrays]


def described(results):
    return [(x._array.tobytes(), x._array.shape, x._array.strides, x._array.dtype.str) for x in results]


def ran(fn, given):
    ag.manual_seed(5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it stays eager: `wrong` asks for the reason
        return fn(*given)


def wrong(call, order):
    """What is wrong with one call, compiled, or None; "nothing" if it cannot be called in this way at all."""
    fn = derived(call.run, order)
    given = lambda k: tensors(call.examples[k], order > 0)  # noqa: E731
    try:
        expected = [described(ran(fn, given(k))) for k in (2, 0)]
    except Exception:
        return "nothing"  # eager does not take it: an input may not require grad
    compiled = ag.compile(fn)
    for k in (0, 1):
        ran(compiled, given(k))
    replayed = [ran(compiled, given(k)) for k in (2, 0)]  # the second must leave the results of the first alone
    if list(map(described, replayed)) != expected:
        return "other results"
    allowed = (*ALLOWED, "the values of a tensor are read") if call.name in READS else ALLOWED
    if compiled.counts.compiled == 2 or any(text.startswith(allowed) for text in compiled._warned):
        return None
    return f"{compiled.counts} {compiled._warned}"


def check(calls, order, least=0.6):
    """Each call, compiled, does what it does; at least the part `least` of them can be called in this way."""
    failed, count, total = {}, 0, 0
    for call in calls:
        if not all(a.size for a in call.examples[0]):
            continue
        total += 1
        reason = wrong(call, order)
        count += reason != "nothing"
        if reason not in (None, "nothing"):
            failed[f"{call.name}: {call.label}"] = reason
    assert not failed, "\n".join(f"{name}: {reason}" for name, reason in failed.items())
    assert count >= least * total


@pytest.mark.more
@pytest.mark.parametrize("order", [0, 1, 2])
def test_public_functions(order):
    """Second derivatives of one call of each: those of every sample of an op are in test_op_table.py."""
    check([call for calls in public().values() for call in (calls[:1] if order == 2 else calls)], order)


@pytest.mark.more
@pytest.mark.parametrize(("order", "training"), [(0, True), (0, False), (1, True), (1, False), (2, True)])
def test_layers_and_losses(order, training):
    check([call for name in MODULES | LOSSES for call in of_module(name, training)], order)


# ---- training: what the calls leave behind ---------------------------------------------------------------


def state_of(*objects):
    """The bits of all tensors in modules, parameters and optimizers."""
    found = []
    for x in objects:
        tensors = x.state_dict()
        if isinstance(x, optim.Optimizer):
            tensors = {(i, k): v for i, row in tensors["state"].items() for k, v in row.items()}
        found += [(k, v._array.tobytes()) for k, v in tensors.items() if isinstance(v, ag.Tensor)]
    return found


def trained(name, options, schedule, compiled, steps=12):
    """The loss, parameters and state of the optimizer after each step, and how often a program ran."""
    ag.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    groups = [{"params": list(model[0].parameters())}, {"params": list(model[2].parameters()), "lr": 0.002}]
    optimizer = getattr(optim, name)(groups, **options)
    scheduler = schedule(optimizer)

    def step(x):
        optimizer.zero_grad()
        loss = (model(x) ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = ag.compile(step) if compiled else step
    random, seen = np.random.default_rng(1), []
    for _ in range(steps):
        seen.append((float(run(ag.tensor(random.normal(size=(5, 3)).astype("f4")))), state_of(model, optimizer)))
        scheduler.step()
    return seen, run.counts.compiled if compiled else 0


SCHEDULES = (
    lambda optimizer: optim.lr_scheduler.ExponentialLR(optimizer, 0.8),
    lambda optimizer: optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 / (1 + epoch)),
    lambda optimizer: optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 3),
)


def check_optimizers(cases):
    failed = []
    for (name, options), schedule in zip(cases, cycle(SCHEDULES), strict=False):
        expected, _ = trained(name, options, schedule, False)
        seen, replays = trained(name, options, schedule, True)
        if seen != expected or replays < 8:
            first = next((i for i, (a, b) in enumerate(zip(expected, seen, strict=True)) if a != b), None)
            failed.append(f"{name} {options}: differs at step {first}, {replays} replays")
    assert not failed, "\n".join(failed)


def test_one_of_each_optimizer():
    check_optimizers(ONE_EACH)


@pytest.mark.more
def test_all_optimizers():
    check_optimizers(OPTIMIZERS)


def test_one_cycle_moves_momentum():
    def schedule(optimizer):
        return optim.lr_scheduler.OneCycleLR(optimizer, [0.1, 0.05], total_steps=20)

    for case in (("SGD", {"lr": 0.1, "momentum": 0.9}), ("AdamW", {"lr": 0.1})):
        seen, replays = trained(*case, schedule, True)
        assert seen == trained(*case, schedule, False)[0]
        assert replays >= 8


def test_buffers_of_batch_norm():
    def run(compiled):
        ag.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.3))
        call = ag.compile(model) if compiled else model
        random, seen = np.random.default_rng(1), []
        for i in range(16):
            model.train(i % 8 < 5)
            result = call(ag.tensor(random.normal(size=(5, 3)).astype("f4")))
            result.sum().backward()
            grads = [p.grad._array.tobytes() for p in model.parameters()]
            seen.append((result._array.tobytes(), grads, state_of(model)))
        return seen, call

    seen, call = run(True)
    assert seen == run(False)[0]
    assert call.counts.compiled >= 8
