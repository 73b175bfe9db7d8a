"""Which parameters of a test `make test` runs."""

import pytest


def first(values, count=1):
    """The values as parameters of a test; those after the first `count` are marked `more`."""
    values = list(values)
    return values[:count] + [_more(value) for value in values[count:]]


def where(condition, values):
    """The values as parameters of a test; those for which the condition is false are marked `more`."""
    return [value if condition(value) else _more(value) for value in values]


def _more(value):
    return pytest.param(value, marks=pytest.mark.more)
