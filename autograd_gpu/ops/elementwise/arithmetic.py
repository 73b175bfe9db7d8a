"""Arithmetic of two or three operands, and where."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import ndarray

from ... import backend, errors
from ...backend.arrays.dtypes import FLOATS, FULL_FLOATS, INTEGERS, fitting, float64, get_default_dtype
from ...backend.cpu import numpy_ops, rows
from ...backend.cpu.pool import SMALLEST as LARGE
from ...backend.formulas import expression as formulas
from ...core.extend import (
    BROADCASTING,
    ELEMENTWISE,
    FITTING,
    FLOAT,
    LINEAR,
    MULTILINEAR,
    PROMOTE,
    SAME,
    ZERO,
    Tensor,
    defop,
    pointwise,
    public,
)
from .._support.half_precision import in_float32
from .._support.passes import in_float64
from .._support.powers import power
from ..creation.from_data import as_tensor
from .unary import exp2

# ---- arithmetic ------------------------------------------------------------------------------------


def factor(b, alpha, name="alpha"):
    """The number alpha in the form that is fastest in a ufunc with b."""
    if isinstance(alpha, float) and getattr(b, "dtype", float64) not in FLOATS:
        raise errors.float_factor(name)
    if type(b) is np.ndarray and b.dtype in FULL_FLOATS:
        return numpy_ops.constant(alpha, b.dtype)
    return fitting(alpha, b.dtype) if getattr(b, "dtype", None) in INTEGERS else alpha


def _times(xp, a, b):
    return rows.of_two(np.multiply, a, b) if type(a) is ndarray and a.nbytes >= LARGE else a * b


def _plus(xp, a, b, *, alpha=1):
    if alpha != 1:
        return _with_alpha(xp, a, b, alpha, "add")
    return rows.of_two(np.add, a, b) if type(a) is ndarray and a.nbytes >= LARGE else a + b


@in_float32
def _with_alpha(xp, a, b, alpha, ufunc):
    return getattr(xp, ufunc)(a, b * factor(b, alpha))


@defop
class add:
    """a + alpha * b, broadcasting.

    >>> ag.add(ag.tensor([1.0, 2.0]), 1.0)
    tensor([2., 3.])
    """

    forward = _plus
    def grad_a(F, g): return g
    def grad_b(F, g, alpha): return g if alpha == 1 else g * alpha
    types, broadcasts, numbers = PROMOTE, True, True
    jvp, batch = LINEAR, BROADCASTING
    numbers_first = True
    def formula(a, b, *, alpha=1): return a + b if alpha == 1 else a + b * alpha
    public = methods = ufunc = True


def _minus(xp, a, b, *, alpha=1):
    try:
        return xp.subtract(a, b) if alpha == 1 else _with_alpha(xp, a, b, alpha, "subtract")
    except TypeError as error:
        raise RuntimeError("Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
                           "`logical_xor()` operator instead.") from error


@defop
class sub:
    """a - alpha * b, broadcasting. RuntimeError for two bools; a single bool operand counts as 0 or 1, unlike in
    PyTorch.

    >>> ag.sub(ag.tensor([1.0, 2.0]), 1.0)
    tensor([0., 1.])
    """

    forward = _minus
    def grad_a(F, g): return g
    def grad_b(F, g, alpha): return -g if alpha == 1 else g * -alpha
    types, broadcasts, numbers = PROMOTE, True, True
    scalars = ("a",)
    jvp, batch = LINEAR, BROADCASTING
    numbers_first = True
    def formula(a, b, *, alpha=1): return a - b if alpha == 1 else a - b * alpha
    public = "sub", "subtract"
    methods = True
    ufunc = "subtract"


@public()
def rsub(input: Any, other: Any, *, alpha: float = 1) -> Tensor:
    """other - alpha * input, broadcasting.

    >>> ag.rsub(ag.tensor([1.0, 2.0]), 3)
    tensor([2., 1.])
    """
    return sub(other, input, alpha)


@defop
class mul:
    """a * b, broadcasting.

    >>> ag.mul(ag.tensor([1.0, 2.0]), ag.tensor([3.0, 4.0]))
    tensor([3., 8.])
    """

    forward = _times
    def grad_a(F, g, b): return g * b
    def grad_b(F, g, a): return g * a
    types, broadcasts, numbers = PROMOTE, True, True
    jvp, batch = MULTILINEAR, BROADCASTING
    def formula(a, b): return a * b
    public = "mul", "multiply"
    methods = True
    ufunc = "multiply"


def _power_base(F, g, base, exponent):
    if isinstance(exponent, (int, float)):
        if exponent == 2:
            return g * (base * 2)  # the common exponent: a product instead of a power
        return g * 0 if exponent == 0 else g * (exponent * F.pow(base, exponent - 1))
    vanishes = exponent == 0  # where 0 * 0 ** -1 would be NaN
    return F.where(vanishes, 0.0, g * (exponent * F.pow(base, F.where(vanishes, 1.0, exponent) - 1)))


def _power_exponent(F, g, base, exponent, out):
    # d/dp b^p = b^p log b; at b = 0 the limit is 0 for p >= 0, where log gives 0 * -inf
    if isinstance(base, (int, float)):
        base = F.constant_like(exponent, float(base))
    vanishes = F.logical_and(base == 0, exponent >= 0)
    return F.where(vanishes, 0.0, g * (out * F.log(F.where(vanishes, 1.0, base))))


def _power_formula(base, exponent):
    """For the exponents that NumPy computes without a power function."""
    if exponent.op != formulas.CONSTANT or exponent.value not in (-1, 0.5, 2):
        return None
    return base * base if exponent.value == 2 else formulas.sqrt(base) if exponent.value == 0.5 else 1 / base


@defop
class pow:
    """base ** exponent, broadcasting; at base 0 the derivative by a non-negative exponent is 0. RuntimeError for
    integers to a negative power, also for tensors of exponents, where PyTorch rounds to 0.

    >>> ag.pow(ag.tensor([2.0, 3.0]), 2)
    tensor([4., 9.])
    """

    forward = power
    def cuda(xp, base, exponent): return base**exponent
    grad_base = _power_base
    grad_exponent = _power_exponent
    parameter_names = ("input", "exponent")
    types, broadcasts, numbers = PROMOTE, True, FITTING
    scalars = ("base", "exponent")
    jvp, batch = ELEMENTWISE, BROADCASTING
    wide_rules = True
    formula = _power_formula
    ufunc = "power"
    public = methods = inplace = no_lossy_save = True


def _over_square(F, g, side, a, b):
    """g * side / (a * a + b * b); 0 at the origin, where the angle is not differentiable."""
    square = a * a + b * b
    origin = square == 0
    return F.where(origin, 0.0, g * side / F.where(origin, 1.0, square))


@defop
class atan2:
    """The angle of the point (x=b, y=a) in radians, broadcasting; at the origin the derivatives are 0.

    >>> ag.atan2(ag.tensor([1.0]), ag.tensor([1.0]))
    tensor([0.7854])
    """

    def forward(xp, a, b): return xp.arctan2(a, b)
    def grad_a(F, g, a, b): return _over_square(F, g, b, a, b)
    def grad_b(F, g, a, b): return _over_square(F, -g, a, a, b)
    types, broadcasts, numbers = FLOAT, True, True
    jvp, batch = ELEMENTWISE, BROADCASTING
    wide_rules = True
    public = "atan2", "arctan2"
    ufunc = "arctan2"
    methods = inplace = no_lossy_save = True


def _lerp_of_integers(xp, a, b, weight):
    if isinstance(weight, (int, float)):
        return a + (b - a) * factor(b, weight) if abs(weight) < 0.5 else b + (b - a) * factor(b, weight - 1)
    near = abs(weight) < 0.5
    return backend.where(xp, near, a, b) + (b - a) * (weight - ~near)


@pointwise
class lerp:
    """a + weight * (b - a), broadcasting; from the nearer end: exactly b for a weight of 1, infinite for such an end.

    >>> ag.lerp(ag.tensor([0.0]), ag.tensor([10.0]), 0.3)
    tensor([3.])
    """

    @formulas.with_derivative(lambda a, b, weight: 1 - weight, lambda a, b, weight: weight, lambda a, b, weight: b - a)
    def formula(a, b, weight):
        near = formulas.absolute(weight) < 0.5
        return formulas.select(near, a, b) + (b - a) * formulas.select(near, weight, weight - 1)
    integers = _lerp_of_integers
    parameter_names = ("input", "end", "weight")
    types, numbers = PROMOTE, True
    scalars = ("weight",)
    public = methods = inplace = True


def _addcmul_of_integers(xp, x, a, b, *, value=1):
    return x + a * b if value == 1 else x + a * b * factor(a, value, "value")


@pointwise
class addcmul:
    """x + value * a * b, broadcasting.

    >>> ag.addcmul(ag.tensor([1.0]), ag.tensor([2.0]), ag.tensor([3.0]), value=0.5)
    tensor([4.])
    """

    def formula(x, a, b, *, value=1): return x + a * b * value
    integers = _addcmul_of_integers
    parameter_names = ("input", "tensor1", "tensor2")
    types, numbers = PROMOTE, True
    numbers_first = True
    public = methods = inplace = True


@pointwise
class addcdiv:
    """x + value * a / b, broadcasting; integers give the default float dtype.

    >>> ag.addcdiv(ag.tensor([1.0]), ag.tensor([2.0]), ag.tensor([4.0]), value=2)
    tensor([2.])
    """

    def formula(x, a, b, *, value=1): return x + a / b * value
    parameter_names = ("input", "tensor1", "tensor2")
    types, numbers = FLOAT, True
    wide_rules = True
    numbers_first = True
    public = methods = inplace = no_lossy_save = True


_HYPOT = in_float64(lambda xp, a, b: xp.hypot(a, b), lambda a, b: np.sqrt(a * a + b * b))  # nothing overflows


@defop
class hypot:
    """sqrt(a * a + b * b) without overflow, broadcasting.

    >>> ag.hypot(ag.tensor([3.0]), ag.tensor([4.0]))
    tensor([5.])
    """

    def forward(xp, a, b): return _HYPOT(xp, a, b)
    def grad_a(F, g, a, out): return g * (a / out)
    def grad_b(F, g, b, out): return g * (b / out)
    types, broadcasts = FLOAT, True
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = methods = inplace = ufunc = no_lossy_save = True


@defop
class copysign:
    """|a| with the sign of b, broadcasting; the derivative at a = 0 is 0.

    >>> ag.copysign(ag.tensor([1.0, -2.0]), ag.tensor([-0.0, 3.0]))
    tensor([-1.,  2.])
    """

    def forward(xp, a, b): return xp.copysign(a, b)
    def grad_a(F, g, a, out): return g * (F.sign(a) * F.sign(out))
    grad_b = ZERO
    types, broadcasts, numbers = FLOAT, True, True
    scalars = ("b",)
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = methods = inplace = ufunc = True


@defop
class nextafter:
    """The next number of a's dtype after a towards b, broadcasting; the derivative by a is 1, by b 0.

    >>> ag.nextafter(ag.tensor([1.0]), ag.tensor([2.0])) - 1 == ag.tensor([2.0 ** -23])
    tensor([ True])
    """

    def forward(xp, a, b): return xp.nextafter(a, b)
    def grad_a(F, g): return g
    grad_b = ZERO
    types, broadcasts = FLOAT, True
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = methods = inplace = ufunc = True


@defop
class heaviside:
    """0 where x < 0, `values` where x is 0 and 1 where x > 0, broadcasting; both have the same dtype.

    >>> ag.heaviside(ag.tensor([-1.5, 0.0, 2.0]), ag.tensor([0.5]))
    tensor([0. , 0.5, 1. ])
    """

    def forward(xp, x, values): return backend.where(xp, x == 0, values, (x > 0).astype(x.dtype))
    grad_x = ZERO
    def grad_values(F, g, x): return F.where(x == 0, g, 0.0)
    types, broadcasts = SAME, True
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = methods = inplace = ufunc = True


@public("ldexp", "ldexp_", methods=True, inplace=True, out=True)
def ldexp(input: Tensor, other: Tensor) -> Tensor:
    """input * 2 ** other, broadcasting; integers give the default float dtype.

    >>> ag.ldexp(ag.tensor([1.0, 3.0]), ag.tensor([2, -1]))
    tensor([4. , 1.5])
    """
    input, other = as_tensor(input), as_tensor(other)
    if not other.is_floating_point():
        other = other.to(input.dtype if input.is_floating_point() else get_default_dtype())
    return mul(input, exp2(other))


@public(methods=True, inplace=True, out=True)
def float_power(input: Any, exponent: Any) -> Tensor:
    """base ** exponent in float64, broadcasting; one of the two may be a number.

    >>> ag.float_power(ag.tensor([2, 3]), -1)
    tensor([0.5   , 0.3333], dtype=float64)
    """
    return pow(*[x if isinstance(x, (int, float)) else as_tensor(x).to(float64) for x in (input, exponent)])


# ---- selection -------------------------------------------------------------------------------------


@defop
class where:
    """a where condition is True, else b; all three broadcast. The gradient of the branch not taken is zero.

    >>> ag.where(ag.tensor([True, False]), ag.tensor([1.0, 2.0]), 0.0)
    tensor([1., 0.])
    """

    def forward(xp, condition, a, b):
        few = condition.size < numpy_ops.MANY_CHOICES
        return np.where(condition, a, b) if few else backend.where(xp, condition, a, b)
    def cuda(xp, condition, a, b): return backend.where(xp, condition, a, b)
    def grad_a(F, g, condition): return F.where(condition, g, 0.0)
    def grad_b(F, g, condition): return F.where(condition, 0.0, g)
    integral, promoted = ("condition",), ("a", "b")
    parameter_names = ("condition", "input", "other")
    types, broadcasts, numbers, selects_only = PROMOTE, True, True, True
    jvp, batch = ELEMENTWISE, BROADCASTING
