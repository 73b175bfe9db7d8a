"""Affine maps and the layers that only move data: Linear, Embedding, Identity, Flatten."""

from __future__ import annotations

import math
from typing import Any

from ..core.tensor import Parameter, Tensor
from ..ops import embedding, linear
from ..ops.creation import empty
from . import init
from .module import Module


class Linear(Module):
    """x @ weight.T + bias: (..., in_features) -> (..., out_features).

    `weight` is (out_features, in_features), `bias` (out_features,); both start uniform in
    +-1/sqrt(in_features).

    >>> ag.nn.Linear(3, 2)(ag.ones(5, 3)).shape
    (5, 2)
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(empty(out_features, in_features, device=device, dtype=dtype))
        if bias:
            self.bias: Parameter | None = Parameter(empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new values."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0.0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Embedding(Module):
    """Rows of a table by integer index: (...) -> (..., embedding_dim); the table starts as standard normal.

    >>> ag.nn.Embedding(10, 4)(ag.tensor([1, 2, 1])).shape
    (3, 4)
    """

    def __init__(self, num_embeddings: int, embedding_dim: int, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.weight = Parameter(empty(num_embeddings, embedding_dim, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new values."""
        init.normal_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        return embedding(input, self.weight)

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}"


class Identity(Module):
    """Returns its input; takes any constructor arguments, so that it can stand in for another layer.

    >>> ag.nn.Identity()(ag.ones(1))
    tensor([1.])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Flatten(Module):
    """Joins the dimensions from `start_dim` to `end_dim` into one.

    >>> ag.nn.Flatten()(ag.zeros(2, 3, 4)).shape
    (2, 12)
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"
