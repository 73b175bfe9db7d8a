"""The error function, its kin and inverses, and the normal distribution: by SciPy."""

from __future__ import annotations

import math

from ..core.batching import BROADCASTING
from ..core.dispatch import defop
from ..core.op import FLOAT
from ..core.tangents import ELEMENTWISE
from .from_scipy import of_scipy

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


@defop
class erfcx:
    """exp(x * x) * erfc(x), which neither overflows nor vanishes for large x.

    >>> ag.special.erfcx(ag.tensor([0.0, 100.0]))
    tensor([1.    , 0.0056])
    """

    forward = of_scipy("erfcx")
    def grad_x(F, g, x, out): return g * (x * out * 2 - TWO_OVER_SQRT_PI)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING


@defop
class erfinv:
    """The inverse of erf, for -1 <= x <= 1, at which it is infinite.

    >>> ag.erfinv(ag.tensor([0.0, 0.8427008]))
    tensor([0., 1.])
    """

    forward = of_scipy("erfinv")
    def grad_x(F, g, x): return g * F.exp(F.square(F.erfinv(x))) * (math.sqrt(math.pi) / 2)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING


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


@defop
class log_ndtr:
    """log(ndtr(x)), accurate where ndtr(x) is next to 0.

    >>> ag.special.log_ndtr(ag.tensor([0.0, -20.0]))
    tensor([  -0.6931, -203.9172])
    """

    forward = of_scipy("log_ndtr")
    def grad_x(F, g, x): return g / F.erfcx(x * -math.sqrt(0.5)) * math.sqrt(2 / math.pi)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING


@defop
class ndtri:
    """The inverse of ndtr, for 0 <= x <= 1, at which it is infinite.

    >>> ag.special.ndtri(ag.tensor([0.5, 0.975]))
    tensor([0.  , 1.96])
    """

    forward = of_scipy("ndtri")
    def grad_x(F, g, out): return g * F.exp(out * out * 0.5) * math.sqrt(2 * math.pi)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
