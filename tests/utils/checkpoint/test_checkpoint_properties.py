"""Random functions, checkpointed in random ways and within each other, have the derivatives of the plain run."""

import functools
import warnings

import numpy as np
import pytest
from effort import fewer

import autograd_gpu as ag
from autograd_gpu.nn import functional as F
from autograd_gpu.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

hypothesis = pytest.importorskip("hypothesis")
given, settings, st = hypothesis.given, hypothesis.settings, pytest.importorskip("hypothesis.strategies")

WEIGHTS = [ag.tensor(np.random.default_rng(i).standard_normal((4, 4)), requires_grad=True) for i in range(3)]
A, B, C = WEIGHTS


def written_rows(t):
    t = t + 1
    t[1:].sin_()
    return t


def written_row(t):
    t = t.clone()
    t[0] = t[1] * 0.5
    return t


def written_view(t):
    t = t.clone()
    t.view(-1)[::3].mul_(C.view(-1)[::3])
    return t


STEPS = {
    "product": lambda t: (t @ A).tanh(),
    "linear": lambda t: F.linear(t, B, C[0]).sin(),
    "tanh": lambda t: t.tanh(),
    "sigmoid": lambda t: t.sigmoid() * t,
    "dropout": lambda t: F.dropout(t, 0.3),
    "join": lambda t: ag.cat([t[:2], t[2:].tanh().exp()]),
    "norm": lambda t: F.layer_norm(t, (4,)),
    "in place": lambda t: (t * 0.5).add_(t.detach()),
    "activation in place": lambda t: F.relu(t * 1.0, inplace=True),
    "rows": written_rows,
    "row": written_row,
    "view": written_view,
    "halves": lambda t: ag.stack(t.chunk(2, 1)).reshape(4, 4),
    "noise": lambda t: t * ag.rand(4),
    "largest": lambda t: t.max(1, keepdim=True).values + t,
    "detached": lambda t: t.detach().tanh() * t,
    "sorted": lambda t: t.sort(1).values,
    "half": lambda t: t.float().double(),
}
KEPT = {"nothing": [], "products": ["linear", "matmul"], "random": ["random_dropout", "tanh"]}


def wrapped(mode, fn, t):
    if mode == "plain":
        return fn(t)
    if mode in KEPT:
        contexts = functools.partial(create_selective_checkpoint_contexts, KEPT[mode])
        return checkpoint(fn, t, use_reentrant=False, context_fn=contexts)
    return checkpoint(fn, t, use_reentrant=mode == "reentrant", early_stop=mode != "whole")


MODES = ["plain", "early", "whole", *KEPT]


def functions(modes):
    """A function (t, checkpointed) -> t: steps, some of which are functions of the same kind."""

    def run(parts, mode, t, checkpointed):
        def fn(t):
            for part in parts:
                t = STEPS[part](t) if isinstance(part, str) else part(t, checkpointed)
            return t

        return wrapped(mode if checkpointed else "plain", fn, t)

    def several(part):
        lists = st.lists(part, min_size=1, max_size=5)
        return st.builds(lambda parts, mode: functools.partial(run, parts, mode), lists, st.sampled_from(modes))

    step = st.sampled_from(sorted(STEPS))
    return several(st.one_of(step, several(st.one_of(step, several(step)))))


def backward(y, x):
    y.backward()
    return [x.grad, *[w.grad for w in WEIGHTS]]


def twice(y, x):
    y.backward(retain_graph=True)
    return backward(y, x)


def partial(y, x):
    return ag.autograd.grad(y, [A, x], allow_unused=True)


def second(y, x):
    (g,) = ag.autograd.grad(y, x, create_graph=True)
    return ag.autograd.grad((g * g).sum(), [x, *WEIGHTS], allow_unused=True) if g.requires_grad else [g]


def derivatives(fn, ask, checkpointed):
    x = ag.tensor(np.random.default_rng(5).standard_normal((4, 4)), requires_grad=True)
    for w in WEIGHTS:
        w.grad = None
    ag.manual_seed(0)
    y = fn(x * 1.0, checkpointed).sin().sum()
    return [None if g is None else g.numpy(force=True) for g in ask(y, x)]


def compare(fn, ask):
    with np.errstate(all="ignore"):
        pairs = zip(derivatives(fn, ask, True), derivatives(fn, ask, False), strict=True)
    for actual, expected in pairs:
        assert (actual is None) == (expected is None)
        if actual is not None:
            np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-12)


@settings(max_examples=fewer(150), deadline=None)
@given(functions(MODES), st.sampled_from([backward, twice, partial, second]))
def test_derivatives(fn, ask):
    compare(fn, ask)


@settings(max_examples=fewer(75), deadline=None)
@given(functions([*MODES, "reentrant"]))
def test_gradients_with_reentrant_ones(fn):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # within a reentrant one nothing requires grad
        compare(fn, backward)
