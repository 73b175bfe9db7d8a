"""The log-gamma function and its derivatives, the incomplete gamma functions, the Hurwitz zeta function; by SciPy."""

from __future__ import annotations

import math

from ... import backend
from ...core.extend import BROADCASTING, ELEMENTWISE, FLOAT, Tensor, defop, public
from .._support.half_precision import in_float32
from .._support.scipy_forwards import of_scipy, of_two

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
    methods = inplace = sensitive = True


@defop
class digamma:
    """The derivative of lgamma.

    >>> ag.digamma(ag.tensor([1.0, 2.0]))
    tensor([-0.5772,  0.4228])
    """

    forward = of_scipy("digamma")
    def grad_x(F, g, x): return g * F.polygamma(x, 1)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = "digamma", "special.digamma", "special.psi"
    methods = inplace = sensitive = True


def _polygamma(xp, x, *, n):
    if n < 0:
        raise RuntimeError(f"polygamma(n, x) does not support negative n; got {n}")
    special = backend.special(xp)
    if n == 0:
        return special.digamma(x)
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
    methods = "polygamma"
    inplace = sensitive = True


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
    public = "mvlgamma", "special.multigammaln"
    methods = inplace = sensitive = True


# ---- Hurwitz' zeta -----------------------------------------------------------------------------------


def _unknown(op, name):
    raise NotImplementedError(f"the derivative of {op} by {name} is not implemented; detach {name}, or give a number")


def _zeta_back(F, g, need, x, q):
    if need[0]:
        _unknown("zeta", "x")
    return None, g * -x * F.zeta(x + 1, q)


@defop
class zeta:
    """The Hurwitz zeta function, sum over k >= 0 of (k + q) ** -x, broadcasting; no derivative by x.

    >>> ag.special.zeta(ag.tensor([2.0]), ag.tensor([1.0]))
    tensor([1.6449])
    """

    def forward(xp, x, q): return _zeta(xp, x, q)
    grads = _zeta_back
    called = ("input", "other")
    types, broadcasts, numbers = FLOAT, True, True
    scalars = ("x", "q")
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = "special.zeta"
    sensitive = True


# ---- the incomplete gamma functions --------------------------------------------------------------------


def _density(F, g, a, x):
    """x ** (a - 1) * exp(-x) / gamma(a), the derivative of gammainc by x."""
    if isinstance(a, (int, float)):
        a = F.constant_like(x, float(a))
    return g * F.exp(F.xlogy(a - 1, x) - x - F.lgamma(a))


def _gammainc_back(F, g, need, a, x):
    if need[0]:
        _unknown("gammainc", "a")
    return None, _density(F, g, a, x)


def _gammaincc_back(F, g, need, a, x):
    if need[0]:
        _unknown("gammaincc", "a")
    return None, -_density(F, g, a, x)


@defop
class gammainc:
    """The regularized lower incomplete gamma function for a, x >= 0, broadcasting; no derivative by a.

    >>> ag.special.gammainc(ag.tensor([1.0]), ag.tensor([1.0]))
    tensor([0.6321])
    """

    def forward(xp, a, x): return _gammainc(xp, a, x)
    grads = _gammainc_back
    called = ("input", "other")
    types, broadcasts, numbers = FLOAT, True, True
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = "igamma", "special.gammainc"
    methods = inplace = True


@defop
class gammaincc:
    """1 - gammainc(a, x), accurate where it is close to 0.

    >>> ag.special.gammaincc(ag.tensor([1.0]), ag.tensor([1.0]))
    tensor([0.3679])
    """

    def forward(xp, a, x): return _gammaincc(xp, a, x)
    grads = _gammaincc_back
    called = ("input", "other")
    types, broadcasts, numbers = FLOAT, True, True
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = "igammac", "special.gammaincc"
    methods = inplace = True
