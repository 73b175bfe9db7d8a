"""nn.functional's embedding and embedding_bag, with `max_norm`."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..autograd import Function
from ..config import no_grad
from ..core.tensor import Tensor


def embedding(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Tensor:  # fmt: skip
    """The rows of `weight` (V, D) at the integer indices `input` (...): (..., D).

    Row `padding_idx` gets no gradient. With `max_norm` the looked-up rows of `weight` are scaled in place to a
    `norm_type`-norm of at most max_norm. With `scale_grad_by_freq` a row's gradient is divided by the number of its
    lookups. Gradients are dense: NotImplementedError for `sparse`. ValueError for a padding_idx out of range,
    IndexError (on the CPU) for an index out of range.

    >>> table = ag.tensor([[3.0, 4.0], [0.0, 0.5]])
    >>> ag.nn.functional.embedding(ag.tensor([0, 1]), table, max_norm=1.0)
    tensor([[0.6, 0.8],
            [0. , 0.5]])
    """
    check_dense(sparse)
    if padding_idx is not None and not -weight.shape[0] <= padding_idx < weight.shape[0]:
        raise ValueError(f"Padding_idx must be within num_embeddings; got {padding_idx} for {weight.shape[0]} rows")
    if max_norm is not None:
        limit_rows(weight, input, max_norm, norm_type)
    rows = ops.embedding(input, weight, padding_idx)
    if not scale_grad_by_freq or not rows.requires_grad:
        return rows
    uses = ops.bincount(input.ravel(), minlength=weight.shape[0])[input]
    return _Shared.apply(rows, 1 / uses.to(rows.dtype).unsqueeze(-1))


def embedding_bag(
    input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: float | None = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False,
    per_sample_weights: Tensor | None = None, include_last_offset: bool = False, padding_idx: int | None = None,
) -> Tensor:  # fmt: skip
    """The sum, mean or maximum of the rows of each bag; see ag.embedding_bag, and `embedding` for `max_norm`.

    NotImplementedError for `sparse` and `scale_grad_by_freq`.

    >>> ag.nn.functional.embedding_bag(ag.tensor([[0, 1]]), ag.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[2., 3.]])
    """
    check_dense(sparse)
    check_every_use(scale_grad_by_freq)
    if max_norm is not None:
        limit_rows(weight, input, max_norm, norm_type)
    return ops.embedding_bag(input, weight, offsets, mode, per_sample_weights, include_last_offset, padding_idx)


class _Shared(Function):
    """The identity on `rows`, whose gradient is multiplied by `share`."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, share: Tensor) -> Tensor:
        ctx.save_for_backward(share)
        return rows.view(rows.shape)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        (share,) = ctx.saved_tensors
        return g * share, None


def check_dense(sparse: bool) -> None:
    if sparse:
        raise NotImplementedError("embedding: gradients are dense; leave out sparse=True")


def check_every_use(scale_grad_by_freq: bool) -> None:
    if scale_grad_by_freq:
        raise NotImplementedError("embedding_bag: scale_grad_by_freq is not implemented; divide the gradient of the "
                                  "weight by the counts in a hook on it")


def limit_rows(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> None:
    """Scales the rows of `weight` at `indices` in place to a norm of at most `max_norm`."""
    with no_grad():
        places, values = indices.ravel(), weight.detach()  # whose write leaves a tangent of the weight alone
        rows = values[places]
        norms = rows.norm(norm_type, -1, True)
        values[places] = rows * ops.where(norms > max_norm, max_norm / (norms + 1e-7), 1.0)
