"""Numbers that know how they follow from the sizes of arguments, while `ag.compile(dynamic=True)` records a call.

A `SizeNumber` is what the user's code reads as a size. It is no int, so that nothing can take its value without a word:
its arithmetic gives further ones, a comparison is told to the trace, which asks it again for other sizes, and what
needs a plain number (`range`, a list's index, `hash`) says so. Code of the package gets a `SizedInt`, an int like any
other whose comparisons are told, too; a float on its left does not ask it, so the package writes `2 / n`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

import numpy as np

from ..size import Size


class Level(Protocol):
    """What is told of the use of sizes."""

    def tested(self, text: str, result: bool) -> None:
        """A condition on the sizes had this result."""

    def computed(self, value: Any, text: str) -> None:
        """A number was computed from sizes."""

    def taken(self, text: str) -> None:
        """A plain number is asked for."""


@dataclass(frozen=True)
class Polynomial:
    """A sum of products of sizes, each with an integer in front. terms: by the numbers of the sizes, in order."""

    terms: tuple[tuple[tuple[int, ...], int], ...]

    @staticmethod
    def of(terms: dict[tuple[int, ...], int]) -> Polynomial:
        return Polynomial(tuple(sorted((product, n) for product, n in terms.items() if n)))

    @staticmethod
    def size(number: int) -> Polynomial:
        """The size with that number."""
        return Polynomial((((number,), 1),))

    @staticmethod
    def constant(n: int) -> Polynomial:
        return Polynomial.of({(): n})

    @property
    def is_constant(self) -> bool:
        """Whether it is the same for all sizes."""
        return all(not product for product, _ in self.terms)

    def plus(self, other: Polynomial, sign: int = 1) -> Polynomial:
        terms = dict(self.terms)
        for product, n in other.terms:
            terms[product] = terms.get(product, 0) + sign * n
        return Polynomial.of(terms)

    def times(self, other: Polynomial) -> Polynomial:
        terms: dict[tuple[int, ...], int] = {}
        for p, n in self.terms:
            for q, m in other.terms:
                product = tuple(sorted(p + q))
                terms[product] = terms.get(product, 0) + n * m
        return Polynomial.of(terms)

    def divided(self, by: Polynomial) -> Polynomial | None:
        """The quotient by one product, if nothing is left over for any sizes."""
        if len(by.terms) != 1:
            return None
        (divisor, m), terms = by.terms[0], {}
        for product, n in self.terms:
            rest = list(product)
            for s in divisor:
                if s not in rest:
                    return None
                rest.remove(s)
            if n % m:
                return None
            terms[tuple(rest)] = n // m
        return Polynomial.of(terms)

    def at(self, sizes: Sequence[int]) -> int:
        """Its value for these sizes."""
        return sum(n * prod([sizes[s] for s in product]) for product, n in self.terms)

    def __repr__(self) -> str:
        parts = [" * ".join([*([str(n)] if n != 1 or not product else []), *(f"s{s}" for s in product)])
                 for product, n in reversed(self.terms)]  # fmt: skip
        return parts[0] if len(parts) == 1 and " " not in parts[0] else f"({' + '.join(parts) or 0})"


@dataclass(frozen=True)
class Formula:
    """Another formula of sizes, as the text of a Python expression."""

    text: str

    def at(self, sizes: Sequence[int]) -> Any:
        """Its value for these sizes."""
        return eval(self.text, {"__builtins__": {}}, {f"s{i}": n for i, n in enumerate(sizes)})

    def __repr__(self) -> str:
        return self.text


_PLAIN = (int, float, bool)


def plain(x: Any) -> Any:
    """x with plain numbers in place of those of this file, also in tuples, lists, slices and dicts."""
    if isinstance(x, Sized):
        return x.value
    if isinstance(x, slice):
        return slice(plain(x.start), plain(x.stop), plain(x.step))
    if type(x) in (list, tuple):
        return type(x)([plain(part) for part in x])
    if type(x) is dict:
        return {key: plain(part) for key, part in x.items()}
    return Size(plain(tuple(x))) if type(x) is SizedShape else x


class Sized:
    """What is common to the numbers: `value`, how it follows from the sizes, and who is told."""

    value: Any
    text: str
    polynomial: Polynomial | None
    level: Level

    def _made(self, value: Any, text: str, polynomial: Polynomial | None) -> Any:
        raise NotImplementedError

    def _operand(self, other: Any) -> tuple[Any, str, Polynomial | None] | None:
        if isinstance(other, Sized):
            return other.value, other.text, other.polynomial
        if type(other) in _PLAIN:
            return other, repr(other), Polynomial.constant(other) if type(other) is int else None
        return None

    def _computed(self, symbol: str, function: Any, a: Any, b: Any) -> Any:
        """The result for two operands, one of which is this number."""
        value, text = function(a[0], b[0]), f"({a[1]} {symbol} {b[1]})"
        polynomial = None if a[2] is None or b[2] is None else _combined(symbol, a[2], b[2])
        if polynomial is not None and polynomial.is_constant:
            return value
        text = text if polynomial is None else repr(polynomial)
        self.level.computed(value, text)
        return self._made(value, text, polynomial)

    def _compared(self, symbol: str, function: Any, other: Any) -> Any:
        operand = self._operand(other)
        if operand is None:
            return NotImplemented
        value, text, polynomial = operand
        result = function(self.value, value)
        both = self.polynomial is not None and polynomial is not None
        if not both or not self.polynomial.plus(polynomial, -1).is_constant:  # type: ignore[union-attr,arg-type]
            self.level.tested(f"({self.text} {symbol} {text})", result)
        return result

    def __bool__(self) -> bool:
        self.level.tested(f"({self.text} != 0)", bool(self.value))
        return bool(self.value)

    def __neg__(self) -> Any:
        return self * -1  # type: ignore[operator]

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self if self >= 0 else -self  # type: ignore[operator]

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self


def _combined(symbol: str, a: Polynomial, b: Polynomial) -> Polynomial | None:
    """The result of an operation as a polynomial, if it is one for all sizes."""
    if symbol in "+-":
        return a.plus(b, 1 if symbol == "+" else -1)
    if symbol == "*":
        return a.times(b)
    if symbol in ("//", "%") and (quotient := a.divided(b)) is not None:
        return quotient if symbol == "//" else Polynomial.constant(0)
    return None


def _operation(symbol: str, function: Callable[[Any, Any], Any], reflected: bool) -> Any:
    def method(self: Sized, other: Any) -> Any:
        operand, own = self._operand(other), (self.value, self.text, self.polynomial)
        if operand is None:
            return NotImplemented
        return self._computed(symbol, function, *((operand, own) if reflected else (own, operand)))

    return method


def _comparison(symbol: str, function: Callable[[Any, Any], Any]) -> Any:
    return lambda self, other: self._compared(symbol, function, other)


for _name, _symbol in {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%",
                       "pow": "**"}.items():  # fmt: skip
    _function = getattr(operator, _name)
    setattr(Sized, f"__{_name}__", _operation(_symbol, _function, False))
    setattr(Sized, f"__r{_name}__", _operation(_symbol, _function, True))
for _name, _symbol in {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}.items():
    setattr(Sized, f"__{_name}__", _comparison(_symbol, getattr(operator, _name)))


class SizedInt(Sized, int):
    """A size for the package's own code."""

    def __new__(cls, value: int, text: str, polynomial: Polynomial | None, level: Level) -> SizedInt:
        self = int.__new__(cls, value)
        self.value, self.text, self.polynomial, self.level = value, text, polynomial, level
        return self

    __hash__ = int.__hash__
    __repr__ = int.__repr__

    def _made(self, value: Any, text: str, polynomial: Polynomial | None) -> Any:
        kind: Any = SizedInt if type(value) is int else SizedFloat if type(value) is float else None
        return value if kind is None else kind(value, text, polynomial, self.level)


class SizedFloat(Sized, float):
    """A number that the package's own code has computed of sizes."""

    def __new__(cls, value: float, text: str, polynomial: Polynomial | None, level: Level) -> SizedFloat:
        self = float.__new__(cls, value)
        self.value, self.text, self.polynomial, self.level = value, text, polynomial, level
        return self

    __hash__ = float.__hash__
    __repr__ = float.__repr__
    _made = SizedInt._made


class SizeNumber(Sized):
    """A size for the user's code, or what was computed of sizes; it passes for an int, or a float."""

    __slots__ = ("level", "polynomial", "text", "value")

    def __init__(self, value: Any, text: str, polynomial: Polynomial | None, level: Level) -> None:
        self.value, self.text, self.polynomial, self.level = value, text, polynomial, level

    def _made(self, value: Any, text: str, polynomial: Polynomial | None) -> Any:
        return SizeNumber(value, text, polynomial, self.level) if type(value) in _PLAIN else value

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self.value)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._taken(), name)

    def _taken(self) -> Any:
        self.level.taken(self.text)
        return self.value

    def __index__(self) -> int:
        return operator.index(self._taken())

    def __int__(self) -> int:
        return int(self._taken())

    def __float__(self) -> float:
        return float(self._taken())

    def __complex__(self) -> complex:
        return complex(self._taken())

    def __round__(self, digits: int | None = None) -> Any:
        return round(self._taken(), digits)

    def __trunc__(self) -> Any:
        return int(self._taken())

    def __hash__(self) -> int:
        return hash(self._taken())

    def __repr__(self) -> str:
        return repr(self._taken())

    def __format__(self, spec: str) -> str:
        return format(self._taken(), spec)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self._taken(), dtype)

    def __reduce__(self) -> Any:
        return type(self.value), (self._taken(),)


class SizedShape(Size):
    """A shape some of whose sizes are numbers of this file."""

    __slots__ = ()

    def __getitem__(self, at: Any) -> Any:
        part = tuple.__getitem__(self, at)
        return tuple.__new__(SizedShape, part) if isinstance(at, slice) else part

    def __add__(self, other: Any) -> Any:
        return tuple.__new__(SizedShape, (*self, *other)) if isinstance(other, tuple) else NotImplemented

    def __radd__(self, other: Any) -> Any:
        return tuple.__new__(SizedShape, (*other, *self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, times: Any) -> SizedShape:
        return tuple.__new__(SizedShape, tuple.__mul__(self, times))

    __rmul__ = __mul__
