"""PyTorch's path of the exchange by DLPack."""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor
from ..ops import from_dlpack


def to_dlpack(tensor: Tensor) -> Any:
    """A capsule with the memory of `tensor`, for another library's from_dlpack; most take the tensor itself.

    >>> type(ag.utils.dlpack.to_dlpack(ag.ones(2, device="cpu"))).__name__
    'PyCapsule'
    """
    return tensor.__dlpack__()


__all__ = ["from_dlpack", "to_dlpack"]
