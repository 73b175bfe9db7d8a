"""Layers that infer their input size from the first input."""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor
from .linear import Linear
from .module import Module
from .parameter import UninitializedParameter, is_lazy


class LazyLinear(Linear):
    """A Linear whose `in_features` is the last size of its first input; the first call makes it a Linear.

    >>> layer = ag.nn.LazyLinear(2)
    >>> layer(ag.ones(5, 3)).shape, layer
    ((5, 2), Linear(in_features=3, out_features=2, bias=True))
    """

    weight: Any
    bias: Any

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        Module.__init__(self)
        self.in_features = 0
        self.out_features = out_features
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.register_parameter("bias", UninitializedParameter(device=device, dtype=dtype) if bias else None)

    def reset_parameters(self) -> None:
        """Redraws the parameters if they are initialized."""
        if not is_lazy(self.weight):
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Initializes the parameters from the shape of `input`, unless a state dict has set them."""
        if is_lazy(self.weight):
            self.in_features = input.shape[-1]
            self.weight.materialize((self.out_features, self.in_features))
            if self.bias is not None:
                self.bias.materialize((self.out_features,))
            self.reset_parameters()
        self.in_features = self.weight.shape[1]
        self.__class__ = Linear  # type: ignore[assignment]

    def forward(self, input: Tensor) -> Tensor:
        self.initialize_parameters(input)
        return Linear.forward(self, input)  # not super(): the class is Linear now
