"""Rows: one value per element of a list op. With them a derivative rule of the op on one tensor runs on all elements.

The rule of a product, `g * b`, on Rows g and b is one call of foreach_mul, which is one launch on CUDA. So a rule is
written once, in the block of the op on one tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...core.extend import REGISTRY
from .columns import LIST


class Rows:
    """Arrays, tensors, shapes or dtypes, one per element. Operators run as functions of `F`, a RowFunctions."""

    __slots__ = ("F", "values")

    def __init__(self, F: RowFunctions, values: Sequence[Any]) -> None:
        self.F, self.values = F, values

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    @property
    def shape(self) -> Rows:
        return Rows(self.F, [tuple(value.shape) for value in self.values])

    @property
    def dtype(self) -> Rows:
        return Rows(self.F, [value.dtype for value in self.values])

    def __neg__(self) -> Rows:
        return self.F.neg(self)

    def __abs__(self) -> Rows:
        return self.F.abs(self)

    def __add__(self, other: Any) -> Rows:
        return self.F.add(self, other)

    def __radd__(self, other: Any) -> Rows:
        return self.F.add(other, self)

    def __sub__(self, other: Any) -> Rows:
        return self.F.sub(self, other)

    def __rsub__(self, other: Any) -> Rows:
        return self.F.sub(other, self)

    def __mul__(self, other: Any) -> Rows:
        return self.F.mul(self, other)

    def __rmul__(self, other: Any) -> Rows:
        return self.F.mul(other, self)

    def __truediv__(self, other: Any) -> Rows:
        return self.F.div(self, other)

    def __rtruediv__(self, other: Any) -> Rows:
        return self.F.div(other, self)

    def __eq__(self, other: object) -> Rows:  # type: ignore[override]  # elementwise, as a tensor's
        return self.F.eq(self, other)

    def __lt__(self, other: Any) -> Rows:
        return self.F.lt(self, other)

    def __le__(self, other: Any) -> Rows:
        return self.F.le(self, other)

    def __gt__(self, other: Any) -> Rows:
        return self.F.gt(self, other)

    def __ge__(self, other: Any) -> Rows:
        return self.F.ge(self, other)

    __hash__ = object.__hash__


class RowFunctions:
    """`F` for rules on Rows: a function is one call of the list op of that name, or a loop where there is none."""

    def __init__(self, F: Any) -> None:
        self._F = F

    def rows(self, values: Sequence[Any]) -> Rows:
        return Rows(self, values)

    def __getattr__(self, name: str) -> Callable[..., Rows]:
        def function(*args: Any, **attributes: Any) -> Rows:
            on_list = f"foreach_{name}"
            if on_list in REGISTRY:
                op = REGISTRY[name]
                columns = [LIST if isinstance(a, Rows) else a for a in args]
                tensors = [x for a in args if isinstance(a, Rows) for x in a]
                values = getattr(self._F, on_list)(tensors, (*columns, *op.filled(attributes).values()))
                return Rows(self, list(values))
            single, n = getattr(self._F, name), max([len(a.values) for a in args if isinstance(a, Rows)])
            lists = [a.values if isinstance(a, Rows) else [a] * n for a in args]
            return Rows(self, [single(*values, **attributes) for values in zip(*lists, strict=True)])

        return function
