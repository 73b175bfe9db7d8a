"""What the single calls of a list op get: `columns` has an entry for each parameter of the op on one tensor.

An op on lists has one list input, which holds the lists of tensors end to end, and the attribute `columns`. With
lists of n tensors each, foreach.addcmul(xs, ys, zs, value=2) is

    foreach_addcmul([*xs, *ys, *zs], columns=(LIST, LIST, LIST, 2))

and its element i is addcmul(xs[i], ys[i], zs[i], value=2).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any, NamedTuple


class _List:
    def __repr__(self) -> str:
        return "LIST"

    def __reduce__(self) -> str:  # copies and pickles are the object itself
        return "LIST"


LIST = _List()  # an entry of `columns`: the parameter gets the tensors of the next list


class Each(tuple[Any, ...]):
    """An entry of `columns`: the parameter gets one of these values per element."""

    __slots__ = ()


Columns = tuple[Any, ...]  # of LIST, Each, or a value for all elements


def length(columns: Columns, tensors: Sequence[Any]) -> int:
    """The number of elements of each list."""
    return len(tensors) // sum([column is LIST for column in columns])


def parameters(columns: Columns, tensors: Sequence[Any]) -> list[Any]:
    """For each parameter an iterable of its values."""
    params: list[Any] = []
    n, start = length(columns, tensors), 0
    for column in columns:
        if column is LIST:
            params.append(tensors[start : start + n])
            start += n
        else:
            params.append(column if type(column) is Each else repeat(column, n))
    return params


def elements(columns: Columns, tensors: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """For each element the values of all parameters."""
    return zip(*parameters(columns, tensors), strict=True)


class Group(NamedTuple):
    """Elements whose parameters get the same numbers: `rows` are their indices, `columns` has no Each."""

    rows: list[int]
    columns: Columns


def groups(columns: Columns, n: int, *more: Sequence[Any]) -> list[Group]:
    """The elements grouped by their numbers and by their values in the lists `more`."""
    lists = [column for column in columns if type(column) is Each]
    more = tuple([values for values in more if values.count(values[0]) < n])
    if not lists and not more:
        return [Group(list(range(n)), columns)]
    rows_of: dict[tuple[Any, ...], list[int]] = {}
    for i, key in enumerate(zip(*lists, *more, strict=True)):
        rows_of.setdefault(key, []).append(i)
    return [Group(rows, _at(columns, rows[0])) for rows in rows_of.values()]


def _at(columns: Columns, i: int) -> Columns:
    return tuple([column[i] if type(column) is Each else column for column in columns])
