"""Size: the shape of a tensor, a tuple that counts its elements."""

from __future__ import annotations

import math
from collections.abc import Iterable
from operator import index
from typing import Any, SupportsIndex

_get, _add, _repeat, _new = tuple.__getitem__, tuple.__add__, tuple.__mul__, tuple.__new__


class Size(tuple[int, ...]):
    """A tuple of integers; slices, sums and multiples are Sizes again. It prints as a tuple.

    >>> ag.ones(2, 3, 4).shape[1:].numel()
    12
    """

    __slots__ = ()

    def __new__(cls, sizes: Iterable[SupportsIndex] = ()) -> Size:
        """Makes a Size from integers; TypeError for other elements."""
        return tuple.__new__(cls, [n if type(n) is int else index(n) for n in sizes])

    def numel(self) -> int:
        """The number of elements of a tensor with this shape."""
        return math.prod(self)

    def __getitem__(self, at: Any) -> Any:
        part = _get(self, at)
        return part if type(part) is int else _new(Size, part)

    def __add__(self, other: Any) -> Any:
        return Size(_add(self, other)) if isinstance(other, tuple) else NotImplemented

    def __radd__(self, other: Any) -> Any:
        return Size(_add(other, self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, times: Any) -> Size:
        return _new(Size, _repeat(self, times))

    __rmul__ = __mul__


# Cache of Sizes by shape: a look-up takes half the time of creating a Size.
KNOWN_SIZES: dict[tuple[int, ...], Size] = {}
_MOST = 4096


def new_size(shape: tuple[int, ...]) -> Size:
    """Converts `shape` to a Size and caches it."""
    if len(KNOWN_SIZES) >= _MOST:
        KNOWN_SIZES.clear()
    made = tuple.__new__(Size, shape)
    KNOWN_SIZES[tuple(shape)] = made
    return made
