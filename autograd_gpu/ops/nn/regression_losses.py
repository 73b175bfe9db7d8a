"""Losses of the difference of input and target, and helpers of all losses.

`reduction` is "mean", "sum" or "none" (one loss per element).
"""

from __future__ import annotations

import math

from ...backend.arrays.dtypes import wide
from ...core.extend import (
    ELEMENTWISE,
    FLOAT,
    LOOP,
    RECORD,
    BatchWord,
    JvpWord,
    Tensor,
    aligned,
    call,
    defop,
    example,
    expanded,
    other_words,
    public,
)
from ...errors import ArgumentError, warn_user
from ..reduction.dimensions import ufunc_reduce

REDUCTIONS = ("mean", "sum", "none")


def check_reduction(reduction: str) -> None:
    if reduction not in REDUCTIONS:
        raise ArgumentError(f"{reduction} is not a valid value for reduction; use 'mean', 'sum' or 'none'")


def finish(xp, values, reduction, dtype):
    """The reduction of the elements' losses; the mean of no elements is NaN."""
    check_reduction(reduction)
    if reduction == "none":
        return values.astype(dtype, copy=False)
    total = ufunc_reduce(xp, "add", values, None, False, wide(values.dtype))
    if reduction == "mean":
        total = total / values.size if values.size else total * math.nan
    return total.astype(dtype, copy=False)


def share(g, shape, reduction):
    """The gradient of each element's loss, given that of the reduced loss."""
    return g / (math.prod(shape) or 1) if reduction == "mean" else g


def settle(losses: Tensor, reduction: str) -> Tensor:
    """`finish` for a tensor of losses."""
    check_reduction(reduction)
    if reduction == "none":
        return losses
    return RECORD.sum(losses) if reduction == "sum" else RECORD.mean(losses)


# ---- jvp and batching rules of losses ------------------------------------------------------------------


def _loss_jvp(F, call, tangents):
    """The tangent of a loss: the sum of the elements' gradients times tangents."""
    (parts,) = ELEMENTWISE.push(F, call, tangents)
    return (parts if parts is None or call.attributes["reduction"] == "none" else F.sum(parts),)


def expanded_inputs(F, n, batched, inputs):
    """All inputs with a batch dimension, so that the other dimensions still broadcast."""
    return aligned(F, [x is not None for x in inputs], expanded(F, n, batched, inputs))


def reduced_samples(F, values, reduction):
    """`finish` for each sample of the losses `values`."""
    check_reduction(reduction)
    dims = tuple(range(1 - len(values.shape), 0))
    if reduction == "none" or not dims:
        return values
    return F.sum(values, dims) if reduction == "sum" else F.mean(values, dims)


def _batched_loss(F, op, n, batched, inputs, attributes):
    shapes = [example(x, b).shape for x, b in zip(inputs[:2], batched, strict=False)]
    if not op.broadcasts and shapes[0] != shapes[1]:
        return LOOP.run(F, op, n, batched, inputs, attributes)  # which raises the op's error
    values = call(F, op, expanded_inputs(F, n, batched, inputs), attributes | {"reduction": "none"})
    return reduced_samples(F, values, attributes["reduction"])


LOSS_JVP = JvpWord("LOSS_JVP", _loss_jvp)  # of elementwise losses with a `reduction`
LOSS_BATCH = BatchWord("LOSS_BATCH", _batched_loss)


# ---- regression --------------------------------------------------------------------------------------


def _difference(xp, input, target):
    if input.shape != target.shape:
        _warn_of_broadcasting(input.shape, target.shape)
    return xp.subtract(input, target).astype(wide(input.dtype), copy=False)


def _warn_of_broadcasting(input_shape, target_shape):
    warn_user(
        f"Using a target size ({list(target_shape)}) that is different to the input size ({list(input_shape)}). "
        "This will likely lead to incorrect results due to broadcasting. Please ensure they have the same size."
    )


def _mse(xp, input, target, *, reduction="mean"):
    d = _difference(xp, input, target)
    return finish(xp, d * d, reduction, input.dtype)


def _mse_back(F, g, input, target, reduction):
    d = input - target
    return d * (share(g, d.shape, reduction) * 2)


@defop
class mse_loss:
    """(input - target) ** 2.

    Float tensors of the same shape; different shapes broadcast, with a warning. `reduction` is "mean" (the default; NaN
    for no elements), "sum" or "none"; ValueError for any other.

    >>> ag.mse_loss(ag.tensor([0.0, 0.0]), ag.tensor([1.0, 3.0]))
    tensor(5.)
    """

    forward = _mse
    grad_input = _mse_back
    def grad_target(F, g, input, target, reduction): return -_mse_back(F, g, input, target, reduction)
    types, broadcasts, promotes_zero_dim = FLOAT, True, True
    jvp, batch = LOSS_JVP, LOSS_BATCH
    takes_out = False
    public = True
    keeps_layout = True


def _l1(xp, input, target, *, reduction="mean"):
    return finish(xp, xp.absolute(_difference(xp, input, target)), reduction, input.dtype)


def _l1_back(F, g, input, target, reduction):
    d = input - target
    return F.sign(d) * share(g, d.shape, reduction)


@defop
class l1_loss:
    """|input - target|.

    Float tensors of the same shape; different shapes broadcast, with a warning. `reduction` is "mean" (the default; NaN
    for no elements), "sum" or "none"; ValueError for any other.

    >>> ag.l1_loss(ag.tensor([0.0, 0.0]), ag.tensor([1.0, 3.0]))
    tensor(2.)
    """

    forward = _l1
    grad_input = _l1_back
    def grad_target(F, g, input, target, reduction): return -_l1_back(F, g, input, target, reduction)
    types, broadcasts, promotes_zero_dim = FLOAT, True, True
    jvp, batch = LOSS_JVP, LOSS_BATCH
    takes_out = False
    public = no_lossy_save = True
    keeps_layout = True


def _huber(xp, input, target, *, reduction="mean", delta=1.0):
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    size = xp.absolute(_difference(xp, input, target))
    limited = xp.minimum(size, delta)
    return finish(xp, limited * (size - limited * 0.5), reduction, input.dtype)


def _huber_back(F, g, input, target, reduction, delta):
    d = input - target
    return F.clamp(d, -delta, delta) * share(g, d.shape, reduction)


@defop
class huber_loss:
    """d ** 2 / 2 where |d| < delta, else delta * (|d| - delta / 2), with d = input - target.

    Float tensors of the same shape; different shapes broadcast, with a warning. `reduction` is "mean" (the default; NaN
    for no elements), "sum" or "none"; ValueError for any other. RuntimeError unless delta > 0.

    >>> ag.huber_loss(ag.tensor([0.0, 0.0]), ag.tensor([1.0, 3.0]))
    tensor(1.5)
    """

    forward = _huber
    grad_input = _huber_back
    def grad_target(F, g, input, target, reduction, delta): return -_huber_back(F, g, input, target, reduction, delta)
    types, broadcasts, promotes_zero_dim = FLOAT, True, True
    jvp, batch = LOSS_JVP, LOSS_BATCH
    takes_out = False
    public = True
    keeps_layout = True


@public("smooth_l1_loss", "nn.functional.smooth_l1_loss")
@other_words
def smooth_l1_loss(input: Tensor, target: Tensor, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """d ** 2 / (2 beta) where |d| < beta, else |d| - beta / 2, with d = input - target.

    Float tensors of the same shape; different shapes broadcast, with a warning. `reduction` is "mean" (the default; NaN
    for no elements), "sum" or "none"; ValueError for any other. RuntimeError if beta < 0; beta = 0 gives `l1_loss`.

    >>> ag.smooth_l1_loss(ag.tensor([0.0, 0.0]), ag.tensor([1.0, 3.0]), beta=2.0)
    tensor(1.125)
    """
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    return l1_loss(input, target, reduction) if beta == 0 else huber_loss(input, target, reduction, beta) / beta
