"""Memory formats by PyTorch's names, and the order of dimensions in memory."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ..cpu import pool
from .strides import is_expanded


class _Constant:
    """A named constant of the package, of which there is one object."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"autograd_gpu.{self.name}"

    def __reduce__(self) -> str:
        return self.name  # a singleton: pickled by name


class MemoryFormat(_Constant):
    """The memory layout of a new tensor: C order (contiguous_format), or that of the source (preserve_format).

    >>> ag.zeros_like(ag.ones(2, 3).t(), memory_format=ag.contiguous_format).stride()
    (2, 1)
    """

    __slots__ = ()


class Layout(_Constant):
    """How a tensor stores its elements: `ag.strided` for all that are here; the others exist for comparisons."""

    __slots__ = ()


strided = Layout("strided")
sparse_coo, sparse_csr, sparse_csc = Layout("sparse_coo"), Layout("sparse_csr"), Layout("sparse_csc")


def check_strided(function: str, layout: Any) -> None:
    """NotImplementedError unless the argument `layout` of `function` is `strided` or None."""
    if layout is not None and layout is not strided:
        raise NotImplementedError(f"{function}(): layout={layout} is not supported: every tensor is strided; leave "
                                  "layout out")


contiguous_format = MemoryFormat("contiguous_format")
preserve_format = MemoryFormat("preserve_format")
channels_last = MemoryFormat("channels_last")
channels_last_3d = MemoryFormat("channels_last_3d")


def is_contiguous_format(function: str, memory_format: Any) -> bool:
    """Whether the argument `memory_format` of `function` is contiguous_format; False for None and preserve_format.

    NotImplementedError for channels_last, TypeError for what is not a memory format.
    """
    if memory_format is None or memory_format is preserve_format:
        return False
    if memory_format is contiguous_format:
        return True
    if not isinstance(memory_format, MemoryFormat):
        got = type(memory_format).__name__
        raise TypeError(f"{function}(): argument 'memory_format' must be memory_format, not {got}")
    raise NotImplementedError(
        f"{function}(): memory_format={memory_format.name} is not supported: no op here is faster in it. Leave it "
        "out, or permute the dimensions: x.permute(0, 2, 3, 1).contiguous()"
    )


def lies_in(array: Any, memory_format: Any) -> bool:
    """Whether `array` is dense in `memory_format`."""
    order = {channels_last: (0, 2, 3, 1), channels_last_3d: (0, 2, 3, 4, 1)}.get(memory_format)
    if order is None:
        is_contiguous_format("is_contiguous", memory_format)
        return array.flags.c_contiguous
    return array.ndim == len(order) and array.transpose(order).flags.c_contiguous


def copy_order(array: Any) -> Literal["C", "K"]:
    """The `order` argument of a copy: "K", the order of `array`; "C" for an expanded array, as in PyTorch.

    So `view` works on the copy of an expanded array.
    """
    return "C" if 0 in array.strides else "K"


def row_major(array: Any) -> Any:
    """A contiguous copy of `array`."""
    if type(array) is not np.ndarray:
        return array.copy(order="C")
    result = pool.empty(array.shape, array.dtype)
    result[...] = array
    return result


def empty_like(xp: Any, array: Any) -> Any:
    """An uninitialized array with the shape, the dtype and the memory order of `array`; a large one from the pool."""
    if xp is not np or array.nbytes < pool.SMALLEST:
        return xp.empty_like(array) if array.flags.c_contiguous else xp.empty_like(array, order=copy_order(array))
    order = memory_order(array)
    result = pool.empty(tuple([array.shape[d] for d in order]), array.dtype)
    return result.transpose([order.index(d) for d in range(array.ndim)])


def memory_order(array: Any) -> tuple[int, ...]:
    """The dimensions of `array` in memory order, outermost first; in C order for an expanded array."""
    dims = range(array.ndim)
    return tuple(dims if is_expanded(array) else sorted(dims, key=lambda d: -abs(array.strides[d])))


__all__ = ["MemoryFormat", "channels_last", "channels_last_3d", "contiguous_format", "preserve_format"]
