"""In-place random numbers, from the default generator of the tensor's device, or from `generator`. The gradient of the
previous value is zero.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import backend
from ...backend.arrays import dtypes
from ...core.extend import Tensor, as_number, as_numbers, drawn, in_transform, method, tracer, wrap
from ...random import Generator, bernoulli_mask
from ...random.factories import floats
from ...random.generator import source
from ..random.sampling import check_probability, random_bernoulli
from .record import check_writable, refuse_storage
from .write import put


def _prepare(name: str, x: Tensor, generator: Generator | None, floating: bool = True) -> tuple[Generator, int]:
    """The generator, and what check_writable answers, after the checks of an in-place operation."""
    recorded = check_writable(name, x)
    refuse_storage(name, x)
    if floating and x.dtype not in dtypes.FLOATS:
        raise RuntimeError(f"{name} is not implemented for {x.dtype}: it gives numbers of a continuous distribution; "
                           "convert with .float() first")
    return source(x.device, generator), recorded


def _is_noted() -> bool:
    """Whether what is drawn is no matter of x alone: in a transform, and in a call that is compiled."""
    return in_transform() or tracer() is not None


def _noted(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`function`, which inside of a transform fills a new tensor as vmap's `randomness` says, and copies it into x; so
    does a call that is compiled, which draws anew at each replay."""

    @functools.wraps(function)
    def filling(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if not _is_noted():
            return function(x, *args, **kwargs)
        home, dtype = x.device, x.dtype

        def draw(shape: tuple[int, ...]) -> Tensor:
            return function(wrap(backend.make(home, "empty", shape, dtype)), *args, **kwargs)

        return x.copy_(drawn(x.shape, draw))

    return filling


def _wide(x: Tensor) -> Any:
    return dtypes.float64 if x.dtype == dtypes.float64 else dtypes.float32


def _positive(name: str, what: str, value: float) -> None:
    if not value > 0:
        raise RuntimeError(f"{name} expects {what} > 0.0, but found {what}={value:g}")


# ---- continuous ---------------------------------------------------------------------------------------


@method()
@_noted
def normal_(x: Tensor, mean: float = 0, std: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Fills x with normally distributed numbers.

    >>> ag.zeros(2).normal_(mean=3.0, std=0.0)
    tensor([3., 3.])
    """
    mean, std = as_numbers("normal_", mean=mean, std=std)
    stream, recorded = _prepare("normal_", x, generator)
    if std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    return put(x, floats("standard_normal", x.shape, x.dtype, stream, std, mean), recorded)


@method()
@_noted
def uniform_(x: Tensor, start: float = 0, to: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Fills x with numbers uniform on [start, to).

    >>> ag.zeros(2).uniform_(3.0, 3.0)
    tensor([3., 3.])
    """
    start, to = as_numbers("uniform_", start=start, to=to)
    stream, recorded = _prepare("uniform_", x, generator)
    if start > to:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={start:g} > to={to:g}")
    return put(x, floats("random", x.shape, x.dtype, stream, to - start, start), recorded)


@method()
@_noted
def exponential_(x: Tensor, lambd: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Fills x with numbers of density lambd * exp(-lambd * x).

    >>> bool((ag.zeros(3).exponential_(2.0) >= 0).all())
    True
    """
    lambd = as_number("exponential_", "lambd", lambd)
    stream, recorded = _prepare("exponential_", x, generator)
    _positive("exponential_", "lambda", lambd)
    return put(x, floats("standard_exponential", x.shape, x.dtype, stream, 1 / lambd), recorded)


@method()
@_noted
def log_normal_(x: Tensor, mean: float = 1, std: float = 2, *, generator: Generator | None = None) -> Tensor:
    """Fills x with exp of normally distributed numbers; mean and std are those of the logarithm.

    >>> bool((ag.zeros(3).log_normal_() > 0).all())
    True
    """
    mean, std = as_numbers("log_normal_", mean=mean, std=std)
    stream, recorded = _prepare("log_normal_", x, generator)
    _positive("log_normal_", "std", std)
    values = floats("standard_normal", x.shape, _wide(x), stream, std, mean)
    return put(x, backend.namespace(values).exp(values), recorded)


@method()
@_noted
def cauchy_(x: Tensor, median: float = 0, sigma: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Fills x with numbers of density sigma / (pi * ((x - median) ** 2 + sigma ** 2)).

    >>> bool(ag.zeros(3).cauchy_().isfinite().all())
    True
    """
    median, sigma = as_numbers("cauchy_", median=median, sigma=sigma)
    stream, recorded = _prepare("cauchy_", x, generator)
    _positive("cauchy_", "sigma", sigma)
    turns = floats("random", x.shape, _wide(x), stream, math.pi, -math.pi / 2)
    return put(x, backend.namespace(turns).tan(turns) * sigma + median, recorded)


# ---- discrete -----------------------------------------------------------------------------------------


@_noted
def _fill_with_bernoulli(x: Tensor, p: Any, generator: Generator | None) -> Tensor:
    stream, recorded = _prepare("bernoulli_", x, generator, floating=False)
    if isinstance(p, Tensor):
        probabilities = backend.namespace(x._array).broadcast_to(p.detach()._array, x.shape)
        return put(x, random_bernoulli(probabilities, stream)._array, recorded)
    check_probability("bernoulli_", p)
    return put(x, bernoulli_mask(x.shape, p, None, stream), recorded)


@method()
def bernoulli_(x: Tensor, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Fills x, of any dtype, with 1 with probability p, a number or a tensor that broadcasts to x, else with 0.

    >>> ag.zeros(2).bernoulli_(1.0)
    tensor([1., 1.])
    """
    if isinstance(p, Tensor) and _is_noted():
        return x.copy_(random_bernoulli(p.detach().expand(x.shape), generator))
    return _fill_with_bernoulli(x, p, generator)


@method()
@_noted
def geometric_(x: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Fills x with the number of trials of probability p up to the first success, 1 or more.

    >>> bool((ag.zeros(3).geometric_(0.5) >= 1).all())
    True
    """
    p = as_number("geometric_", "p", p)
    stream, recorded = _prepare("geometric_", x, generator, floating=False)
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p:g}")
    xp = backend.namespace_on(x.device)
    failing = xp.log1p(-stream.draw("random", x.shape, dtype=dtypes.float64))
    return put(x, xp.maximum(xp.ceil(failing / math.log1p(-p)), 1), recorded)


def _largest(dtype: np.dtype) -> int:
    """The largest integer n such that the dtype holds all of 0 to n; at most the largest int64."""
    if dtype in dtypes.FLOATS:
        return 1 << dtypes.DIGITS[dtype]
    return 1 if dtype == dtypes.bool_ else min(int(np.iinfo(dtype).max), 2**63 - 1)


@method()
@_noted
def random_(
    x: Tensor, start: int | None = None, to: int | None = None, *, generator: Generator | None = None
) -> Tensor:  # fmt: skip
    """Fills x, of any dtype, with integers in [start, to): random_(), random_(to), random_(start, to).

    Without `to` the upper bound is the dtype's largest integer, of floats the largest up to which all integers are
    exact.

    >>> ag.zeros(2).random_(3, 4)
    tensor([3., 3.])
    """
    start, to = as_numbers("random_", start=start, to=to)
    stream, recorded = _prepare("random_", x, generator, floating=False)
    if start is None or to is None:
        start, to = 0, _largest(x.dtype) + 1 if start is None else start
    if start >= to:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={start} >= to={to}")
    if x.dtype not in dtypes.FLOATS:
        low, high = (0, 1) if x.dtype == dtypes.bool_ else (np.iinfo(x.dtype).min, np.iinfo(x.dtype).max)
        for name, value in (("from", start), ("to - 1", to - 1)):
            if not low <= value <= high:
                raise RuntimeError(f"{name} is out of bounds for {x.dtype}")
    few = x.dtype in dtypes.FULL_FLOATS and to - start <= 1 << 32
    if few and not x.is_cuda:  # for few elements `integers` takes five times as long
        values = np.floor(stream.draw("random", x.shape, dtype=dtypes.float64) * float(to - start))
        return put(x, values + start if start else values, recorded)
    return put(x, stream.draw("integers", start, to, x.shape, dtype=dtypes.int64), recorded)
