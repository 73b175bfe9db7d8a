"""Gamma- and Dirichlet-distributed numbers, differentiable with respect to the parameters.

A gamma-distributed number z of the shape parameter alpha moves with alpha such that its quantile stays what it is:
dz/dalpha = -(dF/dalpha) / p, with distribution function F and density p at z (implicit reparametrization: Figurnov,
Mohamed, Mnih 2018). Dirichlet-distributed numbers are gamma-distributed ones over their sum, so their gradients follow.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from ...backend import kernels
from ...backend.arrays import dtypes
from ...backend.arrays.dtype_limits import finfo
from ...backend.cpu import gamma_slope as cpu_gamma_slope
from ...core.extend import ANY, BROADCASTING, ELEMENTWISE, PROMOTE, Tensor, defop, public
from ...random import Generator
from ...random.factories import floats
from ..creation.from_data import as_tensor
from ..nn.softmax import softmax
from .sampling import draw_from, refuse_integers, stream_of

# ---- the derivative by the shape parameter -------------------------------------------------------------------


def _gamma_slope(compute, xp, alpha, z, *, logs=False):
    refuse_integers("_standard_gamma_grad", alpha)
    alpha, z = xp.broadcast_arrays(alpha, z)
    return compute(alpha, z, logs)


def _no_slope_of_slope(F, g, need, alpha):
    raise NotImplementedError("the second derivative of gamma-distributed random numbers by their shape parameter is "
                              "not implemented; detach the first one")  # fmt: skip


@defop
class gamma_slope:
    """The derivative by alpha of gamma-distributed z at a fixed quantile; with `logs` that of log(z), given log(z).

    NaN unless alpha > 0. The relative error is below 1e-10 in float64. There is no second derivative.

    >>> from autograd_gpu.ops.random.gamma_samples import gamma_slope
    >>> gamma_slope(ag.tensor([1.0, 1.0]), ag.tensor([1.0, 2.0]))
    tensor([1.1736, 1.6317])
    """

    forward = partial(_gamma_slope, cpu_gamma_slope.gamma_slope)
    cuda = partial(_gamma_slope, kernels.gamma_slope)
    grads = _no_slope_of_slope
    types, broadcasts = PROMOTE, True
    jvp, batch = ELEMENTWISE, BROADCASTING
    torch = "_standard_gamma_grad"
    keeps_layout = False


@public("_standard_gamma_grad")
def standard_gamma_grad(input: Tensor, output: Tensor) -> Tensor:
    """The derivative by the shape parameter `input` of the gamma-distributed number `output`, at a fixed quantile.

    >>> ag._standard_gamma_grad(ag.tensor([1.0]), ag.tensor([1.0]))
    tensor([1.1736])
    """
    return gamma_slope(input, output)


# ---- samples ------------------------------------------------------------------------------------------------------


def _standard_gamma(xp, alpha, *, generator=None):
    refuse_integers("_standard_gamma", alpha)
    wide = alpha.astype(dtypes.float64)
    drawn = draw_from("standard_gamma", xp, generator, wide, valid=wide >= 0)
    return xp.maximum(drawn, finfo(alpha.dtype).tiny).astype(alpha.dtype)


@defop
class standard_gamma:
    """Gamma-distributed numbers of scale 1 with the shape parameters in alpha; NaN for a negative one.

    They are at least the dtype's smallest normal number.

    >>> bool((ag._standard_gamma(ag.ones(3)) > 0).all())
    True
    """

    forward = _standard_gamma
    def grad_alpha(F, g, alpha, out): return g * F.gamma_slope(alpha, out)
    parameter_names = ("input",)
    types, random = ANY, True
    jvp, batch = ELEMENTWISE, BROADCASTING
    takes_out = False
    public = "_standard_gamma"
    keeps_layout = False


def _random_log_gamma(xp, alpha, *, generator=None):
    """The number of alpha + 1 times u ** (1 / alpha), in logarithms."""
    refuse_integers("_sample_dirichlet", alpha)
    wide = alpha.astype(dtypes.float64)
    drawn = draw_from("standard_gamma", xp, generator, wide + 1, valid=wide > 0)
    exponential = floats("standard_exponential", alpha.shape, dtypes.float64, stream_of(alpha, generator))
    with np.errstate(divide="ignore", invalid="ignore"):
        return (xp.log(drawn) - exponential / wide).astype(alpha.dtype)


@defop
class random_log_gamma:
    """Logarithms of gamma-distributed numbers of scale 1: those of small alpha do not underflow. NaN unless alpha > 0.

    >>> from autograd_gpu.ops.random.gamma_samples import random_log_gamma
    >>> bool(random_log_gamma(ag.full((3,), 1e-5)).isfinite().all())
    True
    """

    forward = _random_log_gamma
    def grad_alpha(F, g, alpha, out): return g * F.gamma_slope(alpha, out, logs=True)
    types, random = ANY, True
    jvp, batch = ELEMENTWISE, BROADCASTING
    keeps_layout = False


@public("_sample_dirichlet")
def sample_dirichlet(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Dirichlet-distributed vectors along the last dimension, of the concentrations in input.

    They are gamma-distributed numbers over their sum, computed in logarithms. The gradient is that of this quotient:
    like PyTorch's its expectation is the gradient of an expectation, but a single one has another value.

    >>> ag._sample_dirichlet(ag.ones(2, 3)).sum(-1)
    tensor([1., 1.])
    """
    return softmax(random_log_gamma(as_tensor(input), generator), -1)
