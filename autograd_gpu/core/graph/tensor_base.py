"""TensorBase: the slots of a tensor, and the properties that can be read from its array."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import backend
from ...backend.arrays.device import Device
from ...backend.arrays.dtypes import FLOATS, STORAGE
from ...backend.arrays.memory_format import lies_in
from ..size import KNOWN_SIZES, Size, new_size
from .node import Node
from .storage import INFERENCE_STORAGE, Storage


class Duals:
    """Whether this process has made a dual tensor: until then nobody looks for tangents, since a test takes 0.2 us."""

    made = False


class TensorBase:
    """The abstract base of Tensor; code below core/tensor.py uses this type for tensors."""

    __slots__ = (
        "__weakref__", "_array", "_base", "_fn", "_frozen", "_grad", "_made", "_nr", "_seen", "_storage", "_tangents",
    )  # fmt: skip

    _array: Any
    _fn: Node | None  # grad_fn of a result, AccumulateGrad of a leaf that requires grad, None for a constant
    _nr: int  # 0: sole output of its node; k > 0: output k - 1 of several
    _storage: Storage | None
    _grad: TensorBase | None
    _base: TensorBase | None  # of a view: the tensor whose memory it shares, which is not a view
    _made: int  # of a view: how it was created, see core/graph/storage.py
    _seen: int  # of a view: the version for which `_fn` is valid, see Note [Stale views] in core/history/rebase.py
    _tangents: dict[Any, Any]  # the tangent of each level of forward mode, unset unless used: core/interpret/duals.py
    _frozen: Node  # the AccumulateGrad of a leaf with hooks, set only while the leaf does not require grad

    # ---- the array -----------------------------------------------------------------------------

    @property
    def array(self) -> Any:
        """The NumPy or CuPy array itself, not a copy. After a write to it call `graph.increment_version(tensor)`."""
        return self._array

    @property
    def shape(self) -> Size:
        """The sizes of the dimensions, a tuple."""
        try:
            return KNOWN_SIZES[self._array.shape]
        except KeyError:
            return new_size(self._array.shape)

    @property
    def dtype(self) -> np.dtype:
        """The dtype, one of NumPy's: `x.dtype == np.float32` holds."""
        return self._array.dtype

    @property
    def device(self) -> Device:
        """Where the array lives: "cpu", or "cuda" with an index."""
        return backend.device_of(self._array)

    @property
    def is_cuda(self) -> bool:
        """Whether the array is one of CuPy."""
        return backend.is_cuda(self._array)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._array.ndim

    def dim(self) -> int:
        """Returns the number of dimensions."""
        return self._array.ndim

    @property
    def itemsize(self) -> int:
        """The bytes of an element."""
        return self._array.itemsize

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return self._array.nbytes

    def numel(self) -> int:
        """Returns the number of elements."""
        return self._array.size

    def element_size(self) -> int:
        """Returns the bytes of an element."""
        return self._array.itemsize

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Whether the elements lie in memory in their order, without gaps."""
        return self._array.flags.c_contiguous if memory_format is None else lies_in(self._array, memory_format)

    def _layout(self) -> Any:
        """An array with the strides of this tensor; its values may differ."""
        return self._array

    def _every_value(self) -> Any:
        """The array of this tensor; under vmap that of all examples, with leading dimensions."""
        return self._array

    def is_floating_point(self) -> bool:
        """Whether the dtype is a floating-point one."""
        return self.dtype in FLOATS or self.dtype in STORAGE

    def is_inference(self) -> bool:
        """Whether this tensor was made in `ag.inference_mode`."""
        return self._storage is INFERENCE_STORAGE

    def _is_view(self) -> bool:
        return self._base is not None

    # ---- what Tensor defines -------------------------------------------------------------------

    def detach(self) -> TensorBase:
        """Returns a tensor with the same memory and version counter, without history, that does not require grad."""
        raise NotImplementedError

    def __add__(self, other: Any) -> TensorBase:
        raise NotImplementedError
