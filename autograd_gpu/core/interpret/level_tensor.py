"""LevelTensor: a tensor that belongs to one interpreter and stands for a tensor of what lies below.

It is not exactly a Tensor, so it never takes the generated fast path. In place of an array it has an Outline, which
answers for shape and dtype; any other use of it raises, so that no code reads values that are not there.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import backend
from ...backend.arrays.device import CPU, Device
from ...backend.arrays.memory_format import lies_in
from ..graph.storage import Storage
from ..tensor import Float8Tensor, Tensor, wrap
from .interpreters import Interpreter

_new = object.__new__


class Outline:
    """The shape, dtype and device of a lifted tensor, in place of its array; those but the shape are `value`'s."""

    __slots__ = ("device", "dtype", "shape")

    def __init__(self, shape: tuple[int, ...], value: Any) -> None:
        array = value._array
        self.shape, self.dtype = shape, value.dtype if type(value) is Float8Tensor else array.dtype
        self.device: Device = CPU if type(array) is np.ndarray else value.device

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise RuntimeError(f"inside of a function transform the values of a tensor are read ({name}), which this "
                           "function does outside of the operations; call it outside of the transform")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        raise RuntimeError("inside of a function transform a tensor cannot be converted to an array")


class LevelTensor(Tensor):
    """A tensor of the level `_level`: `_value` is a tensor of what lies below. Subclasses say what it means."""

    __slots__ = ("_level", "_source", "_value")

    _level: Interpreter
    _value: Tensor
    _source: Any  # of a view that was made without a tangent under forward mode: the call that made it, see duals.py

    @property
    def _storage(self) -> Storage | None:
        return self._value._storage

    @_storage.setter
    def _storage(self, storage: Storage | None) -> None:
        self._value._storage = storage

    @property
    def device(self) -> Device:
        return self._value.device

    @property
    def is_cuda(self) -> bool:
        return self._value.is_cuda

    def is_contiguous(self, memory_format: Any = None) -> bool:
        layout = self._layout()
        return layout.flags.c_contiguous if memory_format is None else lies_in(layout, memory_format)

    def _every_value(self) -> Any:
        return self._value._every_value()

    def _alias(self) -> Tensor:
        """Returns a constant of the same level that shares the memory."""
        raise NotImplementedError

    def copied(self) -> Tensor:
        """Returns a tensor of the same level and history with memory of its own; called below the level."""
        raise NotImplementedError

    def replace(self, value: Tensor) -> None:
        """Makes this tensor stand for `value`, after an in-place change of the shape."""
        raise NotImplementedError

    @property
    def data(self) -> Tensor:
        """As `detach`, for tensors of a transform."""
        return self._alias()

    @data.setter
    def data(self, value: Tensor) -> None:
        raise RuntimeError("the data of a tensor inside of a function transform cannot be set; compute a new tensor")

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        raise RuntimeError("a tensor inside of a function transform cannot be copied by deepcopy; use clone()")

    def __reduce__(self) -> Any:
        raise RuntimeError("a tensor inside of a function transform cannot be pickled; return it from the function")

    def __format__(self, spec: str) -> str:
        return super().__format__(spec) if spec else repr(self)

    def _described(self, name: str) -> str:
        return f"{name}({self._value!r})"


def lift(cls: type[Any], level: Interpreter, value: Tensor, shape: tuple[int, ...]) -> Any:
    """Makes a tensor of class `cls` and of shape `shape` at `level`, which stands for `value`."""
    t = _new(cls)
    t._level, t._value = level, value
    t._array = Outline(shape, value)
    t._fn = t._grad = t._base = t._source = None
    t._nr = 0
    return t


def belongs(x: Any, level: Interpreter) -> bool:
    """Whether x is a tensor of `level` itself."""
    return isinstance(x, LevelTensor) and x._level is level


def zeros_like(x: Tensor) -> Tensor:
    """Zeros of the shape, dtype and device of x, an ordinary tensor also where x belongs to a level."""
    return wrap(backend.make(x.device, "zeros", x.shape, x.dtype))
