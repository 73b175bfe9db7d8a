"""Names and literals in the text of a program."""

from __future__ import annotations

import keyword
import re
from typing import Any

# Names that the text of a program uses itself; values get others.
_OWN = frozenset(("np", "asarray", "generic", "row_major", "set_grad", "write", "wrap", "RAW", "frame", "frames",
                  "new_frame", "observers", "count", "extras", "saved", "_"))


def identifier(name: str) -> str:
    """The name of a value in the text of a program."""
    text = re.sub(r"\W", "_", name)
    return f"{text}_" if keyword.iskeyword(text) or text in _OWN or re.fullmatch(r"m\d+|s\d+_\d+", text) else text


def is_literal(value: Any) -> bool:
    """Whether the text of a value gives the value."""
    if type(value) is tuple:
        return all(map(is_literal, value))
    if type(value) is float:
        return value == value and abs(value) != float("inf")
    return type(value) in (int, bool, str, type(None))

