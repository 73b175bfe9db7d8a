"""The reduction of losses, and the rules by which losses of elements are pushed forward and batched.

`reduction` is "mean", "sum" or "none" (one loss per element).
"""

from __future__ import annotations

import math

from ...backend.arrays.dtypes import wide
from ...core.extend import (
    ELEMENTWISE,
    LOOP,
    RECORD,
    BatchWord,
    JvpWord,
    Tensor,
    aligned,
    call,
    example,
    expanded,
)
from ...errors import ArgumentError
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
