"""GradBucket: the gradients that are reduced together, as a communication hook gets them."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.tensor import Tensor


class GradBucket:
    """Gradients of several parameters in one flat tensor, `buffer()`."""

    def __init__(
        self, index: int, is_last: bool, buffer: Tensor, gradients: Sequence[Tensor], parameters: Sequence[Tensor]
    ) -> None:
        self._index, self._is_last, self._buffer = index, is_last, buffer
        self._gradients, self._parameters = gradients, parameters

    def index(self) -> int:
        """The number of the bucket; those with lower numbers are reduced before."""
        return self._index

    def is_last(self) -> bool:
        """Whether this bucket is the last one of the backward."""
        return self._is_last

    def buffer(self) -> Tensor:
        """All gradients, one after the other, as a tensor with one dimension."""
        return self._buffer

    def set_buffer(self, tensor: Tensor) -> None:
        """Replaces what `buffer()` returns, for hooks that call other hooks; the gradients stay where they are."""
        self._buffer = tensor

    def gradients(self) -> list[Tensor]:
        """The gradients with their shapes, in the memory of the buffer."""
        return list(self._gradients)

    def parameters(self) -> list[Tensor]:
        """The parameters of the gradients."""
        return list(self._parameters)
