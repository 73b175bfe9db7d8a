"""compile: calls that are recorded and replayed."""

from .compiled import Compiled, compile
from .graph import CompileError

__all__ = ["CompileError", "Compiled", "compile"]
