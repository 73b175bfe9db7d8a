"""Rounding: floor, ceil, round, trunc, frac."""

from __future__ import annotations

from ... import backend
from ...backend.arrays.dtypes import FLOATS
from ...core.extend import BROADCASTING, ELEMENTWISE, FLOAT, ZERO, defop
from .._support.half_precision import in_float32
from .._support.pointwise import one_kernel


@defop
class floor:
    """The largest integer not above x.

    >>> ag.floor(ag.tensor([1.5, -1.5]))
    tensor([ 1., -2.])
    """

    def forward(xp, x): return xp.floor(x).astype(x.dtype, copy=False)
    grad_x = ZERO
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = "floor", "floor_"
    methods = inplace = ufunc = True


@defop
class ceil:
    """The smallest integer not below x.

    >>> ag.ceil(ag.tensor([1.5, -1.5]))
    tensor([ 2., -1.])
    """

    def forward(xp, x): return xp.ceil(x).astype(x.dtype, copy=False)
    grad_x = ZERO
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = "ceil", "ceil_"
    methods = inplace = ufunc = True


def _round(xp, x, *, decimals=0):
    if not decimals:
        return xp.rint(x).astype(x.dtype, copy=False)
    if x.dtype not in FLOATS:
        raise RuntimeError(f"round: decimals={decimals} is not implemented for {x.dtype}; convert with .float() first")
    return _round_to(xp, x, decimals=decimals)


@in_float32
def _round_to(xp, x, *, decimals):
    power = backend.constant(xp, 10.0 ** abs(decimals), x.dtype)
    return xp.rint(x * power) / power if decimals > 0 else xp.rint(x / power) * power


@defop
class round:
    """x rounded to `decimals` decimal places, to tens and so on if negative; halves to even.

    Integers are unchanged; RuntimeError for integers with `decimals`.

    >>> ag.round(ag.tensor([0.5, 1.5, 2.6]))
    tensor([0., 2., 3.])
    >>> ag.round(ag.tensor([1.25, 123.456]), decimals=1)
    tensor([  1.2, 123.5])
    """

    forward = _round
    grad_x = ZERO
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = "round", "round_", "special.round"
    ufunc = "rint"
    methods = inplace = True


@defop
class trunc:
    """x without its fractional part.

    >>> ag.trunc(ag.tensor([1.5, -1.5]))
    tensor([ 1., -1.])
    """

    def forward(xp, x): return xp.trunc(x).astype(x.dtype, copy=False)
    grad_x = ZERO
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = "trunc", "fix", "fix_", "trunc_"
    methods = inplace = ufunc = True


@defop
class frac:
    """The fractional part x - trunc(x), with the sign of x.

    >>> ag.frac(ag.tensor([1.5, -1.25]))
    tensor([ 0.5 , -0.25])
    """

    def forward(xp, x): return x - xp.trunc(x)
    cuda = one_kernel("frac")
    def grad_x(F, g): return g
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = "frac", "frac_"
    methods = inplace = True
