"""Sizes that differ from call to call: what a call does with them, and how numbers follow from them."""

from __future__ import annotations

import itertools
import sys
import sysconfig
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from types import FrameType
from typing import Any

import numpy as np

from ..core.declare.op import OpDef
from ..core.graph.tensor_base import TensorBase
from ..core.interpret.level_tensor import LevelTensor
from ..core.interpret.sized import Formula, Polynomial, Sized, SizedInt, SizedShape, SizeNumber, plain
from ..core.interpret.tracing import tracer as current_tracer
from ..core.tensor import Tensor
from ..modes import MODES
from .graph import ARGUMENT, Value
from .items import equal
from .tracer import PACKAGE, Tracer

UNEXPLAINED = object()
_STDLIB, _SITE = sysconfig.get_path("stdlib"), ("site-packages", "dist-packages")
# Packages of this library that are written as users' code is: they get numbers whose use is told without a gap.
_LIKE_USERS = frozenset(("compat", "distributions", "nn", "utils"))
_ASKING = frozenset(("autograd_gpu.core.size", "autograd_gpu.ops.properties", "autograd_gpu.core.graph.tensor_base"))
# What only asks whether shapes are equal, or broadcast. That follows from which sizes are equal, and which are 1.
_COMPARING = ("autograd_gpu.core.engine", "autograd_gpu.core.graph", "autograd_gpu.core.history")
_COMPARES = frozenset(("check_fits",))
_GIVING = frozenset(("broadcast_shapes", "broadcast_tensors_shapes"))  # functions that give a caller plain sizes

Sizes = tuple[int, ...]


def is_internal(frame: FrameType | None) -> bool:
    """Whether code of the package asks, by itself or by what it calls."""
    while frame is not None:
        code, name = frame.f_code, frame.f_globals.get("__name__", "")
        parts = name.split(".")
        if code.co_name in _GIVING:
            return False
        helps = name in _ASKING or name in (__name__, SizeNumber.__module__) or parts[0] in ("numpy", "scipy", "cupy")
        if helps or (code.co_filename.startswith(_STDLIB) and not any(word in code.co_filename for word in _SITE)):
            frame = frame.f_back
            continue
        if code.co_filename.startswith(("<generated", "<op", "<formula")):
            return True
        return parts[0] == PACKAGE and (len(parts) < 2 or parts[1] not in _LIKE_USERS)
    return False


def _place(frame: FrameType | None) -> str:
    while frame is not None and frame.f_globals.get("__name__", PACKAGE).partition(".")[0] in (PACKAGE, "numpy"):
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


class Told:
    """What a call did with sizes: conditions, by text, with their results; numbers, by value, with their formulas."""

    def __init__(self) -> None:
        self.conditions: dict[str, bool] = {}
        self.formulas: dict[tuple[type, Any], dict[str, None]] = {}
        self.unfit: str | None = None
        self.is_open = True

    def tested(self, text: str, result: bool) -> None:
        if self.is_open:
            self.conditions[text] = result

    def computed(self, value: Any, text: str) -> None:
        if self.is_open:
            self.formulas.setdefault((type(value), value), {})[text] = None

    def taken(self, text: str) -> None:
        if self.is_open and not is_internal(sys._getframe(1)):
            self.refuse(f"the size {text} is used as a plain number")

    def refuse(self, cause: str) -> None:
        """The call cannot serve other sizes."""
        if self.is_open and self.unfit is None:
            self.unfit = f"{cause} ({_place(sys._getframe(1))})"


class Point:
    """A recorded call: its sizes, and its values in the order in which they were met, by name and shape."""

    def __init__(self, sizes: Sizes, shapes: Sequence[tuple[str, Sizes]]) -> None:
        self.sizes, self.shapes = sizes, shapes


class SizeTracer(Tracer):
    """Notes what a call does with sizes. `points`: earlier calls with other sizes, from which those of results follow.

    symbols: by place and dimension of an argument, the number of its size. Without points it only takes shapes down.
    """

    def __init__(self, fullgraph: bool, points: Sequence[Point], symbols: dict[tuple[int, int], int], sizes: Sizes):
        self.met: list[Value] = []
        self.told, self.points, self.sizes, self._symbols = Told(), points, sizes, symbols
        self.reads_grads = False  # whether the user's code asks for a `.grad`
        self._dims: dict[Value, tuple[Any, ...]] = {}
        super().__init__(fullgraph)

    def new(self, name: str, kind: str, array: Any, **more: Any) -> Value:
        value = super().new(name, kind, array, **more)
        self.met.append(value)
        return value

    def run(self, op: OpDef, args: Sequence[Any], attributes: dict[str, Any], wrap: Any = None) -> Any:
        return super().run(op, [plain(a) for a in args], plain(attributes), wrap)

    def fused(self, op: str, rules: tuple[Any, Any], g: Any, need: tuple[bool, ...], *given: Any) -> Any:
        return super().fused(op, rules, g, need, *plain(given))

    def asked_grad(self, x: TensorBase) -> None:
        if sys._getframe(2).f_globals.get("__name__", "").partition(".")[0] != PACKAGE:
            self.reads_grads = True
        super().asked_grad(x)

    def saves(self, pair: Any) -> None:
        self.told.refuse("saved-tensor hooks may decide by size")
        super().saves(pair)

    def shape_of(self, x: TensorBase, frame: FrameType) -> Any:
        """What code that asks for the shape of x gets."""
        if frame.f_globals.get("__name__", "").startswith(_COMPARING) or frame.f_code.co_name in _COMPARES:
            return None
        internal = is_internal(frame)
        if isinstance(x, LevelTensor):
            inner: TensorBase = x
            while isinstance(inner, LevelTensor):
                inner = inner._value
            own = len(x._array.shape)
            dims: Any = self._dims_of(inner, internal)
            dims = dims[len(dims) - own :] if dims else dims
            if dims and tuple(_at(dims, self.sizes)) != tuple(x._array.shape):
                self.told.refuse("a size inside of a transform is not followed")
                return None
        else:
            dims = self._dims_of(x, internal)
        if not any(isinstance(n, Polynomial) for n in dims):
            return None
        make = self._internal if internal else self._for_users
        return tuple.__new__(SizedShape, [make(n) if isinstance(n, Polynomial) else n for n in dims])

    def _internal(self, size: Polynomial) -> Any:
        return SizedInt(size.at(self.sizes), repr(size), size, self.told)

    def _for_users(self, size: Polynomial) -> Any:
        return SizeNumber(size.at(self.sizes), repr(size), size, self.told)

    def _dims_of(self, x: TensorBase, internal: bool) -> tuple[Any, ...]:
        value = self.values.get(id(x._array))
        if value is None:
            if internal:
                return ()
            value = self.value(x)
        if not self.points:
            return ()
        dims = self._dims.get(value)
        if dims is None:
            dims = self._dims[value] = self._solved(value)
        return dims

    def _solved(self, value: Value) -> tuple[Any, ...]:
        """The sizes of a value: numbers and polynomials."""
        shape: tuple[Any, ...] = value.shape
        if value.kind == ARGUMENT:
            return tuple([n if (s := self._symbols.get((value.place, d))) is None else Polynomial.size(s)
                          for d, n in enumerate(shape)])
        k = self.met.index(value)
        known = [point.shapes[k] if k < len(point.shapes) else ("", ()) for point in self.points]
        if any(name != value.name or len(other) != len(shape) for name, other in known):
            self.told.refuse("it does something else than for other sizes")
            return shape
        sizes = [*(point.sizes for point in self.points), self.sizes]
        dims = tuple([solved(values, sizes) for values in zip(*(other for _, other in known), shape, strict=True)])
        if UNEXPLAINED in dims:
            self.told.refuse(f"the sizes of {value.described()} do not follow from those of the arguments")
            return shape
        return dims


def _at(dims: Sequence[Any], sizes: Sizes) -> list[int]:
    return [n.at(sizes) if isinstance(n, (Polynomial, Formula)) else n for n in dims]


def _level() -> SizeTracer | None:
    if MODES.stack and isinstance(level := current_tracer(), SizeTracer):
        return level
    return None


_SHAPE: Any = TensorBase.__dict__["shape"]
_NAMES = ("shape", "numel", "nbytes", "__len__", "stride")


def _shape(self: TensorBase) -> Any:
    if (level := _level()) is not None and (shape := level.shape_of(self, sys._getframe(1))) is not None:
        return shape
    return _SHAPE.fget(self)


def _numel(self: TensorBase) -> Any:
    return prod(_shape_for(self, 2))


def _nbytes(self: TensorBase) -> Any:
    return prod(_shape_for(self, 2)) * self.itemsize


def _shape_for(self: TensorBase, depth: int) -> Any:
    if (level := _level()) is not None and (shape := level.shape_of(self, sys._getframe(depth))) is not None:
        return shape
    return _SHAPE.fget(self)


def _len(self: Tensor) -> int:
    level = _level()
    if level is not None and isinstance((level.shape_of(self, sys._getframe(1)) or (0,))[0], Sized):
        level.told.refuse("the size of a tensor is read by len()")
    length: int = _UNTOLD["__len__"](self)
    return length


def _stride(self: Tensor, *args: Any, **kwargs: Any) -> Any:
    if (level := _level()) is not None and level.shape_of(self, sys._getframe(1)) is not None:
        level.told.refuse("stride() of a tensor is read")  # nobody follows how strides depend on sizes
    return _UNTOLD["stride"](self, *args, **kwargs)


_OWNERS = {"shape": TensorBase, "numel": TensorBase, "nbytes": TensorBase, "__len__": Tensor, "stride": Tensor}
_TOLD = {"shape": property(_shape, doc=_SHAPE.__doc__), "numel": _numel, "nbytes": property(_nbytes),
         "__len__": _len, "stride": _stride}  # fmt: skip
_UNTOLD: dict[str, Any] = {}
_LOCK = threading.Lock()
_OPEN: list[SizeTracer] = []


@contextmanager
def sizes_told(tracer: Tracer) -> Iterator[None]:
    """Has tensors tell a SizeTracer of reads of their shapes; it costs nothing while none is on."""
    if not isinstance(tracer, SizeTracer):
        yield
        return
    with _LOCK:
        if not _OPEN:
            _UNTOLD.update({name: owner.__dict__[name] for name, owner in _OWNERS.items()})
            for name, owner in _OWNERS.items():
                setattr(owner, name, _TOLD[name])
        _OPEN.append(tracer)
    try:
        yield
    finally:
        with _LOCK:
            _OPEN.remove(tracer)
            if not _OPEN:
                for name, owner in _OWNERS.items():
                    setattr(owner, name, _UNTOLD[name])


# ---- numbers as formulas -----------------------------------------------------------------------------


def solved(values: Sequence[Any], sizes: Sequence[Sizes], told: Told | None = None) -> Any:
    """What follows from the sizes of several calls to a value of each: the value itself, if it is the same in all.

    The last call is the one that `told` was told of. UNEXPLAINED if no formula fits, or more than one.
    """
    last = values[-1]
    if all(equal(v, last) for v in values):
        return last
    found: list[Any] = [*_polynomials(values, sizes)] if all(type(v) is int for v in values) else []
    texts = () if told is None or type(last) not in (int, float) else told.formulas.get((type(last), last), ())
    found += [f for f in map(Formula, texts) if all(equal(f.at(s), v) for v, s in zip(values, sizes, strict=True))
              and f.text not in map(repr, found)]  # fmt: skip
    return found[0] if len(found) == 1 else UNEXPLAINED


def solved_array(contents: Sequence[np.ndarray], sizes: Sequence[Sizes], told: Told) -> Any:
    """The same for the content of 0-d arrays, which was a number of Python's before."""
    last = contents[-1]
    if all(c.tobytes() == last.tobytes() for c in contents):
        return last.item()
    if last.dtype.kind == "i":
        return solved([int(c) for c in contents], sizes, told)
    found = [f for texts in told.formulas.values() for f in map(Formula, texts) if all(
        np.asarray(f.at(s)).astype(c.dtype).tobytes() == c.tobytes() for c, s in zip(contents, sizes, strict=True))]
    return found[0] if len(found) == 1 else UNEXPLAINED


def _polynomials(values: Sequence[int], sizes: Sequence[Sizes]) -> Iterator[Polynomial]:
    """c * p + d for a product p of up to three sizes, or a sum or difference of two, with integers c and d."""
    numbers = range(len(sizes[0]))
    products = [p for n in (1, 2, 3) for p in itertools.combinations_with_replacement(numbers, n)]
    terms = [Polynomial(((p, 1),)) for p in products]
    terms += [Polynomial.size(i).plus(Polynomial.size(j), sign)
              for i, j in itertools.combinations(numbers, 2) for sign in (1, -1)]  # fmt: skip
    for term in terms:
        at = [term.at(s) for s in sizes]
        other = next((k for k, n in enumerate(at) if n != at[0]), None)
        if other is None:
            continue
        factor, rest = divmod(values[other] - values[0], at[other] - at[0])
        constant = values[0] - factor * at[0]
        if not rest and factor and all(factor * n + constant == v for n, v in zip(at, values, strict=True)):
            yield term.times(Polynomial.constant(factor)).plus(Polynomial.constant(constant))
