"""JvpWord: a word that `jvp` of an op's block may say; the words are in jvp_rules.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Tangents = tuple[Any, ...]


class JvpWord:
    """A word with its meaning: push(F, call, tangents) -> the outputs' tangents."""

    def __init__(self, name: str, push: Callable[..., Tangents], several_outputs: bool = False) -> None:
        self.name, self.push = name, push
        self.several_outputs = several_outputs  # whether an op with several outputs may say it

    def __repr__(self) -> str:
        return self.name
