"""What cases are made of: data, logs of calls, and the comparison of compiled calls with plain ones."""

import warnings

import numpy as np

import autograd_gpu as ag

CASES = {}


def case(function):
    """Registers a case by its name."""
    CASES[function.__name__] = function, 1
    return function


def replaying(count):
    """The same for a case that has to replay at least `count` calls."""

    def register(function):
        CASES[function.__name__] = function, count
        return function

    return register


def data(i, *shape, **options):
    """A tensor of other numbers for each i; 4 x 3 if no shape is given."""
    values = np.random.default_rng(i).uniform(-1, 1, shape or (4, 3)).astype("f4")
    return ag.tensor(values, **options)


def bits(x, versions=False):
    """What can be seen of tensors in nested tuples, lists and dicts, as plain data."""
    if isinstance(x, (list, tuple)):
        return [type(x).__name__, *(bits(part, versions) for part in x)]
    if isinstance(x, dict):
        return [(key, bits(part, versions)) for key, part in x.items()]
    if not isinstance(x, ag.Tensor):
        return x
    seen = x._array.tobytes(), x.shape, x._array.strides, str(x.dtype), x.requires_grad, x.is_leaf, x.is_inference()
    return (*seen, x._version) if versions and not x.is_inference() else seen


def called(f, *args, state=(), **kwargs):
    """The result of a call and the state after it, or the error that it raised."""
    try:
        result = bits(f(*args, **kwargs))
    except (RuntimeError, IndexError, ValueError, TypeError, NameError) as error:
        result = type(error).__name__, str(error)
    return result, bits([*state, *(t.grad for t in state if t.is_leaf)], versions=True)


def each(f, calls=5, state=(), **options):
    """The log of some calls of f with other numbers each."""
    return [called(f, data(i, **options), state=state) for i in range(calls)]


def in_turns(f, samples, rounds=4):
    """The log of calls with each of the samples some times in a row, and then in turns."""
    log = [called(f, *make(i)) for make in samples for i in range(rounds)]
    return log + [called(f, *make(i)) for i in range(2) for make in samples]


def changing(f, wrap, *changes):
    """The log of calls before and after each change."""
    f = wrap(f)
    log = each(f, 4)
    for change in changes:
        change()
        log += each(f, 4)
    return log


def plain(function):
    """The function as it is."""
    return function


def fault(name):
    """What a case finds wrong with compiled calls, or ""."""
    make, replays = CASES[name]
    made = []

    def wrap(function):
        made.append(ag.compile(function))
        return made[-1]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = repr(make(plain))
        try:
            seen = repr(make(wrap))
        except Exception as error:
            return f"raises {error!r}"
    if seen != expected:
        return "other results"
    count = sum(f.counts.compiled for f in made)
    return "" if count >= replays else f"{count} replays: {[f.counts for f in made]}, {[f._warned for f in made]}"
