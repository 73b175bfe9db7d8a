"""Embedding tables and embedding bags."""

from __future__ import annotations

from typing import Any

from ..core.tensor import Parameter, Tensor
from ..ops.creation.factories import empty
from . import functional as F
from . import init
from .functional_embedding import check_dense
from .module import Module


class _Table(Module):
    """Base of Embedding and EmbeddingBag: the table, its initialization, from_pretrained."""

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None, max_norm: float | None,
        norm_type: float, scale_grad_by_freq: bool, sparse: bool, weight: Tensor | None, freeze: bool, device: Any,
        dtype: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        check_dense(sparse)
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise ValueError(f"Padding_idx must be within num_embeddings; got {padding_idx} for {num_embeddings}")
            padding_idx %= num_embeddings
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = padding_idx
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        if weight is not None:
            if weight.shape != (num_embeddings, embedding_dim):
                raise ValueError("Shape of weight does not match num_embeddings and embedding_dim: "
                                 f"{list(weight.shape)} for {num_embeddings} and {embedding_dim}")
            self.weight = Parameter(weight, requires_grad=not freeze)
        else:
            fresh = empty(num_embeddings, embedding_dim, device=device, dtype=dtype)
            self.weight = Parameter(fresh, requires_grad=not freeze)
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Redraws the table; the row `padding_idx` becomes zeros."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            init.zeros_(self.weight.detach()[self.padding_idx])

    @classmethod
    def from_pretrained(cls, embeddings: Tensor, freeze: bool = True, **options: Any) -> Any:
        """A module with the table `embeddings` (V, D), which it shares; `options` as in the constructor.

        >>> ag.nn.Embedding.from_pretrained(ag.ones(3, 2)).weight.requires_grad
        False
        """
        if embeddings.ndim != 2:
            raise ValueError(f"Embeddings parameter is expected to be 2-dimensional; got {embeddings.ndim} dimensions")
        rows, width = embeddings.shape
        make: Any = cls
        made = make(rows, width, _weight=embeddings, **options)
        made.weight.requires_grad_(not freeze)
        return made

    def _ag_options_repr(self) -> list[str]:
        parts = [f"{self.num_embeddings}, {self.embedding_dim}"]
        if self.max_norm is not None:
            parts.append(f"max_norm={self.max_norm}")
        if self.norm_type != 2:
            parts.append(f"norm_type={self.norm_type}")
        return parts


class Embedding(_Table):
    """Rows of a table by integer index: (...) -> (..., embedding_dim); initialized as standard normal.

    Row `padding_idx` is initialized to zeros and gets no gradient. With `max_norm`, looked-up rows are scaled in place
    to a `norm_type`-norm of at most max_norm. With `scale_grad_by_freq` a row's gradient is divided by the number of
    its lookups. Gradients are dense.

    >>> ag.nn.Embedding(10, 4)(ag.tensor([1, 2, 1])).shape
    (3, 4)
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False,
        _weight: Tensor | None = None, _freeze: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, _weight,
            _freeze, device, dtype,
        )  # fmt: skip

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq
        )

    def extra_repr(self) -> str:
        parts = self._ag_options_repr()
        if self.padding_idx is not None:
            parts.insert(1, f"padding_idx={self.padding_idx}")
        if self.scale_grad_by_freq:
            parts.append("scale_grad_by_freq=True")
        return ", ".join(parts)


class EmbeddingBag(_Table):
    """The sum, mean or maximum (`mode`) of table rows per bag: -> (bags, embedding_dim); see ag.embedding_bag.

    The bags are the rows of an input (bags, n), or start at `offsets` (bags,) in an input (n,). NotImplementedError for
    `sparse`.

    >>> ag.nn.EmbeddingBag(10, 4)(ag.tensor([1, 2, 1]), ag.tensor([0, 2])).shape
    (2, 4)
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None, norm_type: float = 2.0,
        scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, _weight: Tensor | None = None,
        include_last_offset: bool = False, padding_idx: int | None = None, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, _weight,
            False, device, dtype,
        )  # fmt: skip
        self.mode = mode
        self.include_last_offset = include_last_offset

    def forward(
        self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        return F.embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.mode,
            per_sample_weights=per_sample_weights, include_last_offset=self.include_last_offset,
            padding_idx=self.padding_idx,
        )  # fmt: skip

    def extra_repr(self) -> str:
        parts = [*self._ag_options_repr(), f"mode={self.mode!r}"]
        if self.padding_idx is not None:
            parts.append(f"padding_idx={self.padding_idx}")
        return ", ".join(parts)
