"""Arithmetic of two operands, comparisons and selection."""

from __future__ import annotations

import numpy as np

from .. import backend
from ..backend import dtypes
from ..core.dispatch import defop
from ..core.op import ANY, FLOAT, PROMOTE, ZERO

# ---- arithmetic ------------------------------------------------------------------------------------


@defop
class add:
    """a + alpha * b, broadcasting.

    >>> ag.add(ag.tensor([1.0, 2.0]), 1.0)
    tensor([2., 3.])
    """

    def forward(xp, a, b, *, alpha=1): return a + b if alpha == 1 else a + scaled(b, alpha)
    def grad_a(F, g): return g
    def grad_b(F, g, alpha): return g if alpha == 1 else g * alpha
    types, broadcasts, numbers = PROMOTE, True, True


@defop
class sub:
    """a - alpha * b, broadcasting.

    >>> ag.sub(ag.tensor([1.0, 2.0]), 1.0)
    tensor([0., 1.])
    """

    def forward(xp, a, b, *, alpha=1): return xp.subtract(a, b if alpha == 1 else scaled(b, alpha))
    def grad_a(F, g): return g
    def grad_b(F, g, alpha): return -g if alpha == 1 else g * -alpha
    types, broadcasts, numbers = PROMOTE, True, True


def scaled(b, alpha):
    """alpha * b in b's dtype: NumPy alone would widen bfloat16."""
    product = b * alpha
    return product.astype(b.dtype) if hasattr(b, "dtype") and product.dtype != b.dtype else product


@defop
class mul:
    """a * b, broadcasting.

    >>> ag.mul(ag.tensor([1.0, 2.0]), ag.tensor([3.0, 4.0]))
    tensor([3., 8.])
    """

    def forward(xp, a, b): return a * b
    def grad_a(F, g, b): return g * b
    def grad_b(F, g, a): return g * a
    types, broadcasts, numbers = PROMOTE, True, True


@defop
class div:
    """a / b, broadcasting; integers give the default float dtype.

    >>> ag.div(ag.tensor([1, 2]), 2)
    tensor([0.5, 1. ])
    """

    def forward(xp, a, b): return xp.true_divide(a, b)
    def grad_a(F, g, b): return g / b
    def grad_b(F, g, b, out): return -g * out / b
    types, broadcasts, numbers = FLOAT, True, True


def _power_base(F, g, base, exponent):
    if isinstance(exponent, (int, float)):
        if exponent == 2:
            return g * (base * 2)  # the common power, by a product instead of another power
        return g * 0 if exponent == 0 else g * (exponent * base ** (exponent - 1))
    vanishes = exponent == 0  # there 0 * 0 ** -1 would be NaN
    return F.where(vanishes, 0.0, g * (exponent * base ** (F.where(vanishes, 1.0, exponent) - 1)))


def _power_exponent(F, g, base, exponent, out):
    # d/dp b^p = b^p log b; at b = 0 the limit is 0 for p >= 0, where log gives 0 * -inf
    if isinstance(base, (int, float)):
        base = F.constant_like(exponent, float(base))
    vanishes = F.logical_and(base == 0, exponent >= 0)
    return F.where(vanishes, 0.0, g * (out * F.log(F.where(vanishes, 1.0, base))))


@defop
class pow:
    """base ** exponent, broadcasting; at base 0 the derivative by a non-negative exponent is 0.

    >>> ag.pow(ag.tensor([2.0, 3.0]), 2)
    tensor([4., 9.])
    """

    def forward(xp, base, exponent): return base**exponent
    grad_base = _power_base
    grad_exponent = _power_exponent
    types, broadcasts, numbers = PROMOTE, True, True


@defop
class floor_divide:
    """Quotient rounded towards minus infinity; its derivative is zero wherever it exists.

    >>> ag.floor_divide(ag.tensor([7.0, -7.0]), 2.0)
    tensor([ 3., -4.])
    """

    def forward(xp, a, b): return xp.floor_divide(a, b)
    grad_a = grad_b = ZERO
    types, broadcasts, numbers = PROMOTE, True, True


@defop
class remainder:
    """a modulo b with the sign of b, broadcasting.

    >>> ag.remainder(ag.tensor([7.0, -7.0]), 4.0)
    tensor([3., 1.])
    """

    def forward(xp, a, b): return xp.remainder(a, b)
    def grad_a(F, g): return g
    def grad_b(F, g, a, b): return -g * F.floor_divide(a, b)
    types, broadcasts, numbers = PROMOTE, True, True


@defop
class maximum:
    """The larger of a and b, broadcasting; NaN wins; at ties each takes half of the gradient.

    >>> ag.maximum(ag.tensor([1.0, 5.0]), ag.tensor([3.0, 4.0]))
    tensor([3., 5.])
    """

    def forward(xp, a, b): return xp.maximum(a, b)
    def grad_a(F, g, a, b): return F.where(a == b, g * 0.5, F.where(a > b, g, 0.0))
    def grad_b(F, g, a, b): return F.where(a == b, g * 0.5, F.where(a < b, g, 0.0))
    types, broadcasts, numbers = PROMOTE, True, True


@defop
class minimum:
    """The smaller of a and b, broadcasting; NaN wins; at ties each takes half of the gradient.

    >>> ag.minimum(ag.tensor([1.0, 5.0]), ag.tensor([3.0, 4.0]))
    tensor([1., 4.])
    """

    def forward(xp, a, b): return xp.minimum(a, b)
    def grad_a(F, g, a, b): return F.where(a == b, g * 0.5, F.where(a < b, g, 0.0))
    def grad_b(F, g, a, b): return F.where(a == b, g * 0.5, F.where(a > b, g, 0.0))
    types, broadcasts, numbers = PROMOTE, True, True


@defop
class atan2:
    """The angle of the point (x=b, y=a) in radians, broadcasting.

    >>> ag.atan2(ag.tensor([1.0]), ag.tensor([1.0]))
    tensor([0.7854])
    """

    def forward(xp, a, b): return xp.arctan2(a, b)
    def grad_a(F, g, a, b): return g * b / (a * a + b * b)
    def grad_b(F, g, a, b): return -g * a / (a * a + b * b)
    types, broadcasts, numbers = FLOAT, True, True


@defop
class lerp:
    """a + weight * (b - a), broadcasting.

    >>> ag.lerp(ag.tensor([0.0]), ag.tensor([10.0]), 0.3)
    tensor([3.])
    """

    def forward(xp, a, b, weight): return a + weight * (b - a)
    def grad_a(F, g, weight): return g * (1 - weight)
    def grad_b(F, g, weight): return g * weight
    def grad_weight(F, g, a, b): return g * (b - a)
    types, broadcasts, numbers = PROMOTE, True, True


@defop
class addcmul:
    """x + value * a * b, broadcasting.

    >>> ag.addcmul(ag.tensor([1.0]), ag.tensor([2.0]), ag.tensor([3.0]), value=0.5)
    tensor([4.])
    """

    def forward(xp, x, a, b, *, value=1): return x + (a * b if value == 1 else scaled(a * b, value))
    def grad_x(F, g): return g
    def grad_a(F, g, b, value): return g * b if value == 1 else g * b * value
    def grad_b(F, g, a, value): return g * a if value == 1 else g * a * value
    types, broadcasts, numbers = PROMOTE, True, True


@defop
class addcdiv:
    """x + value * a / b, broadcasting.

    >>> ag.addcdiv(ag.tensor([1.0]), ag.tensor([2.0]), ag.tensor([4.0]), value=2)
    tensor([2.])
    """

    def forward(xp, x, a, b, *, value=1): return x + (a / b if value == 1 else scaled(a / b, value))
    def grad_x(F, g): return g
    def grad_a(F, g, b, value): return g * value / b
    def grad_b(F, g, a, b, value): return -g * value * a / (b * b)
    types, broadcasts, numbers = FLOAT, True, True


# ---- selection -------------------------------------------------------------------------------------


@defop
class where:
    """a where condition holds, else b; all three broadcast. The gradient of the branch not taken is zero.

    >>> ag.where(ag.tensor([True, False]), ag.tensor([1.0, 2.0]), 0.0)
    tensor([1., 0.])
    """

    def forward(xp, condition, a, b): return backend.where(xp, condition, a, b)
    def grad_a(F, g, condition): return F.where(condition, g, 0.0)
    def grad_b(F, g, condition): return F.where(condition, 0.0, g)
    nondiff, promoted = ("condition",), ("a", "b")
    types, broadcasts, numbers = PROMOTE, True, True


def _inside(F, x, min, max):
    if min is None or max is None:
        return x <= max if min is None else x >= min
    return F.logical_and(x >= min, x <= max)


def _clamp(xp, x, *, min=None, max=None):
    if min is None and max is None:
        raise RuntimeError("clamp: At least one of 'min' or 'max' must not be None")
    if not all(limit is None or isinstance(limit, (int, float, np.generic)) for limit in (min, max)):
        raise TypeError("clamp: min and max must be numbers; use ag.maximum and ag.minimum for tensors")
    if x.dtype in dtypes.FLOATS:
        return xp.clip(x, min, max).astype(x.dtype, copy=False)
    target = dtypes.result_type([x.dtype], (), [limit for limit in (min, max) if limit is not None])
    return xp.clip(x.astype(target, copy=False), min, max).astype(target, copy=False)


@defop
class clamp:
    """x limited to [min, max]; numbers, either may be None. Outside of the range the derivative is zero, on it one.

    >>> ag.clamp(ag.tensor([-2.0, 0.5, 2.0]), -1.0, 1.0)
    tensor([-1. ,  0.5,  1. ])
    """

    forward = _clamp
    def grad_x(F, g, x, min, max): return F.where(_inside(F, x, min, max), g, 0.0)


# ---- comparisons: bool results, not differentiable ---------------------------------------------------


@defop
class eq:
    """a == b, broadcasting.

    >>> ag.eq(ag.tensor([1, 2]), 2)
    tensor([False,  True])
    """

    def forward(xp, a, b): return xp.equal(a, b)
    types, numbers = PROMOTE, True


@defop
class ne:
    """a != b, broadcasting.

    >>> ag.ne(ag.tensor([1, 2]), 2)
    tensor([ True, False])
    """

    def forward(xp, a, b): return xp.not_equal(a, b)
    types, numbers = PROMOTE, True


@defop
class lt:
    """a < b, broadcasting.

    >>> ag.lt(ag.tensor([1, 2]), 2)
    tensor([ True, False])
    """

    def forward(xp, a, b): return xp.less(a, b)
    types, numbers = PROMOTE, True


@defop
class le:
    """a <= b, broadcasting.

    >>> ag.le(ag.tensor([1, 3]), 2)
    tensor([ True, False])
    """

    def forward(xp, a, b): return xp.less_equal(a, b)
    types, numbers = PROMOTE, True


@defop
class gt:
    """a > b, broadcasting.

    >>> ag.gt(ag.tensor([1, 3]), 2)
    tensor([False,  True])
    """

    def forward(xp, a, b): return xp.greater(a, b)
    types, numbers = PROMOTE, True


@defop
class ge:
    """a >= b, broadcasting.

    >>> ag.ge(ag.tensor([1, 2]), 2)
    tensor([False,  True])
    """

    def forward(xp, a, b): return xp.greater_equal(a, b)
    types, numbers = PROMOTE, True


@defop
class logical_and:
    """Elementwise a and b, by truth value, broadcasting.

    >>> ag.logical_and(ag.tensor([True, True]), ag.tensor([True, False]))
    tensor([ True, False])
    """

    def forward(xp, a, b): return xp.logical_and(a, b)
    types, numbers = ANY, True


@defop
class logical_or:
    """Elementwise a or b, by truth value, broadcasting.

    >>> ag.logical_or(ag.tensor([True, False]), ag.tensor([False, False]))
    tensor([ True, False])
    """

    def forward(xp, a, b): return xp.logical_or(a, b)
    types, numbers = ANY, True


@defop
class logical_not:
    """Elementwise not, by truth value.

    >>> ag.logical_not(ag.tensor([True, False]))
    tensor([False,  True])
    """

    def forward(xp, x): return xp.logical_not(x)


@defop
class isnan:
    """Where x is NaN.

    >>> ag.isnan(ag.tensor([1.0, float("nan")]))
    tensor([False,  True])
    """

    def forward(xp, x): return xp.isnan(x)


@defop
class isfinite:
    """Where x is neither infinite nor NaN.

    >>> ag.isfinite(ag.tensor([1.0, float("inf")]))
    tensor([ True, False])
    """

    def forward(xp, x): return xp.isfinite(x)
