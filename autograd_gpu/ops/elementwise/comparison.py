"""Comparisons and tests with bool results; not differentiable."""

from __future__ import annotations

import math

import numpy as np

from ... import backend
from ...backend.arrays.dtypes import FLOATS, FULL_FLOATS, get_default_dtype
from ...backend.arrays.memory_format import copy_order
from ...core.extend import ANY, BROADCASTING, BY_VALUE, PROMOTE, SAME, Tensor, defop, public


@defop
class eq:
    """a == b, broadcasting.

    >>> ag.eq(ag.tensor([1, 2]), 2)
    tensor([False,  True])
    """

    def forward(xp, a, b): return xp.equal(a, b)
    nondiff = True
    types, numbers = PROMOTE, BY_VALUE
    batch = BROADCASTING
    ufunc = "equal"
    public = methods = inplace = True


@defop
class ne:
    """a != b, broadcasting.

    >>> ag.ne(ag.tensor([1, 2]), 2)
    tensor([ True, False])
    """

    def forward(xp, a, b): return xp.not_equal(a, b)
    nondiff = True
    types, numbers = PROMOTE, BY_VALUE
    batch = BROADCASTING
    public = "ne", "not_equal"
    ufunc = "not_equal"
    methods = inplace = True


@defop
class lt:
    """a < b, broadcasting.

    >>> ag.lt(ag.tensor([1, 2]), 2)
    tensor([ True, False])
    """

    def forward(xp, a, b): return xp.less(a, b)
    nondiff = True
    types, numbers = PROMOTE, BY_VALUE
    batch = BROADCASTING
    public = "lt", "less"
    ufunc = "less"
    methods = inplace = True


@defop
class le:
    """a <= b, broadcasting.

    >>> ag.le(ag.tensor([1, 3]), 2)
    tensor([ True, False])
    """

    def forward(xp, a, b): return xp.less_equal(a, b)
    nondiff = True
    types, numbers = PROMOTE, BY_VALUE
    batch = BROADCASTING
    public = "le", "less_equal"
    ufunc = "less_equal"
    methods = inplace = True


@defop
class gt:
    """a > b, broadcasting.

    >>> ag.gt(ag.tensor([1, 3]), 2)
    tensor([False,  True])
    """

    def forward(xp, a, b): return xp.greater(a, b)
    nondiff = True
    types, numbers = PROMOTE, BY_VALUE
    batch = BROADCASTING
    public = "gt", "greater"
    ufunc = "greater"
    methods = inplace = True


@defop
class ge:
    """a >= b, broadcasting.

    >>> ag.ge(ag.tensor([1, 2]), 2)
    tensor([False,  True])
    """

    def forward(xp, a, b): return xp.greater_equal(a, b)
    nondiff = True
    types, numbers = PROMOTE, BY_VALUE
    batch = BROADCASTING
    public = "ge", "greater_equal"
    ufunc = "greater_equal"
    methods = inplace = True


@defop
class logical_and:
    """Logical and of a and b, broadcasting.

    >>> ag.logical_and(ag.tensor([True, True]), ag.tensor([True, False]))
    tensor([ True, False])
    """

    def forward(xp, a, b): return xp.logical_and(a, b)
    nondiff = True
    types, numbers = ANY, True
    batch = BROADCASTING
    public = methods = inplace = ufunc = True


@defop
class logical_or:
    """Logical or of a and b, broadcasting.

    >>> ag.logical_or(ag.tensor([True, False]), ag.tensor([False, False]))
    tensor([ True, False])
    """

    def forward(xp, a, b): return xp.logical_or(a, b)
    nondiff = True
    types, numbers = ANY, True
    batch = BROADCASTING
    public = methods = inplace = ufunc = True


@defop
class logical_not:
    """Logical not.

    >>> ag.logical_not(ag.tensor([True, False]))
    tensor([False,  True])
    """

    def forward(xp, x): return xp.logical_not(x)
    nondiff = True
    batch = BROADCASTING
    public = methods = inplace = ufunc = True


@defop
class isnan:
    """Where x is NaN.

    >>> ag.isnan(ag.tensor([1.0, float("nan")]))
    tensor([False,  True])
    """

    def forward(xp, x): return xp.isnan(x)
    nondiff = True
    batch = BROADCASTING
    takes_out = False
    public = methods = ufunc = True


@defop
class isfinite:
    """Where x is neither infinite nor NaN.

    >>> ag.isfinite(ag.tensor([1.0, float("inf")]))
    tensor([ True, False])
    """

    def forward(xp, x): return xp.isfinite(x)
    nondiff = True
    batch = BROADCASTING
    takes_out = False
    public = methods = ufunc = True


@defop
class logical_xor:
    """Logical exclusive or of a and b, broadcasting.

    >>> ag.logical_xor(ag.tensor([True, True]), ag.tensor([True, False]))
    tensor([False,  True])
    """

    def forward(xp, a, b): return xp.logical_xor(a, b)
    nondiff = True
    types, numbers = ANY, True
    batch = BROADCASTING
    public = methods = inplace = ufunc = True


@defop
class isinf:
    """Where x is infinite, of either sign.

    >>> ag.isinf(ag.tensor([1.0, float("-inf")]))
    tensor([False,  True])
    """

    def forward(xp, x): return xp.isinf(x)
    nondiff = True
    batch = BROADCASTING
    takes_out = False
    public = methods = ufunc = True


def _equals(xp, x, value):
    return x == (backend.constant(xp, value, x.dtype) if x.dtype in FULL_FLOATS else value)


@defop
class isposinf:
    """Where x is plus infinity.

    >>> ag.isposinf(ag.tensor([float("inf"), float("-inf")]))
    tensor([ True, False])
    """

    def forward(xp, x): return _equals(xp, x, math.inf)
    nondiff = True
    batch = BROADCASTING
    public = methods = True


@defop
class isneginf:
    """Where x is minus infinity.

    >>> ag.isneginf(ag.tensor([float("inf"), float("-inf")]))
    tensor([False,  True])
    """

    def forward(xp, x): return _equals(xp, x, -math.inf)
    nondiff = True
    batch = BROADCASTING
    public = methods = True


@defop
class isreal:
    """True everywhere: there are no complex tensors.

    >>> ag.isreal(ag.tensor([1.0, 2.0]))
    tensor([ True,  True])
    """

    def forward(xp, x): return xp.ones_like(x, bool, order=copy_order(x))
    nondiff = True
    batch = BROADCASTING
    takes_out = False
    public = methods = True


@defop
class signbit:
    """Where the sign bit of x is set, -0.0 included.

    >>> ag.signbit(ag.tensor([1.0, -0.0, -2.0]))
    tensor([False,  True,  True])
    """

    def forward(xp, x): return xp.signbit(x) if x.dtype in FLOATS else x < 0
    nondiff = True
    batch = BROADCASTING
    public = methods = ufunc = True


# ---- nearly equal, all equal -------------------------------------------------------------------------


def _isclose(xp, a, b, *, rtol=1e-05, atol=1e-08, equal_nan=False):
    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        if not tolerance >= 0:
            raise RuntimeError(f"{name} must be greater than or equal to zero, but got {tolerance}")
    close = a == b
    if equal_nan and a.dtype in FLOATS:
        close |= xp.isnan(a) & xp.isnan(b)
    if not rtol and not atol:
        return close
    dtype = a.dtype if a.dtype in FLOATS else get_default_dtype()
    a, b = a.astype(dtype, copy=False), b.astype(dtype, copy=False)
    with np.errstate(invalid="ignore"):  # inf - inf
        apart = xp.absolute(a - b)
    return close | (xp.isfinite(apart) & (apart <= atol + xp.absolute(b * rtol)))


@defop
class isclose:
    """Where |a - b| <= atol + rtol * |b|, broadcasting; equal infinities are close, NaNs if `equal_nan`.

    >>> ag.isclose(ag.tensor([1.0, 2.0]), ag.tensor([1.0, 2.1]))
    tensor([ True, False])
    """

    forward = _isclose
    nondiff = True
    types = SAME
    batch = BROADCASTING
    takes_out = False
    public = methods = True


@public(methods=True)
def allclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether `isclose` is True everywhere, as a Python bool (synchronizes a CUDA device).

    >>> ag.allclose(ag.tensor([1.0, 2.0]), ag.tensor([1.0, 2.0 + 1e-6]))
    True
    """
    return bool(isclose(input, other, rtol, atol, equal_nan).array.all())


@public(methods=True)
def equal(input: Tensor, other: Tensor) -> bool:
    """Whether a and b have the same shape and equal elements, as a Python bool (synchronizes a CUDA device).

    >>> ag.equal(ag.tensor([1, 2]), ag.tensor([1, 2]))
    True
    """
    for name, x in (("input", input), ("other", other)):
        if not isinstance(x, Tensor):
            raise TypeError(f"equal(): argument '{name}' must be Tensor, not {type(x).__name__}")
    if input.shape != other.shape:
        return False
    same = eq(input, other).array
    return bool(np.count_nonzero(same) == same.size if type(same) is np.ndarray else same.all())
