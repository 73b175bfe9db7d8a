"""The table of refused calls, and how they are run."""

import re
import warnings

import numpy as np

import autograd_gpu as ag

REFUSED = {}


def refused(pattern):
    """Registers make(), which gives a function of a tensor of shape (4, 3), and what the warning says."""

    def register(make):
        REFUSED[make.__name__] = make, pattern
        return make

    return register


def calls(f, count=7, given=None, shown=None):
    """The results of calls, as bytes. given(x): what f gets in the place of x; shown(result): what is looked at."""
    random, seen = np.random.default_rng(1), []
    for _ in range(count):
        x = ag.tensor(random.uniform(-1, 1, (4, 3)).astype("f4"), requires_grad=True)
        result = f(x if given is None else given(x))
        seen.append((result if shown is None else shown(result))._array.tobytes())
    return seen


def started(make):
    """The function, and what `calls` gets besides: how it is called."""
    ag.manual_seed(0)
    made = make()
    ag.manual_seed(1)
    f, given, shown = (*made, None, None)[:3] if isinstance(made, tuple) else (made, None, None)
    return f, {"given": given, "shown": shown}


def fault(name):
    """What is wrong with the compiled run of one of the functions, or ""."""
    make, pattern = REFUSED[name]
    f, options = started(make)
    expected = calls(f, **options)
    f, options = started(make)
    f = ag.compile(f)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            seen = calls(f, **options)
        except Exception as error:
            return f"raises {error!r}"
        if seen != expected:
            return "other results"
    warned = [str(w.message) for w in caught if "runs eagerly" in str(w.message)]
    if len(warned) != 1 or not re.search(pattern, warned[0]):
        return f"it warns of {warned}"
    return "" if f.counts.compiled == 0 and f.counts.eager >= 3 else f"not refused: {f.counts}"
