"""Special functions, with torch.special's names.

>>> ag.special.expit(ag.tensor([0.0]))
tensor([0.5])
"""

from .ops import (
    digamma,
    erf,
    erfc,
    erfinv,
    exp2,
    expm1,
    i0,
    log1p,
    log_softmax,
    logit,
    logsumexp,
    polygamma,
    sinc,
    softmax,
    xlogy,
)
from .ops import digamma as psi
from .ops import igamma as gammainc
from .ops import igammac as gammaincc
from .ops import lgamma as gammaln
from .ops import mvlgamma as multigammaln
from .ops import round as round
from .ops import sigmoid as expit
from .ops.elementwise.bessel import i0e, i1, i1e
from .ops.elementwise.erf import erfcx, log_ndtr, ndtr, ndtri
from .ops.elementwise.gamma import zeta
from .ops.elementwise.logarithm import entr, xlog1py

__all__ = [
    "digamma", "entr", "erf", "erfc", "erfcx", "erfinv", "exp2", "expit", "expm1", "gammainc", "gammaincc", "gammaln",
    "i0", "i0e", "i1", "i1e", "log1p", "log_ndtr", "log_softmax", "logit", "logsumexp", "multigammaln", "ndtr",
    "ndtri", "polygamma", "psi", "round", "sinc", "softmax", "xlog1py", "xlogy", "zeta",
]  # fmt: skip

