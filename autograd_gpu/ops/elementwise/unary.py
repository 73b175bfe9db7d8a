"""Elementwise functions of one operand. Integers give the default float dtype."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np

from ... import backend
from ...backend import kernels
from ...backend.arrays.dtypes import FLOATS, int64
from ...backend.cpu import numpy_ops
from ...backend.formulas import expression as formulas
from ...core.extend import BROADCASTING, ELEMENTWISE, FLOAT, ZERO, Tensor, defop, public
from .._support.pointwise import one_kernel


@defop
class neg:
    """-x.

    >>> ag.neg(ag.tensor([1.0, -2.0]))
    tensor([-1.,  2.])
    """

    def forward(xp, x):
        if x.dtype.kind == "b":
            raise RuntimeError("Negation, the `-` operator, on a bool tensor is not supported. If you are trying to "
                               "invert a mask, use the `~` or `logical_not()` operator instead.")
        return xp.negative(x)

    def grad_x(F, g): return -g
    jvp, batch = ELEMENTWISE, BROADCASTING
    def formula(x): return -x
    public = "neg", "negative", "neg_", "negative_"
    ufunc = "negative"
    methods = inplace = True


@public(methods=True)
def conj(input: Tensor) -> Tensor:
    """input itself: there are no complex tensors.

    >>> ag.conj(ag.tensor([1.0, -2.0]))
    tensor([ 1., -2.])
    """
    return input


@defop
class conj_physical:
    """A copy of input: there are no complex tensors.

    >>> ag.conj_physical(ag.tensor([1.0, -2.0]))
    tensor([ 1., -2.])
    """

    def forward(xp, x): return xp.array(x)
    def grad_x(F, g): return g
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = "conj_physical", "conj_physical_"
    methods = inplace = True


@public(methods=True, ufunc=True)
def positive(input: Tensor) -> Tensor:
    """input itself; RuntimeError for bools.

    >>> ag.positive(ag.tensor([1.0, -2.0]))
    tensor([ 1., -2.])
    """
    if input.dtype.kind == "b":
        raise RuntimeError("The `+` operator, on a bool tensor is not supported; convert with .long() first")
    return input


@defop
class abs:
    """|x|; the derivative at 0 is 0.

    >>> ag.abs(ag.tensor([1.0, -2.0]))
    tensor([1., 2.])
    """

    def forward(xp, x): return xp.absolute(x)
    def grad_x(F, g, x): return g * F.sign(x)
    jvp, batch = ELEMENTWISE, BROADCASTING
    def formula(x): return formulas.absolute(x)
    public = "abs", "absolute", "abs_"
    ufunc = "absolute"
    methods = inplace = True


def _sign(xp, x):
    if x.dtype.kind == "b":
        return xp.array(x)
    return numpy_ops.sign(x)


@defop
class sign:
    """-1, 0 or 1 by the sign of x, 0 for NaN; the derivative is zero.

    >>> ag.sign(ag.tensor([3.0, 0.0, -2.0]))
    tensor([ 1.,  0., -1.])
    """

    forward = _sign
    def cuda(xp, x): return xp.array(x) if x.dtype.kind == "b" else xp.sign(x)
    grad_x = ZERO
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = "sign", "sgn"
    methods = inplace = ufunc = True


@defop
class reciprocal:
    """1 / x.

    >>> ag.reciprocal(ag.tensor([2.0, 4.0]))
    tensor([0.5 , 0.25])
    """

    def forward(xp, x): return xp.reciprocal(x)
    def grad_x(F, g, out): return -g * (out * out)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    def formula(x): return 1 / x
    public = "reciprocal", "reciprocal_"
    methods = inplace = ufunc = True


@defop
class square:
    """x * x.

    >>> ag.square(ag.tensor([2.0, 3.0]))
    tensor([4., 9.])
    """

    def forward(xp, x): return xp.square(x if x.dtype.kind != "b" else x.astype(int64))
    def grad_x(F, g, x): return g * x * 2
    jvp, batch = ELEMENTWISE, BROADCASTING
    def formula(x): return x * x
    public = "square", "square_"
    methods = inplace = ufunc = True


@defop
class sqrt:
    """The square root.

    >>> ag.sqrt(ag.tensor([4.0, 9.0]))
    tensor([2., 3.])
    """

    def forward(xp, x): return xp.sqrt(x)
    def grad_x(F, g, out): return g / (out * 2)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    def formula(x): return formulas.sqrt(x)
    public = "sqrt", "sqrt_"
    methods = inplace = ufunc = no_lossy_save = True


@defop
class rsqrt:
    """1 / sqrt(x).

    >>> ag.rsqrt(ag.tensor([4.0]))
    tensor([0.5])
    """

    def forward(xp, x): return xp.reciprocal(xp.sqrt(x))
    cuda = one_kernel("rsqrt")
    def grad_x(F, g, out): return g * (out * out * out) * -0.5
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    def formula(x): return 1 / formulas.sqrt(x)
    wide_rules = True
    public = "rsqrt", "rsqrt_"
    methods = inplace = True


@defop
class exp:
    """e ** x.

    >>> ag.exp(ag.tensor([0.0, 1.0]))
    tensor([1.    , 2.7183])
    """

    def forward(xp, x): return xp.exp(x)
    def grad_x(F, g, out): return g * out
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    def formula(x): return formulas.exp(x)
    public = "exp", "exp_"
    methods = inplace = ufunc = True


@defop
class exp2:
    """2 ** x.

    >>> ag.exp2(ag.tensor([0.0, 3.0]))
    tensor([1., 8.])
    """

    def forward(xp, x): return xp.exp2(x)
    def grad_x(F, g, out): return g * out * math.log(2.0)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = "exp2", "exp2_", "special.exp2"
    methods = inplace = ufunc = True


@defop
class expm1:
    """e ** x - 1, accurate near 0.

    >>> ag.expm1(ag.tensor([0.0, 1.0]))
    tensor([0.    , 1.7183])
    """

    def forward(xp, x): return xp.expm1(x)
    def grad_x(F, g, out): return g * (out + 1)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    def formula(x): return formulas.expm1(x)
    wide_rules = True
    public = "expm1", "expm1_", "special.expm1"
    methods = inplace = ufunc = True


@defop
class log:
    """The natural logarithm.

    >>> ag.log(ag.tensor([1.0, 2.0]))
    tensor([0.    , 0.6931])
    """

    def forward(xp, x): return xp.log(x)
    def grad_x(F, g, x): return g / x
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    def formula(x): return formulas.log(x)
    public = "log", "log_"
    methods = inplace = ufunc = no_lossy_save = True


@defop
class log2:
    """The logarithm to base 2.

    >>> ag.log2(ag.tensor([1.0, 8.0]))
    tensor([0., 3.])
    """

    def forward(xp, x): return xp.log2(x)
    def grad_x(F, g, x): return g / (x * math.log(2.0))
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = "log2", "log2_"
    methods = inplace = ufunc = no_lossy_save = True


@defop
class log10:
    """The logarithm to base 10.

    >>> ag.log10(ag.tensor([1.0, 100.0]))
    tensor([0., 2.])
    """

    def forward(xp, x): return xp.log10(x)
    def grad_x(F, g, x): return g / (x * math.log(10.0))
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = "log10", "log10_"
    methods = inplace = ufunc = no_lossy_save = True


@defop
class log1p:
    """log(1 + x), accurate near 0.

    >>> ag.log1p(ag.tensor([0.0, 1.0]))
    tensor([0.    , 0.6931])
    """

    def forward(xp, x): return xp.log1p(x)
    def grad_x(F, g, x): return g / (x + 1)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    def formula(x): return formulas.log1p(x)
    public = "log1p", "log1p_", "special.log1p"
    methods = inplace = ufunc = no_lossy_save = True


def _frexp(xp, x):
    if x.dtype not in FLOATS:
        raise RuntimeError(f"frexp() only supports floating-point dtypes; got {x.dtype}, convert with .float() first")
    return xp.frexp(x)


@defop
class frexp:
    """(mantissa, exponent) with x = mantissa * 2 ** exponent and 0.5 <= |mantissa| < 1; the exponent is int32.

    >>> ag.frexp(ag.tensor([8.0, -0.75])).exponent
    tensor([4, 0], dtype=int32)
    """

    forward = _frexp
    def grad_x(F, g, exponent): return g[0] / F.exp2(F.cast(exponent, g[0].dtype))
    def jvp(F, t, exponent): return t / F.exp2(F.cast(exponent, t.dtype)), None
    outputs, nondiff_outputs = ("mantissa", "exponent"), ("exponent",)
    batch = BROADCASTING
    public = methods = True


# ---- NaN and infinities --------------------------------------------------------------------------------


def _nan_to_num_cpu(xp, x, *, nan=0.0, posinf=None, neginf=None):
    if np.count_nonzero(np.isfinite(x)) == x.size:
        return x.copy()
    return _nan_to_num(xp, x, nan=nan, posinf=posinf, neginf=neginf)


def _replacements(dtype, nan, posinf, neginf):
    """What replaces NaN and the infinities of a floating dtype."""
    limits = ml_dtypes.finfo(dtype)  # NumPy's finfo has no bfloat16
    defaults = 0.0, float(limits.max), float(limits.min)
    return [default if number is None else number
            for number, default in zip((nan, posinf, neginf), defaults, strict=True)]


def _nan_to_num(xp, x, *, nan=0.0, posinf=None, neginf=None):
    if x.dtype not in FLOATS:
        return xp.array(x)
    nan, posinf, neginf = _replacements(x.dtype, nan, posinf, neginf)
    out = backend.where(xp, xp.isnan(x), nan, x)
    out = backend.where(xp, out == math.inf, posinf, out)
    out = backend.where(xp, out == -math.inf, neginf, out)
    return out.astype(x.dtype, copy=False)


def _nan_to_num_on_cuda(xp, x, *, nan=0.0, posinf=None, neginf=None):
    if x.dtype not in FLOATS:
        return xp.array(x)
    nan, posinf, neginf = _replacements(x.dtype, nan, posinf, neginf)
    f = kernels.written("nan_to_num", nan=nan, posinf=posinf, neginf=neginf)
    return kernels.elementwise(f, kernels.contiguous(x))[0]


@defop
class nan_to_num:
    """x with NaN, inf and -inf replaced by `nan`, `posinf` and `neginf`, by default 0 and the dtype's limits.

    The derivative at replaced elements is 0.

    >>> ag.nan_to_num(ag.tensor([1.0, float("nan"), float("inf")]), posinf=9.0)
    tensor([1., 0., 9.])
    """

    forward, cuda = _nan_to_num_cpu, _nan_to_num_on_cuda
    def grad_x(F, g, x): return F.where(F.isfinite(x), g, 0.0)
    def fused_cuda(F, g, need, x): return kernels.elementwise(kernels.written("nan_to_num_grad"), *kernels.alike(g, x))
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = "nan_to_num", "nan_to_num_"
    methods = inplace = True
