"""quantize: saved tensors in 8 or 16 bits."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..autograd.graph import SaveInfo
from ..backend.arrays.dtypes import FLOATS, as_dtype, wide
from ..backend.quantization.formats import FORMATS, needs_scale
from ..backend.quantization.quantize import Quantized, dequantize
from ..backend.quantization.quantize import quantize as quantized
from ..core.declare.op import REGISTRY
from ..core.interpret.tracing import tracer
from ..core.tensor import Tensor
from ..errors import check_count
from . import packing_ops
from .base import MemoryHook
from .codec import Array, Codec, Condition, Stage, checked_predicate
from .memory_layout import owner


class Coded(Quantized):
    """A Quantized array with the interface of a Handle."""

    __slots__ = ()

    @property
    def device_bytes(self) -> int:
        return self.nbytes

    host_bytes = 0


class Quantizer(Codec):
    """Quantizes arrays to `dtype` with a scale per "tensor" or per "row"."""

    ahead = 1  # prefetches nothing, but decodes once what two adjacent nodes need, such as a layer and its activation
    splits = True
    exact = False

    def __init__(self, dtype: np.dtype, granularity: str) -> None:
        self.dtype, self.granularity = dtype, granularity

    def word(self) -> Any:
        return Quantizer, self.dtype, self.granularity

    def takes(self, array: Array, info: SaveInfo) -> bool:
        """Whether quantization saves memory."""
        if array.dtype not in FLOATS or array.dtype.itemsize <= self.dtype.itemsize:
            return False
        scales = 0
        if needs_scale(array.dtype, FORMATS[self.dtype]):
            scales = math.prod(array.shape[:-1]) if self.granularity == "row" else 1
        return array.size * self.dtype.itemsize + scales * wide(array.dtype).itemsize < array.nbytes

    def pack(self, array: Array) -> Coded:
        return Coded(*quantized(array, self.dtype, self.granularity))

    def pack_by_ops(self, tensor: Tensor) -> Coded:
        return Coded(*packing_ops.pack(tensor, self.dtype, self.granularity), self.dtype, tensor.dtype)

    def unpack(self, handle: Coded) -> Array:
        if not isinstance(handle.codes, Tensor):
            return dequantize(handle)
        if tracer() is not None:
            return packing_ops.unpack(*handle)._array
        codes, scale, *rest = handle
        return dequantize(Coded(codes._array, None if scale is None else scale._array, *rest))

    def split(self, handle: Coded) -> tuple[tuple[Array, ...], Any]:
        codes, scale, *rest = handle
        return ((codes,) if scale is None else (codes, scale)), rest

    def join(self, arrays: tuple[Array, ...], rest: Any) -> Coded:
        codes, scale = (*arrays, None)[:2]
        return Coded(codes, scale, *rest)


def holds(min_bytes: int, tensor: Tensor, info: SaveInfo) -> bool:
    """Whether `tensor`, or the memory that it keeps alive as a view, has at least `min_bytes` bytes."""
    return tensor.nbytes >= min_bytes or owner(tensor._array).nbytes >= min_bytes


def no_leaf(tensor: Tensor, info: SaveInfo) -> bool:
    """Whether the tensor is not a leaf: the memory of parameters and inputs is in use anyway."""
    return not info.is_leaf


def bears_rounding(tensor: Tensor, info: SaveInfo) -> bool:
    """Whether the derivative that reads the tensor changes little if that does: `no_lossy_save` of the op's block."""
    op = REGISTRY.get(info.op)
    kept = op.no_lossy_save if op is not None else False
    return not (info.name in kept if isinstance(kept, tuple) else kept)


class quantize(MemoryHook):
    """Saves tensors for backward as float16, bfloat16, float8_e4m3fn or float8_e5m2, and dequantizes them in backward.

    dtype: one of these. granularity: a scale per "tensor", or per "row", the innermost dimension in memory; scales are
    powers of two. Packs floating-point tensors of a larger dtype, and unpacks them in their own dtype. Not packed:
    leaves, including parameters, unless skip_leaves=False; memory of less than `min_bytes` bytes; tensors whose
    derivatives are sensitive to rounding, such as the inputs of amax, log and div, and the statistics of norms; tensors
    for which predicate(tensor, info) is false, where info is an `ag.autograd.graph.SaveInfo`. docs/memory.md has sizes
    and errors. TypeError for another dtype, ValueError for another granularity or a negative number.

    >>> x = ag.ones(64, 64, requires_grad=True)
    >>> with ag.hooks.quantize(ag.bfloat16) as hook:
    ...     y = (x * 2).exp().sum()
    >>> hook.bytes_held, hook.bytes_saved
    (8192, 8192)
    >>> y.backward()
    >>> hook.bytes_held
    0
    """

    def __init__(
        self, dtype: Any, granularity: str = "tensor", predicate: Callable[[Tensor, SaveInfo], bool] | None = None, *,
        min_bytes: int = 1 << 12, skip_leaves: bool = True,
    ) -> None:  # fmt: skip
        if dtype is None:
            raise TypeError(f"quantize: dtype is missing; use one of {', '.join(map(str, FORMATS))}")
        target = as_dtype(dtype)
        if target not in FORMATS:
            raise TypeError(f"quantize: {target} is not supported; use one of {', '.join(map(str, FORMATS))}")
        if granularity not in ("tensor", "row"):
            raise ValueError(f"quantize: granularity must be 'tensor' or 'row', not {granularity!r}")
        check_count("quantize", "min_bytes", min_bytes)
        conditions: list[Condition] = [partial(holds, min_bytes), bears_rounding]
        if skip_leaves:
            conditions.append(no_leaf)
        if predicate is not None:
            conditions.append(checked_predicate("quantize", predicate))
        super().__init__((Stage(Quantizer(target, granularity), tuple(conditions)),))
