"""Trigonometric and hyperbolic functions. Integers give the default float dtype."""

from __future__ import annotations

import math

import numpy as np

from ... import backend
from ...backend.formulas import expression as formulas
from ...core.extend import BROADCASTING, ELEMENTWISE, FLOAT, defop
from .._support.half_precision import in_float32
from .._support.pointwise import one_kernel


@defop
class sin:
    """The sine of x in radians.

    >>> ag.sin(ag.tensor([0.0, 1.0]))
    tensor([0.    , 0.8415])
    """

    def forward(xp, x): return xp.sin(x)
    def grad_x(F, g, x): return g * F.cos(x)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    def formula(x): return formulas.sin(x)
    public = "sin", "sin_"
    methods = inplace = ufunc = True


@defop
class cos:
    """The cosine of x in radians.

    >>> ag.cos(ag.tensor([0.0, 1.0]))
    tensor([1.    , 0.5403])
    """

    def forward(xp, x): return xp.cos(x)
    def grad_x(F, g, x): return -g * F.sin(x)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    def formula(x): return formulas.cos(x)
    public = "cos", "cos_"
    methods = inplace = ufunc = True


@defop
class tan:
    """The tangent of x in radians.

    >>> ag.tan(ag.tensor([0.0, 1.0]))
    tensor([0.    , 1.5574])
    """

    def forward(xp, x): return xp.tan(x)
    def grad_x(F, g, out): return g * (out * out + 1)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = "tan", "tan_"
    methods = inplace = ufunc = True


@defop
class asin:
    """The angle in radians whose sine is x, |x| <= 1.

    >>> ag.asin(ag.tensor([0.0, 1.0]))
    tensor([0.    , 1.5708])
    """

    def forward(xp, x): return xp.arcsin(x)
    def grad_x(F, g, x): return g * F.rsqrt(1 - x * x)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = "asin", "arcsin", "arcsin_", "asin_"
    ufunc = "arcsin"
    methods = inplace = no_lossy_save = True


@defop
class acos:
    """The angle in radians whose cosine is x, |x| <= 1.

    >>> ag.acos(ag.tensor([1.0, 0.0]))
    tensor([0.    , 1.5708])
    """

    def forward(xp, x): return xp.arccos(x)
    def grad_x(F, g, x): return -g * F.rsqrt(1 - x * x)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = "acos", "arccos", "acos_", "arccos_"
    ufunc = "arccos"
    methods = inplace = no_lossy_save = True


@defop
class atan:
    """The angle in radians whose tangent is x.

    >>> ag.atan(ag.tensor([0.0, 1.0]))
    tensor([0.    , 0.7854])
    """

    def forward(xp, x): return xp.arctan(x)
    def grad_x(F, g, x): return g / (x * x + 1)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    wide_rules = True
    public = "atan", "arctan", "arctan_", "atan_"
    ufunc = "arctan"
    methods = inplace = True


@defop
class sinh:
    """The hyperbolic sine.

    >>> ag.sinh(ag.tensor([0.0, 1.0]))
    tensor([0.    , 1.1752])
    """

    def forward(xp, x): return xp.sinh(x)
    def grad_x(F, g, x): return g * F.cosh(x)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = "sinh", "sinh_"
    methods = inplace = ufunc = True


@defop
class cosh:
    """The hyperbolic cosine.

    >>> ag.cosh(ag.tensor([0.0, 1.0]))
    tensor([1.    , 1.5431])
    """

    def forward(xp, x): return xp.cosh(x)
    def grad_x(F, g, x): return g * F.sinh(x)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = "cosh", "cosh_"
    methods = inplace = ufunc = True


@defop
class asinh:
    """The inverse of sinh.

    >>> ag.asinh(ag.tensor([0.0, 1.0]))
    tensor([0.    , 0.8814])
    """

    def forward(xp, x): return xp.arcsinh(x)
    def grad_x(F, g, x): return g * F.rsqrt(x * x + 1)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    wide_rules = True
    public = "asinh", "arcsinh", "arcsinh_", "asinh_"
    ufunc = "arcsinh"
    methods = inplace = True


@defop
class acosh:
    """The inverse of cosh, for x >= 1.

    >>> ag.acosh(ag.tensor([1.0, 2.0]))
    tensor([0.   , 1.317])
    """

    def forward(xp, x): return xp.arccosh(x)
    def grad_x(F, g, x): return g * F.rsqrt(x * x - 1)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    wide_rules = True
    public = "acosh", "arccosh", "acosh_", "arccosh_"
    ufunc = "arccosh"
    methods = inplace = no_lossy_save = True


@defop
class atanh:
    """The inverse of tanh, for |x| < 1.

    >>> ag.atanh(ag.tensor([0.0, 0.5]))
    tensor([0.    , 0.5493])
    """

    def forward(xp, x): return xp.arctanh(x)
    def grad_x(F, g, x): return g / (1 - x * x)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    wide_rules = True
    public = "atanh", "arctanh", "arctanh_", "atanh_"
    ufunc = "arctanh"
    methods = inplace = no_lossy_save = True


# ---- angles, and sin(x) / x ----------------------------------------------------------------------------


@defop
class deg2rad:
    """x, in degrees, as radians.

    >>> ag.deg2rad(ag.tensor([180.0, 90.0]))
    tensor([3.1416, 1.5708])
    """

    @in_float32
    def forward(xp, x): return xp.multiply(x, x.dtype.type(math.pi / 180))  # np.deg2rad takes ten times as long
    def grad_x(F, g): return g * (math.pi / 180)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = "deg2rad", "deg2rad_"
    ufunc = "deg2rad", "radians"
    methods = inplace = True


@defop
class rad2deg:
    """x, in radians, as degrees.

    >>> ag.rad2deg(ag.tensor([3.1415927, 1.0]))
    tensor([180.    ,  57.2958])
    """

    @in_float32
    def forward(xp, x): return xp.multiply(x, x.dtype.type(180 / math.pi))
    def grad_x(F, g): return g * (180 / math.pi)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = "rad2deg", "rad2deg_"
    ufunc = "degrees", "rad2deg"
    methods = inplace = True


@in_float32
def _sinc(xp, x):
    y = x * backend.constant(xp, math.pi, x.dtype)
    zero = y == 0
    if backend.seen_none(zero):
        return np.sin(y) / y
    return backend.where(xp, zero, y.dtype.type(1), xp.sin(y) / backend.where(xp, zero, y.dtype.type(1), y))


@defop
class sinc:
    """sin(pi x) / (pi x), 1 at 0.

    >>> ag.sinc(ag.tensor([0.0, 0.5, 1.0]))
    tensor([ 1.0000e+00,  6.3662e-01, -2.7828e-08])
    """

    forward, cuda = _sinc, one_kernel("sinc")
    def grad_x(F, g, x): return g * F.spherical_bessel(x * math.pi, 1) * -math.pi
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    wide_rules = True
    public = "sinc", "sinc_", "special.sinc"
    methods = inplace = no_lossy_save = True
