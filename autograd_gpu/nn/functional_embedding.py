"""nn.functional's embedding and embedding_bag, with `max_norm`."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..autograd import Function
from ..core.tensor import Tensor
from ..modes import no_grad


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
    return ops.embedding(input, shared_by_uses(weight, input) if scale_grad_by_freq else weight, padding_idx)


def embedding_bag(
    input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: float | None = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False,
    per_sample_weights: Tensor | None = None, include_last_offset: bool = False, padding_idx: int | None = None,
) -> Tensor:  # fmt: skip
    """The sum, mean or maximum of the rows of each bag; see ag.embedding_bag, and `embedding` for `max_norm`.

    NotImplementedError for `sparse`, ValueError for `scale_grad_by_freq` with "max".

    >>> ag.nn.functional.embedding_bag(ag.tensor([[0, 1]]), ag.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[2., 3.]])
    """
    check_dense(sparse)
    if scale_grad_by_freq and mode == "max":
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if max_norm is not None:
        limit_rows(weight, input, max_norm, norm_type)
    weight = shared_by_uses(weight, input) if scale_grad_by_freq else weight
    return ops.embedding_bag(input, weight, offsets, mode, per_sample_weights, include_last_offset, padding_idx)


def shared_by_uses(weight: Tensor, indices: Tensor) -> Tensor:
    """`weight`, whose gradient is divided by the number of times that `indices` name each row."""
    if not weight.requires_grad:
        return weight
    uses = ops.bincount(indices.ravel(), minlength=weight.shape[0]).clamp(1)
    return _Shared.apply(weight, 1 / uses.to(weight.dtype).unsqueeze(-1))


class _Shared(Function):
    """The identity on `weight`, whose gradient is multiplied by `share`."""

    generate_vmap_rule = True

    @staticmethod
    def forward(weight: Tensor, share: Tensor) -> Tensor:
        return weight.view(weight.shape)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[1])

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        (share,) = ctx.saved_tensors
        return g * share, None

    @staticmethod
    def jvp(ctx: Any, t: Tensor, _: None) -> Tensor:
        """The tangent of the identity, which has no share, as PyTorch's."""
        return t.view(t.shape)


def check_dense(sparse: bool) -> None:
    if sparse:
        raise NotImplementedError("embedding: gradients are dense; leave out sparse=True")


def limit_rows(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> None:
    """Scales the rows of `weight` at `indices` in place to a norm of at most `max_norm`."""
    with no_grad():
        places, values = indices.ravel(), weight.detach()  # whose write leaves a tangent of the weight alone
        rows = values[places]
        norms = rows.norm(norm_type, -1, True)
        values[places] = rows * ops.where(norms > max_norm, max_norm / (norms + 1e-7), 1.0)
