"""JvpWord: a named rule for the spec `jvp` of an op's block; jvp_rules.py defines the rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Tangents = tuple[Any, ...]


class JvpWord:
    """A named jvp rule: push(F, call, tangents) returns the tangents of the outputs."""

    def __init__(self, name: str, push: Callable[..., Tangents], several_outputs: bool = False) -> None:
        self.name, self.push = name, push
        self.several_outputs = several_outputs  # whether an op with several outputs may use the rule

    def __repr__(self) -> str:
        return self.name
