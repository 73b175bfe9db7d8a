"""The error function, its variants and inverse, and the normal distribution; by SciPy."""

from __future__ import annotations

import math
from typing import Any

from ... import backend
from ...backend.arrays.two_ranges import in_two_ranges
from ...core.extend import BROADCASTING, ELEMENTWISE, FLOAT, defop
from .._support.half_precision import in_float32
from .._support.scipy_forwards import of_scipy

TWO_OVER_SQRT_PI = 2.0 / math.sqrt(math.pi)


@defop
class erf:
    """The error function.

    >>> ag.erf(ag.tensor([0.0, 1.0]))
    tensor([0.    , 0.8427])
    """

    forward = of_scipy("erf")
    def grad_x(F, g, x): return g * F.exp(-(x * x)) * TWO_OVER_SQRT_PI
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = "erf", "erf_", "special.erf"
    methods = inplace = True


@defop
class erfc:
    """1 - erf(x), accurate for large x.

    >>> ag.erfc(ag.tensor([0.0, 1.0]))
    tensor([1.    , 0.1573])
    """

    forward = of_scipy("erfc")
    def grad_x(F, g, x): return g * F.exp(-(x * x)) * -TWO_OVER_SQRT_PI
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = "erfc", "erfc_", "special.erfc"
    methods = inplace = True


@defop
class erfcx:
    """exp(x * x) * erfc(x), without overflow or underflow for large x.

    >>> ag.special.erfcx(ag.tensor([0.0, 100.0]))
    tensor([1.    , 0.0056])
    """

    forward = of_scipy("erfcx")
    def grad_x(F, g, x, out): return g * (F.erfc_ratio(x, 1) * out * -2)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = "special.erfcx"


def _erfc_ratio(xp, x, order):
    """By E_(n-1) = 2 x E_n + 2 (n + 1) E_(n+1): upwards for small or negative x, else as a continued fraction."""
    special, terms = backend.special(xp), 50 if x.itemsize == 8 else 12  # the terms needed for 16 or 7 digits if x >= 2

    def near(z: Any) -> Any:
        ratio = TWO_OVER_SQRT_PI / 2 / special.erfcx(z) - z
        for n in range(1, order):
            ratio = (1 / ratio - z * 2) / (2 * (n + 1))
        return ratio

    def far(z: Any) -> Any:
        ratio = 0.0
        for n in range(order + terms, order - 1, -1):
            ratio = 0.5 / (z + (n + 1) * ratio)
        return ratio

    return in_two_ranges(xp, x, 2.0, near, far, signed=True)


@defop
class erfc_ratio:
    """E_n(x) / E_(n-1)(x) for n = `order` >= 1, where E_n is exp(x * x) times the n-th integral of erfc.

    E_0 is erfcx. The derivative of E_0 is -2 E_1, that of E_n is -2 (n + 1) E_(n+1). No overflow, no cancellation.

    >>> from autograd_gpu.ops.elementwise.erf import erfc_ratio
    >>> erfc_ratio(ag.tensor([-100.0, 0.0, 100.0]), 1)
    tensor([100.    ,   0.5642,   0.005 ])
    """

    def forward(xp, x, *, order): return _erfc_ratio(xp, x, order)
    def grad_x(F, g, x, out, order): return g * (out * (out * order - F.erfc_ratio(x, order + 1) * (order + 1)) * 2)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    wide_rules = True


@defop
class erfinv:
    """The inverse of erf, for -1 <= x <= 1; infinite at -1 and 1.

    >>> ag.erfinv(ag.tensor([0.0, 0.8427008]))
    tensor([0., 1.])
    """

    forward = of_scipy("erfinv", (-1.0, 1.0))
    def grad_x(F, g, x): return g * F.exp(F.square(F.erfinv(x))) * (math.sqrt(math.pi) / 2)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = "erfinv", "special.erfinv"
    methods = inplace = no_lossy_save = True


# ---- the normal distribution -------------------------------------------------------------------------


@defop
class ndtr:
    """The probability that a standard normal variable is below x.

    >>> ag.special.ndtr(ag.tensor([0.0, 1.96]))
    tensor([0.5  , 0.975])
    """

    forward = of_scipy("ndtr")
    def grad_x(F, g, x): return g * F.exp(x * x * -0.5) * (1 / math.sqrt(2 * math.pi))
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = "special.ndtr"


@defop
class log_ndtr:
    """log(ndtr(x)), accurate where ndtr(x) is close to 0.

    >>> ag.special.log_ndtr(ag.tensor([0.0, -20.0]))
    tensor([  -0.6931, -203.9172])
    """

    forward = of_scipy("log_ndtr")
    def grad_x(F, g, x): return g * F.log_ndtr_slope(x)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = "special.log_ndtr"


@defop
class log_ndtr_slope:
    """The derivative of log_ndtr: the density at x divided by the probability below x.

    >>> from autograd_gpu.ops.elementwise.erf import log_ndtr_slope
    >>> log_ndtr_slope(ag.tensor([-20.0, 0.0, 20.0]))
    tensor([20.0498,  0.7979,  0.    ])
    """

    @in_float32
    def forward(xp, x): return math.sqrt(2 / math.pi) / backend.special(xp).erfcx(x * -math.sqrt(0.5))
    def grad_x(F, g, x, out): return g * (out * F.erfc_ratio(x * -math.sqrt(0.5), 1) * -math.sqrt(2))
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING


@defop
class ndtri:
    """The inverse of ndtr, for 0 <= x <= 1; infinite at 0 and 1.

    >>> ag.special.ndtri(ag.tensor([0.5, 0.975]))
    tensor([0.  , 1.96])
    """

    forward = of_scipy("ndtri")
    def grad_x(F, g, out): return g * F.exp(out * out * 0.5) * math.sqrt(2 * math.pi)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = "special.ndtri"
    no_lossy_save = True
