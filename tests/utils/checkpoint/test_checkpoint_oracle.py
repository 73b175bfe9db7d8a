"""utils.checkpoint beside PyTorch's: the same warnings, errors and texts, and as many runs of the function."""

import inspect
import warnings

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.utils import checkpoint as ours

torch = pytest.importorskip("torch")
theirs = pytest.importorskip("torch.utils.checkpoint")
pytestmark = pytest.mark.cpu


def squared(calls):
    """A function that does more in its second run."""

    def fn(x):
        calls.append(1)
        return (x[: len(calls)] * x[: len(calls)]).sin()

    return fn


def shorter(x, calls):
    calls.append(1)
    return x.sin().exp() if len(calls) == 1 else x.sin()


SITUATIONS = {
    "by default": lambda m, x: m.checkpoint(lambda x: x.sin(), x),
    "nothing requires grad": lambda m, x: m.checkpoint(lambda x: x.sin(), x.detach(), use_reentrant=True),
    "reentrant keywords": lambda m, x: m.checkpoint(lambda x: x.sin(), x, use_reentrant=True, scale=1, shift=2),
    "reentrant debug": lambda m, x: m.checkpoint(lambda x: x.sin(), x, use_reentrant=True, debug=True),
    "reentrant grad": lambda m, x: _grad(m.checkpoint(lambda x: x.sin(), x, use_reentrant=True), x),
    "reentrant inputs": lambda m, x: m.checkpoint(lambda x: x.sin(), x, use_reentrant=True).sum().backward(inputs=[x]),
    "detached": lambda m, x: m.checkpoint(lambda x: x.detach(), x, use_reentrant=True).sum().backward(),
    "twice": lambda m, x: _twice(m.checkpoint(lambda x: x.sin(), x, use_reentrant=False).sum()),
    "twice, reentrant": lambda m, x: _twice(m.checkpoint(lambda x: x.sin(), x, use_reentrant=True).sum()),
    "metadata": lambda m, x: m.checkpoint(squared([]), x, use_reentrant=False).sum().backward(),
    "number": lambda m, x: m.checkpoint(shorter, x, [], use_reentrant=False).sum().backward(),
    "check": lambda m, x: m.checkpoint(squared([]), x, use_reentrant=False, determinism_check="some"),
    "debug and contexts": lambda m, x: m.checkpoint(squared([]), x, use_reentrant=False, debug=True, context_fn=list),
    "sequential default": lambda m, x: m.checkpoint_sequential([squared([])], 1, x),
    "sequential keywords": lambda m, x: m.checkpoint_sequential([squared([])], 1, x, use_reentrant=False, a=1),
    "policy": lambda m, x: m.create_selective_checkpoint_contexts("mm"),
    "list": lambda m, x: m.detach_variable([x]),
}  # fmt: skip


def _grad(y, x):
    (ag if isinstance(y, ag.Tensor) else torch).autograd.grad(y.sum(), x)


def _twice(y):
    y.backward()
    y.backward()


def outcome(situation, module, x):
    """The kinds and texts of the warnings and the error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            situation(module, x)
            error = None
        except Exception as raised:
            error = raised
    return [(w.category, str(w.message)) for w in caught], type(error).__name__, str(error)


@pytest.mark.parametrize("name", SITUATIONS)
def test_warnings_and_errors(name):
    numbers = np.arange(1.0, 4.0)
    result = outcome(SITUATIONS[name], ours, ag.tensor(numbers, requires_grad=True))
    expected = outcome(SITUATIONS[name], theirs, torch.tensor(numbers, requires_grad=True))
    assert result[1] == expected[1]
    assert [kind for kind, _ in result[0]] == [kind for kind, _ in expected[0]]
    pairs = [(a, b) for (_, a), (_, b) in zip(result[0], expected[0], strict=True)] + [(result[2], expected[2])]
    for mine, text in pairs:
        assert _sentence(mine) == _sentence(text)


def _sentence(text):
    """The first one, with PyTorch's name for what it prints."""
    for name in ("autograd_gpu.utils.checkpoint", "torch.utils.checkpoint"):
        text = text.replace(f"{name}.checkpoint_sequential: ", "").replace(name, "NAME")
    return text.split(". ")[0].split("\n")[0]


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("reentrant", [True, False])
def test_number_of_runs(reentrant, early):
    """Nested, with backward inside, twice through a retained graph."""

    def runs(m, x):
        counts = {"outer": 0, "inner": 0, "late": 0}

        def inner(x):
            counts["inner"] += 1
            y = x.sin().cos()
            counts["late"] += 1
            return y

        def outer(x):
            counts["outer"] += 1
            return m.checkpoint(inner, x.exp(), use_reentrant=reentrant).exp()

        with m.set_checkpoint_early_stop(early), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # in a reentrant one nothing requires grad
            y = m.checkpoint(outer, x, use_reentrant=reentrant).sum()
            y.backward(retain_graph=True)
            y.backward()
        return counts, x.grad.numpy()

    numbers = np.arange(1.0, 4.0)
    results, expected = (runs(m, lib.tensor(numbers, requires_grad=True)) for m, lib in ((ours, ag), (theirs, torch)))
    assert results[0] == expected[0]
    np.testing.assert_allclose(results[1], expected[1])


@pytest.mark.parametrize("name", [
    "checkpoint", "checkpoint_sequential", "create_selective_checkpoint_contexts", "detach_variable",
    "set_checkpoint_debug_enabled", "set_checkpoint_early_stop",
])  # fmt: skip
def test_signatures(name):
    def plain(function):
        result = inspect.signature(function).parameters.values()
        return {p.name: p.kind for p in result if p.name != "preserve_rng_state"}  # one of **kwargs there

    assert plain(getattr(ours, name)) == plain(getattr(theirs, name))


def test_policies():
    assert [(p.name, p.value) for p in ours.CheckpointPolicy] == [(p.name, p.value) for p in theirs.CheckpointPolicy]
