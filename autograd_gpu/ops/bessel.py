"""The modified Bessel functions of the first kind of orders 0 and 1, plain and scaled by exp(-|x|): by SciPy."""

from __future__ import annotations

from ..core.batching import BROADCASTING
from ..core.dispatch import defop
from ..core.op import FLOAT
from ..core.tangents import ELEMENTWISE
from .from_scipy import of_scipy


@defop
class i0:
    """The modified Bessel function of order 0.

    >>> ag.i0(ag.tensor([0.0, 1.0]))
    tensor([1.    , 1.2661])
    """

    forward = of_scipy("i0")
    def grad_x(F, g, x): return g * F.i1(x)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING


@defop
class i0e:
    """exp(-|x|) * i0(x), which does not overflow.

    >>> ag.special.i0e(ag.tensor([0.0, 100.0]))
    tensor([1.    , 0.0399])
    """

    forward = of_scipy("i0e")
    def grad_x(F, g, x, out): return g * (F.i1e(x) - F.sign(x) * out)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING


def _i1_back(F, g, x, out):
    """i0(x) - i1(x) / x, which is 1 / 2 at 0."""
    zero = x == 0
    return g * F.where(zero, 0.5, F.i0(x) - out / F.where(zero, 1.0, x))


@defop
class i1:
    """The modified Bessel function of order 1.

    >>> ag.special.i1(ag.tensor([0.0, 1.0]))
    tensor([0.    , 0.5652])
    """

    forward = of_scipy("i1")
    grad_x = _i1_back
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING


def _i1e_back(F, g, x, out):
    """i0e(x) - i1e(x) * (sign(x) + 1 / x), which is 1 / 2 at 0."""
    zero = x == 0
    return g * F.where(zero, 0.5, F.i0e(x) - out * (F.sign(x) + 1 / F.where(zero, 1.0, x)))


@defop
class i1e:
    """exp(-|x|) * i1(x), which does not overflow.

    >>> ag.special.i1e(ag.tensor([0.0, 100.0]))
    tensor([0.    , 0.0397])
    """

    forward = of_scipy("i1e")
    grad_x = _i1e_back
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
