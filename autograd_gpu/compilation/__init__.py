"""compile: calls that are recorded and replayed."""

from .compiled import WRAPPERS, Compiled, compile, reset
from .graph import CompileError

__all__ = ["WRAPPERS", "CompileError", "Compiled", "compile", "reset"]
