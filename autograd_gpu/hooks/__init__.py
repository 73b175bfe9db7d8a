"""Ready-made saved-tensor hooks that reduce the memory of tensors saved for backward."""

from .base import MemoryHook
from .compose import compose
from .offload import offload
from .quantize import quantize
from .select import select

__all__ = ["MemoryHook", "compose", "offload", "quantize", "select"]


def __dir__() -> list[str]:
    return list(__all__)
