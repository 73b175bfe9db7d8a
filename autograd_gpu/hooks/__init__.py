"""Saved-tensor hooks that are ready to use: they make what is kept for backward take less memory."""

from .base import MemoryHook
from .offload import offload
from .quantize import quantize

__all__ = ["MemoryHook", "offload", "quantize"]
