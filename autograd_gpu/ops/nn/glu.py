"""glu: one half of the input gates the other."""

from __future__ import annotations

import math

import numpy as np

from ... import backend
from ...backend import kernels
from ...core.extend import FLOAT, along, defop
from .._support.half_precision import in_float32
from ..indexing.basic_index import from_right, key_along, wrap_dim
from .exponential_activations import softplus


def _halves(x, dim):
    """The keys of the two halves of x along `dim`."""
    if not x.ndim:
        raise RuntimeError("glu does not support 0-dimensional tensors")
    axis = wrap_dim(dim, x.ndim)
    half, odd = divmod(x.shape[axis], 2)
    if odd:
        raise RuntimeError(f"Halving dimension must be even, but dimension {axis} is size {x.shape[axis]}")
    return [key_along(axis - x.ndim, part) for part in (slice(half), slice(half, None))]


def _glu(xp, x, *, dim=-1):
    first, second = _halves(x, dim)
    out = xp.negative(x[second], out=backend.empty_like(xp, x[second]))
    with np.errstate(over="ignore"):
        xp.exp(out, out=out)
    out += 1
    return xp.divide(x[first], out, out=out)


def _glu_on_cuda(xp, x, *, dim):
    first, second = _halves(x, dim)
    slope = softplus.family.cuda.applied(1, 1.0, math.inf)  # a times the sigmoid of b
    return kernels.elementwise(slope, *kernels.alike(x[first], x[second]))[0]


def _glu_back(F, g, x, dim):
    a, b = (F.basic_index(x, key) for key in _halves(x, dim))
    s = F.sigmoid(b)
    h = g * s
    return F.cat([h, h * a * (1 - s)], from_right(dim, x.ndim))


def _glu_jvp(F, t, x, dim):
    first, second = _halves(x, dim)
    s = F.sigmoid(F.basic_index(x, second))
    derivative = F.basic_index(x, first) * (1 - s)
    return (F.basic_index(t, first) + F.basic_index(t, second) * derivative) * s


@defop
class glu:
    """a * sigmoid(b) with a and b the two halves of x along `dim`; RuntimeError if its size is odd.

    >>> ag.glu(ag.tensor([3.0, 5.0, 0.0, 100.0]))
    tensor([1.5, 5. ])
    """

    forward, cuda = in_float32(_glu), _glu_on_cuda
    grad_x = _glu_back
    jvp, batch = _glu_jvp, along("dim")
    wide_rules = True
    types = FLOAT
    takes_out = False
    public = "glu", "nn.functional.glu"
    keeps_layout = True
