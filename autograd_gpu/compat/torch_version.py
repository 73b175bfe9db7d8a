"""The version of PyTorch whose names and behaviour are those of this library, comparable as PyTorch's."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any


class TorchVersion(str):
    """A version that compares by its numbers, with a string or a tuple.

    >>> version = ag.torch_version.TorchVersion("2.13.0")
    >>> version > "2.9", version >= (2, 13), str(version)
    (True, True, '2.13.0')
    """

    __slots__ = ()
    __hash__ = str.__hash__


def _numbers(version: Any) -> tuple[int, ...]:
    """The leading numbers of a version, without zeros at the end: 2.1 is 2.1.0."""
    if isinstance(version, str):
        version = re.match(r"v?([\d.]*)", version)[1].split(".")  # type: ignore[index]  # it matches any text
    numbers = [int(part) for part in version if str(part).isdigit()]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def _comparison(name: str) -> Callable[[TorchVersion, Any], Any]:
    def compare(self: TorchVersion, other: Any) -> Any:
        if not isinstance(other, str | tuple | list):
            return NotImplemented
        return getattr(_numbers(self), name)(_numbers(other))

    return compare


for _name in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"):
    setattr(TorchVersion, _name, _comparison(_name))

__version__ = TorchVersion("2.13.0")
__all__ = ["TorchVersion"]
