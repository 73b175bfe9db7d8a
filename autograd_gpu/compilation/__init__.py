"""compile: calls that are recorded and replayed."""

from .compiled import REPLAYS, WRAPPERS, Compiled, compile, reset
from .graph import CompileError

__all__ = ["REPLAYS", "WRAPPERS", "CompileError", "Compiled", "compile", "reset"]
