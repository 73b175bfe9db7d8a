"""compile: calls that are recorded and replayed."""

from .compiled import Compiled, compile, reset
from .graph import CompileError

__all__ = ["CompileError", "Compiled", "compile", "reset"]
