"""Quotients, remainders and common divisors of two operands."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...backend.arrays.dtypes import FLOATS
from ...backend.cuda import exact
from ...core.extend import BROADCASTING, ELEMENTWISE, FLOAT, PROMOTE, RECORD, ZERO, Tensor, defop, public
from .._support.passes import in_float64
from .bitwise import integers


@defop
class div:
    """a / b, broadcasting; integers give the default float dtype.

    >>> ag.div(ag.tensor([1, 2]), 2)
    tensor([0.5, 1. ])
    """

    def forward(xp, a, b): return xp.true_divide(a, b)
    def grad_a(F, g, b): return g / b
    def grad_b(F, g, a, b): return -g * (a / b) / b  # without `out`, which may be written to
    types, broadcasts, numbers = FLOAT, True, True
    jvp, batch = ELEMENTWISE, BROADCASTING
    def formula(a, b): return a / b
    public = "true_divide"
    ufunc = "divide", "true_divide"
    methods = no_lossy_save = True


def _divisor(a, b):
    """b, after PyTorch's check for integer division by zero. An empty a has no element to divide."""
    if (a if type(a) is np.ndarray else b).dtype.kind not in "iub":
        return b
    if (np.count_nonzero(b) < b.size if type(b) is np.ndarray else not b) and getattr(a, "size", True):
        raise RuntimeError("ZeroDivisionError: integer division or modulo by zero")
    return b


def _floored(a, b):
    """floor(a / b) of float32 in float64, exact below 2 ** 28, since quotients of float32 lie apart; else NaN."""
    return _bounded(np.floor(a / b))


def _bounded(quotient):
    return quotient if np.absolute(quotient).max(initial=0.0) < 2.0**28 else np.float64(np.nan)


def _rest(a, b, quotient, sign):
    """a - b * quotient, where 0 has the sign of `sign`, as everything else."""
    rest = a - quotient * b
    return rest if rest.all() else np.copysign(rest, sign)


# NumPy calls C's fmod for each element, which divides bit by bit.
_FLOOR_DIVIDE = in_float64(lambda xp, a, b: xp.floor_divide(a, b), _floored)
_REMAINDER = in_float64(lambda xp, a, b: xp.remainder(a, b), lambda a, b: _rest(a, b, _floored(a, b), b))
_FMOD = in_float64(lambda xp, a, b: xp.fmod(a, b), lambda a, b: _rest(a, b, _bounded(np.trunc(a / b)), a))


@defop
class floor_divide:
    """The quotient rounded towards minus infinity; the derivative is zero.

    >>> ag.floor_divide(ag.tensor([7.0, -7.0]), 2.0)
    tensor([ 3., -4.])
    """

    def forward(xp, a, b): return _FLOOR_DIVIDE(np, a, _divisor(a, b))
    def cuda(xp, a, b): return exact.floor_divide(a, b)
    grad_a = grad_b = ZERO
    types, broadcasts, numbers = PROMOTE, True, True
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = methods = inplace = ufunc = True


@defop
class remainder:
    """a modulo b with the sign of b, broadcasting.

    >>> ag.remainder(ag.tensor([7.0, -7.0]), 4.0)
    tensor([3., 1.])
    """

    def forward(xp, a, b): return _REMAINDER(np, a, _divisor(a, b))
    def cuda(xp, a, b): return exact.remainder(a, b)
    def grad_a(F, g): return g
    def grad_b(F, g, a, b): return -g * F.floor_divide(a, b)
    types, broadcasts, numbers = PROMOTE, True, True
    scalars = ("a", "b")
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = methods = inplace = ufunc = True


def _fmod(xp, a, b): return np.fmod(a, _divisor(a, b))
def _fmod_cuda(xp, a, b): return exact.fmod(a, b)  # by zero undefined


def _truncated(fmod, xp, a, b):
    if (a if hasattr(a, "dtype") else b).dtype in FLOATS:
        return xp.trunc(xp.true_divide(a, b))
    rest = fmod(xp, a, b)
    return xp.floor_divide(a - rest, b)  # a multiple of b


@defop
class trunc_divide:
    """The quotient rounded towards zero; the derivative is zero.

    >>> ag.div(ag.tensor([7.0, -7.0]), 2.0, rounding_mode="trunc")
    tensor([ 3., -3.])
    """

    forward, cuda = partial(_truncated, _fmod), partial(_truncated, _fmod_cuda)
    grad_a = grad_b = ZERO
    types, broadcasts, numbers = PROMOTE, True, True
    jvp, batch = ELEMENTWISE, BROADCASTING


@public("divide", "div", methods=True)
def divide(input: Any, other: Any, *, rounding_mode: str | None = None, out: Tensor | None = None) -> Tensor:
    """a / b, broadcasting; `rounding_mode` "floor" rounds towards minus infinity, "trunc" towards zero.

    Without rounding integers give the default float dtype. With rounding they stay integers, and the derivative is
    zero.

    >>> ag.div(ag.tensor([7, -7]), 2, rounding_mode="floor")
    tensor([ 3, -4])
    """
    if out is not None:
        return RECORD.written("div", out, (input, other), divide, input, other, rounding_mode=rounding_mode)
    if rounding_mode is None:
        return div(input, other)
    if rounding_mode == "floor":
        return floor_divide(input, other)
    if rounding_mode == "trunc":
        return trunc_divide(input, other)
    raise RuntimeError("div expected rounding_mode to be one of None, 'trunc', or 'floor' but found "
                       f"{rounding_mode!r}")


@defop
class fmod:
    """a modulo b with the sign of a, broadcasting.

    >>> ag.fmod(ag.tensor([7.0, -7.0]), 4.0)
    tensor([ 3., -3.])
    """

    def forward(xp, a, b): return _FMOD(np, a, _divisor(a, b))
    def cuda(xp, a, b): return exact.fmod(a, b)
    def grad_a(F, g): return g
    def grad_b(F, g, a, b): return -g * F.trunc_divide(a, b)
    types, broadcasts, numbers = PROMOTE, True, True
    scalars = ("b",)
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = methods = inplace = ufunc = True


# ---- common divisors and multiples of integers -------------------------------------------------------


@defop
class gcd:
    """The greatest common divisor of integers, broadcasting; gcd(0, 0) is 0.

    >>> ag.gcd(ag.tensor([12, 5]), ag.tensor([8, 10]))
    tensor([4, 5])
    """

    def forward(xp, a, b): return xp.gcd(*integers("gcd", a, b))
    nondiff = True
    types = PROMOTE
    batch = BROADCASTING
    public = "gcd", "gcd_"
    methods = inplace = ufunc = True


@defop
class lcm:
    """The least common multiple of integers, broadcasting; lcm(a, 0) is 0.

    >>> ag.lcm(ag.tensor([4, 5]), ag.tensor([6, 10]))
    tensor([12, 10])
    """

    def forward(xp, a, b): return xp.lcm(*integers("lcm", a, b))
    nondiff = True
    types = PROMOTE
    batch = BROADCASTING
    public = "lcm", "lcm_"
    methods = inplace = ufunc = True
