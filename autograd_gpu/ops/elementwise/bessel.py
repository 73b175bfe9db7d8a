"""Modified Bessel functions of the first kind, plain and scaled by exp(-|x|), and spherical Bessel functions.

Orders 0 and 1 are SciPy's. Derivatives are sums of neighbouring orders, such as i1' = (i0 + i2) / 2, since formulas
with a quotient, such as i1' = i0 - i1 / x, lose digits near 0 in the second derivative.
"""

from __future__ import annotations

import math
from typing import Any

from ... import backend
from ...backend.arrays.two_ranges import in_two_ranges
from ...core.extend import BROADCASTING, ELEMENTWISE, FLOAT, defop
from .._support.scipy_forwards import of_scipy


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
    public = "i0", "i0_", "special.i0"
    methods = inplace = True


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
    wide_rules = True
    public = "special.i0e"


@defop
class i1:
    """The modified Bessel function of order 1.

    >>> ag.special.i1(ag.tensor([0.0, 1.0]))
    tensor([0.    , 0.5652])
    """

    forward = of_scipy("i1")
    def grad_x(F, g, x): return g * ((F.i0(x) + F.higher_bessel(x, 2, False)) * 0.5)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = "special.i1"


@defop
class i1e:
    """exp(-|x|) * i1(x), which does not overflow.

    >>> ag.special.i1e(ag.tensor([0.0, 100.0]))
    tensor([0.    , 0.0397])
    """

    forward = of_scipy("i1e")
    def grad_x(F, g, x, out): return g * ((F.i0e(x) + F.higher_bessel(x, 2, True)) * 0.5 - F.sign(x) * out)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    wide_rules = True
    public = "special.i1e"


# ---- other orders -------------------------------------------------------------------------------------


def _power_series(x: Any, order: int, quarter: float, odd: bool, limit: float) -> Any:
    """1 + q / (1 (order + 1)) (1 + q / (2 (order + 2)) (...)), q = quarter * x * x; with order + k / 2 instead of order
    if `odd`. It has as many terms as |x| < limit needs."""
    shift, largest, weights = (0.5 if odd else 0.0), abs(quarter) * limit * limit, list[float]()
    share = 1.0
    while share > 1e-18:
        k = len(weights) + 1
        weights.append(k * (order + k + shift))
        share *= largest / weights[-1]
    q, total = x * x * quarter, 1.0
    for weight in reversed(weights):
        total = q * total / weight + 1.0
    return total


def _modified(xp: Any, x: Any, order: int, scaled: bool) -> Any:
    """i_n(x): the power series, whose terms are all positive, or i_(k+1) = i_(k-1) - 2 k / x i_k, which loses digits if
    the order is large compared to x."""
    limit = max(8.0, order * order / 2)
    special = backend.special(xp)

    def near(z: Any) -> Any:
        value = _power_series(z, order, 0.25, False, limit) * (z * 0.5) ** order / math.factorial(order)
        return value * xp.exp(-abs(z)) if scaled else value

    def far(z: Any) -> Any:
        before, value = (special.i0e(z), special.i1e(z)) if scaled else (special.i0(z), special.i1(z))
        for k in range(1, order):
            before, value = value, before - value * (2 * k) / z
        return value

    return in_two_ranges(xp, x, limit, near, far)


def _modified_back(F, g, x, out, order, scaled):
    first = F.i1e if scaled else F.i1
    below = first(x) if order == 2 else F.higher_bessel(x, order - 1, scaled)
    slope = (below + F.higher_bessel(x, order + 1, scaled)) * 0.5
    return g * (slope - F.sign(x) * out if scaled else slope)


@defop
class higher_bessel:
    """The modified Bessel function of the first kind of order >= 2, times exp(-|x|) if `scaled`.

    >>> from autograd_gpu.ops.elementwise.bessel import higher_bessel
    >>> higher_bessel(ag.tensor([0.0, 1.0]), 2, False)
    tensor([0.    , 0.1357])
    """

    def forward(xp, x, *, order, scaled): return _modified(xp, x, order, scaled)
    grad_x = _modified_back
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    wide_rules = True


def _spherical(xp: Any, x: Any, order: int) -> Any:
    """j_n(x): the power series below |x| = n, where j_(k+1) = (2 k + 1) / x j_k - j_(k-1) would lose digits."""

    def near(z: Any) -> Any:
        return _power_series(z, order, -0.25, True, order) * z**order / math.prod(range(1, 2 * order + 2, 2))

    def far(z: Any) -> Any:
        before, value = xp.cos(z) / z, xp.sin(z) / z
        for k in range(order):
            before, value = value, value * (2 * k + 1) / z - before
        return value

    return in_two_ranges(xp, x, order, near, far)


def _spherical_back(F, g, x, order):
    below = F.sinc(x * (1 / math.pi)) if order == 1 else F.spherical_bessel(x, order - 1)
    return g * (below * (order / (2 * order + 1)) - F.spherical_bessel(x, order + 1) * ((order + 1) / (2 * order + 1)))


@defop
class spherical_bessel:
    """The spherical Bessel function of the first kind of order >= 1; that of order 0 is sin(x) / x.

    >>> from autograd_gpu.ops.elementwise.bessel import spherical_bessel
    >>> spherical_bessel(ag.tensor([0.0, 1.0]), 1)
    tensor([0.    , 0.3012])
    """

    def forward(xp, x, *, order): return _spherical(xp, x, order)
    grad_x = _spherical_back
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    wide_rules = True
