"""nn.functional's forms of embedding and embedding_bag, which also limit the norms of the rows they look up."""

from __future__ import annotations

from .. import ops
from ..config import no_grad
from ..core.tensor import Tensor


def embedding(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Tensor:  # fmt: skip
    """The rows of `weight` (V, D) that the integers `input` (...) name: (..., D).

    Row `padding_idx` gets no gradient. With `max_norm` the rows that are named are scaled, in `weight` itself, to a
    `norm_type`-norm of at most that. Gradients are dense and count every use: NotImplementedError for `sparse` and
    `scale_grad_by_freq`. ValueError for a padding_idx that names no row, IndexError (on the CPU) for such an input.

    >>> table = ag.tensor([[3.0, 4.0], [0.0, 0.5]])
    >>> ag.nn.functional.embedding(ag.tensor([0, 1]), table, max_norm=1.0)
    tensor([[0.6, 0.8],
            [0. , 0.5]])
    """
    check_dense(scale_grad_by_freq, sparse)
    if padding_idx is not None and not -weight.shape[0] <= padding_idx < weight.shape[0]:
        raise ValueError(f"Padding_idx must be within num_embeddings; got {padding_idx} for {weight.shape[0]} rows")
    if max_norm is not None:
        limit_rows(weight, input, max_norm, norm_type)
    return ops.embedding(input, weight, padding_idx)


def embedding_bag(
    input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: float | None = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False,
    per_sample_weights: Tensor | None = None, include_last_offset: bool = False, padding_idx: int | None = None,
) -> Tensor:  # fmt: skip
    """The sum, mean or maximum of the rows that each bag names; see ag.embedding_bag, and `embedding` for `max_norm`.

    >>> ag.nn.functional.embedding_bag(ag.tensor([[0, 1]]), ag.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[2., 3.]])
    """
    check_dense(scale_grad_by_freq, sparse)
    if max_norm is not None:
        limit_rows(weight, input, max_norm, norm_type)
    return ops.embedding_bag(input, weight, offsets, mode, per_sample_weights, include_last_offset, padding_idx)


def check_dense(scale_grad_by_freq: bool, sparse: bool) -> None:
    if sparse:
        raise NotImplementedError("embedding: gradients are dense; leave out sparse=True")
    if scale_grad_by_freq:
        raise NotImplementedError("embedding: scale_grad_by_freq is not implemented; divide the gradient in a hook on "
                                  "the result")


def limit_rows(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> None:
    """Scales the rows of `weight` that are named, in place, to a norm of at most `max_norm`."""
    with no_grad():
        places = indices.ravel()
        rows = weight.detach()[places]
        norms = rows.norm(norm_type, -1, True)
        weight[places] = rows * ops.where(norms > max_norm, max_norm / (norms + 1e-7), 1.0)
