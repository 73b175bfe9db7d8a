"""logaddexp, xlogy, entr, logit."""

from __future__ import annotations

import math

import numpy as np

from ... import backend
from ...core.extend import BROADCASTING, ELEMENTWISE, FLOAT, defop
from .._support.half_precision import in_float32
from .._support.passes import in_float64, in_passes
from .._support.scipy_forwards import of_scipy, of_two

_xlogy, _xlog1py = of_two("xlogy"), of_two("xlog1py")


def _log_of_sum(a, b, exp, scale):
    """The larger of a and b, plus log(1 + exp(-|a - b|)) * scale; NaN for two equal infinities."""
    rest = np.absolute(a - b)
    np.negative(rest, out=rest)
    exp(rest, out=rest)
    np.log1p(rest, out=rest)
    rest *= scale
    rest += np.maximum(a, b)
    return rest


_LOGADDEXP = in_passes(lambda xp, a, b: xp.logaddexp(a, b), lambda a, b: _log_of_sum(a, b, np.exp, 1.0))
_LOGADDEXP2 = in_passes(lambda xp, a, b: xp.logaddexp2(a, b), lambda a, b: _log_of_sum(a, b, np.exp2, 1 / math.log(2)))
# SciPy's loop takes one number at a time.
_LOGIT = in_float64(lambda xp, x: backend.special(xp).logit(x), lambda x: np.log(x / (1 - x)))


# Their gradients are those of softplus: a second derivative out * (1 - out) of sigmoid would be 0 for distant a and b.


@defop
class logaddexp:
    """log(exp(a) + exp(b)) without overflow, broadcasting.

    >>> ag.logaddexp(ag.tensor([1000.0]), ag.tensor([1000.0]))
    tensor([1000.6932])
    """

    def forward(xp, a, b): return _LOGADDEXP(xp, a, b)
    def grad_a(F, g, a, b): return F.softplus_grad(g, a - b, 1.0, math.inf)
    def grad_b(F, g, a, b): return F.softplus_grad(g, b - a, 1.0, math.inf)
    types, broadcasts = FLOAT, True
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = methods = ufunc = no_lossy_save = True


@defop
class logaddexp2:
    """log2(2 ** a + 2 ** b) without overflow, broadcasting.

    >>> ag.logaddexp2(ag.tensor([1000.0]), ag.tensor([1000.0]))
    tensor([1001.])
    """

    def forward(xp, a, b): return _LOGADDEXP2(xp, a, b)
    def grad_a(F, g, a, b): return F.softplus_grad(g, (a - b) * math.log(2.0), 1.0, math.inf)
    def grad_b(F, g, a, b): return F.softplus_grad(g, (b - a) * math.log(2.0), 1.0, math.inf)
    types, broadcasts = FLOAT, True
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = methods = ufunc = no_lossy_save = True


@defop
class xlogy:
    """x * log(y), broadcasting; 0 where x is 0 and y is not NaN. By SciPy.

    >>> ag.xlogy(ag.tensor([0.0, 2.0]), ag.tensor([0.0, 1.0]))
    tensor([0., 0.])
    """

    def forward(xp, x, y): return _xlogy(xp, x, y)
    def grad_x(F, g, x, y): return F.where(F.logical_and(x == 0, y <= 0), 0.0, F.xlogy(g, y))
    def grad_y(F, g, x, y): return g * x / y
    parameter_names = ("input", "other")
    types, broadcasts, numbers = FLOAT, True, True
    scalars = ("x", "y")
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = "xlogy", "xlogy_", "special.xlogy"
    methods = inplace = no_lossy_save = True


@defop
class xlog1py:
    """x * log(1 + y), broadcasting; 0 where x is 0 and y is not NaN. By SciPy.

    >>> ag.special.xlog1py(ag.tensor([0.0, 2.0]), ag.tensor([-1.0, 0.0]))
    tensor([0., 0.])
    """

    def forward(xp, x, y): return _xlog1py(xp, x, y)
    def grad_x(F, g, x, y): return F.where(F.logical_and(x == 0, y <= -1), 0.0, F.xlog1py(g, y))
    def grad_y(F, g, x, y): return g * x / (y + 1)
    parameter_names = ("input", "other")
    types, broadcasts, numbers = FLOAT, True, True
    scalars = ("x", "y")
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = "special.xlog1py"
    no_lossy_save = True


@defop
class entr:
    """-x * log(x), the entropy of a probability: 0 at 0, -inf for x < 0. By SciPy.

    >>> ag.special.entr(ag.tensor([0.0, 0.5, 1.0]))
    tensor([ 0.    ,  0.3466, -0.    ])
    """

    forward = of_scipy("entr")
    def grad_x(F, g, x): return g * (-1 - F.log(x))
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = "special.entr"
    no_lossy_save = True


def _logit(xp, x, *, eps=None):
    x = x if eps is None else xp.clip(x, eps, 1 - eps)
    return _LOGIT(xp, x)


def _logit_back(F, g, x, eps):
    """g / (x (1 - x)); NaN outside of [0, 1], and 0 where eps clamps x."""
    low, beyond = (0.0, math.nan) if eps is None else (eps, 0.0)
    inside = F.logical_and(x >= low, x <= 1.0 - low)
    x = F.where(inside, x, 0.5)
    return F.where(inside, g / (x * (1 - x)), beyond)


@defop
class logit:
    """log(x / (1 - x)), the inverse of sigmoid; with `eps`, x is clamped to [eps, 1 - eps]. By SciPy.

    >>> ag.logit(ag.tensor([0.5, 1.0]), eps=0.25)
    tensor([0.    , 1.0986])
    """

    forward = in_float32(_logit)
    grad_x = _logit_back
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = "logit", "logit_", "special.logit"
    methods = inplace = no_lossy_save = True
