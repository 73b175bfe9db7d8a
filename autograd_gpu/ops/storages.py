"""Storages: where the memory behind a tensor lies, for programs that compare it. The memory itself is `x.array`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..backend.arrays import placement, strides
from ..core.extend import Tensor, method
from .properties import refuse_place


class UntypedStorage:
    """The bytes behind a tensor: tensors whose storages have one address share memory.

    `storage[start:stop]` is a part of it, which `ag.asarray` reads as uint8. It cannot be resized.
    """

    def __init__(self, owner: Any) -> None:
        self._owner = owner

    @classmethod
    def from_file(cls, filename: str | Path, shared: bool = False, nbytes: int | None = None) -> UntypedStorage:
        """The first bytes of a file, by default all: read when they are used; writes reach the file if `shared`."""
        return cls(np.memmap(filename, np.uint8, "r+" if shared else "c", shape=nbytes))

    @property
    def device(self) -> Any:
        """Where it lies."""
        return placement.device_of(self._owner)

    def data_ptr(self) -> int:
        """The address of the first byte."""
        return strides.address(self._owner)

    def nbytes(self) -> int:
        """The number of bytes."""
        return int(self._owner.nbytes)

    size = __len__ = nbytes

    def untyped(self) -> UntypedStorage:
        """The storage without a dtype."""
        return UntypedStorage(self._owner)

    def __getitem__(self, part: slice) -> UntypedStorage:
        return UntypedStorage(self.__array__()[part])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        flat = strides.in_order_of_memory(placement.to_numpy(self._owner))
        return np.asarray(flat.view(np.uint8), dtype, copy=copy)


class TypedStorage(UntypedStorage):
    """The same with a dtype: `size()` and the length are a number of elements."""

    def __init__(self, owner: Any, dtype: np.dtype) -> None:
        super().__init__(owner)
        self.dtype = dtype

    def size(self) -> int:
        """The number of elements."""
        return self.nbytes() // self.dtype.itemsize

    __len__ = size


@method()
def untyped_storage(x: Tensor) -> Any:
    """Where the memory behind x lies, as an object with `data_ptr()`, `nbytes()` and `device`.

    >>> x = ag.ones(2, 3)
    >>> x[1].untyped_storage().data_ptr() == x.data_ptr(), x[1].untyped_storage().nbytes()
    (True, 24)
    """
    refuse_place("untyped_storage")
    return UntypedStorage(strides.owner_of(x._layout()))


@method()
def storage(x: Tensor) -> Any:
    """The same with a dtype: `size()` is a number of elements.

    >>> ag.ones(2, 3)[1].storage().size()
    6
    """
    refuse_place("storage")
    return TypedStorage(strides.owner_of(x._layout()), x.dtype)
