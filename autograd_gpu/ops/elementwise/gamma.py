"""The log-gamma function and its derivatives, the incomplete gamma functions, the Hurwitz zeta function; by SciPy."""

from __future__ import annotations

import math

import numpy as np

from ... import backend
from ...backend.arrays.dtypes import float32, float64
from ...backend.cpu import numpy_ops
from ...core.extend import BROADCASTING, ELEMENTWISE, FLOAT, Tensor, defop, public
from .._support.blocks import DOUBLES, elementwise
from .._support.half_precision import in_float32
from .._support.scipy_forwards import of_scipy, of_two
from .._support.unknown_derivative import unknown_derivative

_zeta, _gammainc, _gammaincc = of_two("zeta"), of_two("gammainc"), of_two("gammaincc")


@defop
class lgamma:
    """log |gamma(x)|; infinite at 0, -1, -2, ...

    >>> ag.lgamma(ag.tensor([1.0, 5.0]))
    tensor([0.    , 3.1781])
    """

    forward = of_scipy("gammaln")
    def grad_x(F, g, x): return g * F.digamma(x)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = "lgamma", "special.gammaln"
    methods = inplace = no_lossy_save = True


_PSI = of_scipy("digamma")


def _reflected(x):
    """digamma of negative float64 numbers by that of 1 - x, with the digits of float32 near the root at -0.504."""
    slope = np.pi / np.tan(np.pi * (x - np.rint(x)))
    return np.where(x == np.floor(x), np.nan, backend.special(np).digamma(1 - x) - slope)


def _digamma(xp, x):
    """By SciPy, which sums a slow series around each root; many negative float32 numbers by reflection."""
    if type(x) is not np.ndarray or x.dtype != float32 or x.size <= numpy_ops.FEW:
        return _PSI(xp, x)
    negative = x < 0
    if not negative.any():
        return _PSI(xp, x)
    out = _PSI(np, np.where(negative, x.dtype.type(1), x))
    out[negative] = _reflected(x[negative].astype(float64))
    return out


@defop
class digamma:
    """The derivative of lgamma.

    >>> ag.digamma(ag.tensor([1.0, 2.0]))
    tensor([-0.5772,  0.4228])
    """

    def forward(xp, x): return _digamma(xp, x)
    def grad_x(F, g, x): return g * F.polygamma(x, 1)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    wide_rules = True
    public = "digamma", "special.digamma", "special.psi"
    methods = inplace = no_lossy_save = True


# The coefficients of 1 / z ** 3, 1 / z ** 5, ... in trigamma(z): the Bernoulli numbers B_2, B_4, ... B_20.
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330)
STEPS = 8  # the series has 16 digits from z = 8 on


def _trigamma(xp, x):
    """zeta(2, x) in float64: the asymptotic series, and the terms of 8 steps; negative numbers by reflection."""
    x = x.astype(float64, copy=False)
    negative = x < 0
    start = np.where(negative, 1 - x, x) if negative.any() else x
    z = np.reciprocal(start + STEPS)
    square = z * z
    out = np.full_like(z, BERNOULLI[-1])
    for number in BERNOULLI[-2::-1]:
        out *= square
        out += number
    out *= square * z
    out += square / 2
    out += z
    for step in range(STEPS - 1, -1, -1):  # from small terms to large ones
        np.add(start, step, out=z)
        z *= z
        out += np.reciprocal(z, out=z)
    if negative.any():
        square = np.square(np.tan(np.pi * (x - np.rint(x))))  # NumPy's sine takes six times as long
        out = np.where(negative, np.pi**2 * (1 + 1 / square) - out, out)
    return out


def _polygamma(xp, x, *, n):
    if n < 0:
        raise RuntimeError(f"polygamma(n, x) does not support negative n; got {n}")
    special = backend.special(xp)
    if n == 0:
        return _digamma(xp, x)
    if n == 1 and type(x) is np.ndarray and x.ndim and x.size > numpy_ops.FEW:
        return elementwise(_trigamma, (x,), {}, DOUBLES)
    return special.zeta(float(n + 1), x) * ((-1.0) ** (n + 1) * math.factorial(n))


@defop
class polygamma:
    """The n-th derivative, n >= 0, of digamma at x.

    >>> ag.tensor([1.0, 2.0]).polygamma(1)
    tensor([1.6449, 0.6449])
    """

    forward = in_float32(_polygamma)
    def grad_x(F, g, x, n): return g * F.polygamma(x, n + 1)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    wide_rules = True
    methods = "polygamma"
    inplace = no_lossy_save = True


@public("polygamma", "special.polygamma", out=True)
def polygamma_of(n: int, input: Tensor) -> Tensor:
    """The n-th derivative, n >= 0, of digamma at input: n comes first, as in PyTorch's function.

    >>> ag.polygamma(1, ag.tensor([1.0, 2.0]))
    tensor([1.6449, 0.6449])
    """
    return polygamma(input, n)


def _mvlgamma(xp, x, *, p):
    if p < 1:
        raise RuntimeError(f"p has to be greater than or equal to 1, but got {p}")
    gammaln = backend.special(xp).gammaln
    out = gammaln(x)
    for i in range(1, p):
        out = out + gammaln(x - i / 2)
    return out + p * (p - 1) / 4 * math.log(math.pi) if p > 1 else out


def _mvlgamma_back(F, g, x, p):
    slope = F.digamma(x)
    for i in range(1, p):
        slope = slope + F.digamma(x - i / 2)
    return g * slope


@defop
class mvlgamma:
    """The logarithm of the multivariate gamma function of dimension p >= 1, for x > (p - 1) / 2.

    sum over i < p of lgamma(input - i / 2), plus p (p - 1) / 4 * log(pi).

    >>> ag.mvlgamma(ag.tensor([2.0, 3.0]), 2)
    tensor([0.4516, 1.5502])
    """

    forward = in_float32(_mvlgamma)
    grad_x = _mvlgamma_back
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    wide_rules = True
    public = "mvlgamma", "special.multigammaln"
    methods = inplace = no_lossy_save = True
    keeps_layout = False


# ---- Hurwitz' zeta -----------------------------------------------------------------------------------


def _zeta_back(F, g, need, x, q):
    if need[0]:
        unknown_derivative("zeta", "x")
    return None, g * -x * F.zeta(x + 1, q)


@defop
class zeta:
    """The Hurwitz zeta function, sum over k >= 0 of (k + q) ** -x, broadcasting; no derivative by x.

    >>> ag.special.zeta(ag.tensor([2.0]), ag.tensor([1.0]))
    tensor([1.6449])
    """

    def forward(xp, x, q): return _zeta(xp, x, q)
    grads = _zeta_back
    parameter_names = ("input", "other")
    types, broadcasts, numbers = FLOAT, True, True
    scalars = ("x", "q")
    jvp, batch = ELEMENTWISE, BROADCASTING
    wide_rules = True
    public = "special.zeta"
    no_lossy_save = True


# ---- the incomplete gamma functions --------------------------------------------------------------------


def _density(F, g, a, x):
    """x ** (a - 1) * exp(-x) / gamma(a), the derivative of gammainc by x."""
    if isinstance(a, (int, float)):
        a = F.constant_like(x, float(a))
    return g * F.exp(F.xlogy(a - 1, x) - x - F.lgamma(a))


def _gammainc_back(F, g, need, a, x):
    if need[0]:
        unknown_derivative("gammainc", "a")
    return None, _density(F, g, a, x)


def _gammaincc_back(F, g, need, a, x):
    if need[0]:
        unknown_derivative("gammaincc", "a")
    return None, -_density(F, g, a, x)


@defop
class gammainc:
    """The regularized lower incomplete gamma function for a, x >= 0, broadcasting; no derivative by a.

    >>> ag.special.gammainc(ag.tensor([1.0]), ag.tensor([1.0]))
    tensor([0.6321])
    """

    def forward(xp, a, x): return _gammainc(xp, a, x)
    grads = _gammainc_back
    parameter_names = ("input", "other")
    types, broadcasts, numbers = FLOAT, True, True
    jvp, batch = ELEMENTWISE, BROADCASTING
    wide_rules = True
    public = "igamma", "special.gammainc"
    methods = inplace = True


def _complement(xp, a, x):
    """gammaincc, as 1 - gammainc in float64 where that has all digits, as SciPy takes microseconds for a small x."""
    large = type(a) is type(x) is np.ndarray and a.ndim and x.ndim
    if not large or a.itemsize < 4:
        return _gammaincc(xp, a, x)
    lower = np.asarray(_gammainc(xp, a.astype(float64, copy=False), x.astype(float64, copy=False)))
    out = np.subtract(1, lower)
    near = np.logical_not(lower <= (0.5 if a.itemsize == 8 else 1 - 2.0**-20))
    if near.any():
        a, x = np.broadcast_arrays(a, x)
        out[near] = _gammaincc(xp, a[near], x[near])
    return out.astype(a.dtype, copy=False)


@defop
class gammaincc:
    """1 - gammainc(a, x), accurate where it is close to 0.

    >>> ag.special.gammaincc(ag.tensor([1.0]), ag.tensor([1.0]))
    tensor([0.3679])
    """

    def forward(xp, a, x): return _complement(xp, a, x)
    grads = _gammaincc_back
    parameter_names = ("input", "other")
    types, broadcasts, numbers = FLOAT, True, True
    jvp, batch = ELEMENTWISE, BROADCASTING
    wide_rules = True
    public = "igammac", "special.gammaincc"
    methods = inplace = True
