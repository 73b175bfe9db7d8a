"""Random functions, by the default generator of the input's device: dropout, rrelu, gumbel_softmax."""

from __future__ import annotations

import math
from functools import partial

from ... import backend, random
from ...backend import kernels
from ...backend.arrays.dtypes import float32, float64
from ...backend.cpu import dropout as cpu_dropout
from ...core.extend import (
    BROADCASTING,
    ELEMENTWISE,
    FLOAT,
    LEADING,
    LINEAR,
    RECORD,
    Tensor,
    defop,
    drawn,
    other_words,
    public,
    wrap,
)
from ...errors import ArgumentError, warn_user
from ..creation.convert import contiguous
from .exponential_activations import SELU_ALPHA, SELU_SCALE
from .piecewise_activations import leaky_relu

# ---- dropout -----------------------------------------------------------------------------------------


# On the CPU a mask is an array. On CUDA it is a `Mask`, a few numbers from which the kernel computes the bits, in
# forward and again in backward: no mask array is saved, and saved-tensor hooks do not see it.


def _apply(xp, x, p, channels, scale, shift=0.0, dropped=0.0):
    """(x * scale + shift where the mask is True, else `dropped`, the mask).

    The mask has an element per element of x, or per channel: the first two dimensions of x.
    """
    shape = (*x.shape[:2], *(1,) * (x.ndim - 2)) if channels else x.shape
    mask = random.bernoulli_mask(shape, 1 - p, backend.CPU)
    out = backend.where(xp, mask, x * scale, dropped - shift)
    if shift:
        out += shift
    return out.astype(x.dtype, copy=False), {"mask": mask}


def _apply_by_kernel(xp, x, p, channels, scale, shift=0.0, dropped=0.0):
    """The same with a `Mask`."""
    per_bit = math.prod(x.shape[2:]) if channels else 1
    count = math.prod(x.shape[:2]) if channels else x.size
    mask = random.default_generator(backend.device_of(x)).draw("mask", 1 - p, count, per_bit)
    return kernels.dropout(kernels.contiguous(x), mask, scale, shift, dropped), {"mask": mask}


@defop
class masked_scale:
    """x * scale where a `Mask` (backend/arrays/dropout_mask.py) is true, else 0; x may have further leading dimensions.

    >>> from autograd_gpu.backend.arrays.dropout_mask import Mask
    >>> from autograd_gpu.ops.nn.dropout import masked_scale
    >>> masked_scale(ag.ones(2), Mask(seed=0, start=0, keep=1.0, count=2), 2.0)
    tensor([2., 2.])
    """

    def forward(xp, x, *, mask, scale): return cpu_dropout.dropout(x, mask, scale)
    def cuda(xp, x, *, mask, scale): return kernels.dropout(kernels.contiguous(x), mask, scale)
    def grad_x(F, g, mask, scale): return F.masked_scale(g, mask, scale)
    types, jvp, batch = FLOAT, LINEAR, LEADING


def _pull(F, g, mask, scale):
    return F.masked_scale(g, mask, scale) if isinstance(mask, kernels.Mask) else F.where(mask, g * scale, 0.0)


def _in_examples(F, name, x, p, channels):
    """Each example draws its own numbers. For channels the batch dimension is folded into the rows."""
    rows = F.reshape(x, (x.shape[0] * x.shape[1], *x.shape[2:])) if channels else x
    out, extras = F.keeping_saved(name, (rows,), {"p": p, "channels": channels})
    mask = extras["mask"]
    if isinstance(mask, kernels.Mask):  # of all examples, so its bits are written out: each example has its own
        mask = F.ne(F.masked_scale(F.constant_like(rows, 1.0), mask, 1.0), 0.0)
    if not channels:
        return out, {"mask": mask}
    return F.reshape(out, x.shape), {"mask": F.reshape(mask, (*x.shape[:2], *mask.shape[1:]))}


def _with_one_mask(F, name, x, p, channels, scale, shift=0.0, dropped=0.0):
    """All examples have the mask that is drawn for the first."""
    _, extras = _in_examples(F, name, F.basic_index(x, slice(0, 1)), p, channels)
    mask = extras["mask"]
    kept = x * scale + shift if shift else x * scale
    return F.where(mask, kept, dropped), {"mask": F.expand(mask, (x.shape[0], *mask.shape[1:]))}


def _survivors(p):
    return 1 / (1 - p) if p < 1 else 0.0


def _dropped(apply, xp, x, *, p, channels=False):
    return apply(xp, x, p, channels, _survivors(p))


@defop
class random_dropout:
    """Each element, or each channel, is set to zero with probability p and divided by 1 - p otherwise.

    >>> ag.dropout(ag.ones(3), p=0.0)
    tensor([1., 1., 1.])
    """

    forward, cuda = partial(_dropped, _apply), partial(_dropped, _apply_by_kernel)
    def grad_x(F, g, mask, p): return _pull(F, g, mask, _survivors(p))
    def batch(F, n, batched, x, *, p, channels): return _in_examples(F, "random_dropout", x, p, channels)
    def random(F, n, batched, x, *, p, channels):
        return _with_one_mask(F, "random_dropout", x, p, channels, _survivors(p))
    jvp = ELEMENTWISE
    saved, types = ("mask",), FLOAT
    keeps_layout = False


LOWEST = -SELU_SCALE * SELU_ALPHA  # the limit of selu(x) for x -> -inf


def _alpha_scale(p):
    """The factor that restores mean 0 and variance 1; the shift is -p * LOWEST times the factor."""
    return 1 / math.sqrt((LOWEST * LOWEST * p + 1) * (1 - p)) if p < 1 else 0.0


def _alpha_numbers(p):
    """The factor and the shift of elements that are kept, and the value of those that are dropped."""
    scale = _alpha_scale(p)
    shift = -p * LOWEST * scale
    return scale, shift, LOWEST * scale + shift


def _alpha_dropped(apply, xp, x, *, p, channels=False):
    return apply(xp, x, p, channels, *_alpha_numbers(p))


@defop
class random_alpha_dropout:
    """Each element, or each channel, is set to selu's lowest value with probability p, then x is scaled and shifted to
    preserve mean 0 and variance 1.

    >>> ag.alpha_dropout(ag.ones(3), p=0.0, training=True)
    tensor([1., 1., 1.])
    """

    forward, cuda = partial(_alpha_dropped, _apply), partial(_alpha_dropped, _apply_by_kernel)
    def grad_x(F, g, mask, p): return _pull(F, g, mask, _alpha_scale(p))
    def batch(F, n, batched, x, *, p, channels): return _in_examples(F, "random_alpha_dropout", x, p, channels)
    def random(F, n, batched, x, *, p, channels):
        return _with_one_mask(F, "random_alpha_dropout", x, p, channels, *_alpha_numbers(p))
    jvp = ELEMENTWISE
    saved, types = ("mask",), FLOAT
    keeps_layout = False


def _drops(p: float, training: bool) -> bool:
    if not 0.0 <= p <= 1.0:
        raise ArgumentError(f"dropout probability has to be between 0 and 1, but got {p}")
    return training and p > 0


@public("dropout", "dropout_")
def dropout(input: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """In training each element is set to zero with probability p and divided by 1 - p otherwise; else input itself.

    >>> ag.dropout(ag.ones(3), p=1.0)
    tensor([0., 0., 0.])
    """
    return random_dropout(input, p) if _drops(p, training) else input


@public("feature_dropout", "feature_dropout_")
def feature_dropout(input: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """`dropout` of whole channels, the first two dimensions of input; RuntimeError if it has fewer.

    >>> ag.feature_dropout(ag.ones(1, 1, 3), p=1.0)
    tensor([[[0., 0., 0.]]])
    """
    if not _drops(p, training):
        return input
    _check_features(input)
    return random_dropout(input, p, True)


def _check_features(x: Tensor) -> None:
    if x.ndim < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")


@public()
def dropout1d(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """`dropout` of whole channels of x (N, C, L) or (C, L); RuntimeError for another number of dimensions.

    >>> ag.dropout1d(ag.ones(2, 3), p=1.0).sum()
    tensor(0.)
    """
    if x.ndim not in (2, 3):
        raise RuntimeError(f"dropout1d: Expected 2D or 3D input, but received a {x.ndim}D input. Note that dropout1d "
                           "exists to provide channel-wise dropout on inputs with 1 spatial dimension, a channel "
                           "dimension, and an optional batch dimension (i.e. 2D or 3D inputs).")
    return feature_dropout(x, p, training) if x.ndim == 3 else feature_dropout(x.unsqueeze(0), p, training).squeeze(0)


@public()
def dropout2d(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """`dropout` of whole channels of x (N, C, H, W); warns about another number of dimensions.

    An input (N, C, L) is treated as in `dropout1d`, as in PyTorch.

    >>> ag.dropout2d(ag.ones(1, 2, 2, 2), p=1.0).sum()
    tensor(0.)
    """
    if x.ndim != 4:
        warn_user(f"dropout2d: Received a {x.ndim}-D input; its first two dimensions are taken as batch and "
                      "channels. Use dropout1d for (N, C, L), dropout for others.")
    return feature_dropout(x, p, training)


@public()
def dropout3d(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """`dropout` of whole channels of x (N, C, D, H, W) or (C, D, H, W); warns about another number of dimensions.

    >>> ag.dropout3d(ag.ones(1, 2, 2, 2, 2), p=1.0).sum()
    tensor(0.)
    """
    if x.ndim not in (4, 5):
        warn_user(f"dropout3d: Received a {x.ndim}-D input; its first two dimensions are taken as batch and "
                      "channels. Use dropout1d for (N, C, L), dropout for others.")
    return feature_dropout(x.unsqueeze(0), p, training).squeeze(0) if x.ndim == 4 else feature_dropout(x, p, training)


@public("alpha_dropout", "alpha_dropout_")
def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False) -> Tensor:
    """Dropout for selu (Klambauer et al. 2017): dropped elements get selu's lowest value; keeps mean 0, variance 1.

    >>> ag.alpha_dropout(ag.ones(3), p=1.0, training=True)
    tensor([0., 0., 0.])
    """
    return random_alpha_dropout(input, p) if _drops(p, training) else input


@public("feature_alpha_dropout", "feature_alpha_dropout_")
def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False) -> Tensor:
    """`alpha_dropout` of whole channels, the first two dimensions of input.

    >>> ag.feature_alpha_dropout(ag.ones(1, 1, 2), p=1.0, training=True)
    tensor([[[0., 0.]]])
    """
    if not _drops(p, training):
        return input
    _check_features(input)
    return random_alpha_dropout(input, p, True)


# ---- random slopes -----------------------------------------------------------------------------------


def _rrelu(xp, x, *, lower=1 / 8, upper=1 / 3):
    if lower > upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    slopes = random.uniform(x.shape, float32, backend.device_of(x), lower, upper).array.astype(x.dtype, copy=False)
    slopes = backend.where(xp, x > 0, x.dtype.type(1), slopes)
    return x * slopes, {"slopes": slopes}


@defop
class random_rrelu:
    """x where x > 0, else x times a random slope per element, uniform on [lower, upper).

    >>> ag.rrelu(ag.tensor([-2.0, 3.0]), 0.5, 0.5, training=True)
    tensor([-1.,  3.])
    """

    forward = _rrelu
    def grad_x(F, g, x, slopes): return F.chosen(x, x > 0, g, g * slopes)
    saved, types, random = ("slopes",), FLOAT, True
    jvp, batch = ELEMENTWISE, BROADCASTING
    keeps_layout = False


@public("rrelu", "rrelu_", "nn.functional.rrelu_")
def rrelu(input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False) -> Tensor:
    """input where it is positive, else input times a slope: in training random per element, uniform on [lower, upper),
    else (lower + upper) / 2.

    >>> ag.rrelu(ag.tensor([-4.0, 3.0]), 0.25, 0.75)
    tensor([-2.,  3.])
    """
    return random_rrelu(input, lower, upper) if training else contiguous(leaky_relu(input, (lower + upper) / 2))


# ---- gumbel_softmax ------------------------------------------------------------------------------------


@public("gumbel_softmax", "nn.functional.gumbel_softmax")
@other_words
def gumbel_softmax(
    logits: Tensor, tau: float = 1.0, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """Softmax over `dim` of (logits + Gumbel noise) / tau: a differentiable sample of a class (Jang et al. 2017).

    With `hard` the result is one-hot, with the gradient of the soft sample. `eps` has no effect.

    >>> ag.gumbel_softmax(ag.zeros(2, 3), hard=True).sum(-1)
    tensor([1., 1.])
    """
    wide = float64 if logits.dtype == float64 else float32
    stream = random.default_generator(logits.device)
    exponentials = drawn(logits.shape, lambda shape: wrap(stream.draw("standard_exponential", shape, dtype=wide)))
    noise = RECORD.log(exponentials).to(logits.dtype)
    soft = RECORD.softmax((logits - noise) / tau, dim)
    if not hard:
        return soft
    highest = RECORD.argmax(soft.detach(), dim, True)
    return RECORD.constant_like(soft, 0.0).scatter(dim, highest, 1.0) - soft.detach() + soft
