"""Tensors with the shape, dtype or device of another one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...backend import is_array
from ...backend.arrays import dtypes
from ...backend.arrays.memory_format import is_contiguous_format, memory_order
from ...core.extend import Float8Tensor, LevelTensor, Size, Tensor, lifted_like, method, public, wrap
from ...random.factories import placed
from .factories import empty, full, in_numpy, make, ones, zeros
from .from_data import tensor


def _like(name: str, x: Tensor, dtype: Any, device: Any, requires_grad: bool, layout: Any, *fill: Any) -> Tensor:
    if isinstance(x, LevelTensor):
        return lifted_like(make(name, x.shape, dtype or x.dtype, device or x.device, requires_grad, *fill), x)
    array = x._layout()
    in_c_order = array.flags.c_contiguous
    if layout is not None:
        in_c_order = is_contiguous_format(f"{name}_like", layout) or in_c_order
    if not in_c_order:
        return _in_order(name, x, dtype, device, *fill).requires_grad_(requires_grad)
    if dtype is None and device is None and type(array) is np.ndarray and type(x) is not Float8Tensor:
        result = wrap(in_numpy(name, array.shape, array.dtype, *fill))
        return result.requires_grad_() if requires_grad else result
    return make(name, array.shape, dtype or x.dtype, device or x.device, requires_grad, *fill)


def _in_order(name: str, x: Tensor, dtype: Any, device: Any, *fill: Any) -> Tensor:
    """A tensor of the same values with the memory order of x."""
    order = memory_order(x._layout())
    result = make(name, tuple(x.shape[d] for d in order), dtype or x.dtype, device or x.device, False, *fill)
    result._array = result._array.transpose(tuple(order.index(d) for d in range(len(order))))
    return result


@public()
def zeros_like(
    input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, memory_format: Any = None,
    layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Zeros with the shape, dtype and device of input.

    >>> ag.zeros_like(ag.ones(2))
    tensor([0., 0.])
    """
    if layout is not None or pin_memory:
        return placed(zeros_like, layout, pin_memory, input, dtype=dtype, device=device, requires_grad=requires_grad,
                      memory_format=memory_format)
    return _like("zeros", input, dtype, device, requires_grad, memory_format)


@public()
def ones_like(
    input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, memory_format: Any = None,
    layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Ones with the shape, dtype and device of input.

    >>> ag.ones_like(ag.zeros(2))
    tensor([1., 1.])
    """
    if layout is not None or pin_memory:
        return placed(ones_like, layout, pin_memory, input, dtype=dtype, device=device, requires_grad=requires_grad,
                      memory_format=memory_format)
    return _like("ones", input, dtype, device, requires_grad, memory_format)


@public()
def empty_like(
    input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, memory_format: Any = None,
    layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """An uninitialized tensor with the shape, dtype and device of input.

    >>> ag.empty_like(ag.zeros(2)).shape
    (2,)
    """
    if layout is not None or pin_memory:
        return placed(empty_like, layout, pin_memory, input, dtype=dtype, device=device, requires_grad=requires_grad,
                      memory_format=memory_format)
    return _like("empty", input, dtype, device, requires_grad, memory_format)


@public()
def full_like(
    input: Tensor, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    memory_format: Any = None, layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of `fill_value` with the shape, dtype and device of input.

    >>> ag.full_like(ag.zeros(2), 3.0)
    tensor([3., 3.])
    """
    if layout is not None or pin_memory:
        return placed(full_like, layout, pin_memory, input, fill_value, dtype=dtype, device=device,
                      requires_grad=requires_grad, memory_format=memory_format)
    value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    if type(value) is int:
        value = dtypes.fitting(value, dtypes.as_dtype(dtype or input.dtype))
    return _like("full", input, dtype, device, requires_grad, memory_format, value)


@method()
def new_tensor(x: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A new tensor with a copy of `data`, by default in the dtype and on the device of x.

    >>> ag.ones(2, dtype=ag.int32).new_tensor([3.0])
    tensor([3], dtype=int32)
    """
    return tensor(data, dtype=dtype or x.dtype, device=device or x.device, requires_grad=requires_grad)


@method()
def new(x: Tensor, *sizes: Any, size: Any = None, device: Any = None) -> Tensor:
    """PyTorch's old constructor, in the dtype and on the device of x.

    Sizes or an `ag.Size` give an uninitialized tensor; a sequence or an array is copied, a tensor of the same dtype
    shares its memory. Prefer new_empty and new_tensor, which are unambiguous.

    >>> ag.ones(2, dtype=ag.int32).new([3, 4])
    tensor([3, 4], dtype=int32)
    """
    if size is None and not sizes:
        return new_empty(x, 0, device=device)
    if all(isinstance(n, (int, np.integer)) and not isinstance(n, bool) for n in sizes):
        return new_empty(x, *sizes, size=size, device=device)
    data = sizes[0] if len(sizes) == 1 else None
    if isinstance(data, Size):
        return new_empty(x, data, device=device)
    if isinstance(data, Tensor):
        if data.dtype != x.dtype or data.device.type != x.device.type:
            raise TypeError(f"new(): expected a tensor of {x.dtype} on {x.device}, got {data.dtype} on {data.device}; "
                            "use x.new_tensor, which converts")
        return data.view_as(data)
    if isinstance(data, (str, bytes)) or not (isinstance(data, Sequence) or is_array(data)):
        raise TypeError(f"new(): takes sizes, or data, which must be a sequence, an array or a tensor (got "
                        f"{', '.join([type(value).__name__ for value in sizes])})")
    return new_tensor(x, data, device=device)


@method()
def new_zeros(
    x: Tensor, *sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of zeros, by default in the dtype and on the device of x."""
    if layout is not None or pin_memory:
        return placed(new_zeros, layout, pin_memory, x, *sizes, size=size, dtype=dtype, device=device,
                      requires_grad=requires_grad)
    dtype, device = dtype or x.dtype, device or x.device
    return lifted_like(zeros(*sizes, size=size, dtype=dtype, device=device, requires_grad=requires_grad), x)


@method()
def new_ones(
    x: Tensor, *sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of ones, by default in the dtype and on the device of x."""
    if layout is not None or pin_memory:
        return placed(new_ones, layout, pin_memory, x, *sizes, size=size, dtype=dtype, device=device,
                      requires_grad=requires_grad)
    dtype, device = dtype or x.dtype, device or x.device
    return lifted_like(ones(*sizes, size=size, dtype=dtype, device=device, requires_grad=requires_grad), x)


@method()
def new_empty(
    x: Tensor, *sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """An uninitialized tensor, by default in the dtype and on the device of x."""
    if layout is not None or pin_memory:
        return placed(new_empty, layout, pin_memory, x, *sizes, size=size, dtype=dtype, device=device,
                      requires_grad=requires_grad)
    dtype, device = dtype or x.dtype, device or x.device
    return lifted_like(empty(*sizes, size=size, dtype=dtype, device=device, requires_grad=requires_grad), x)


@method()
def new_full(
    x: Tensor, size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of `fill_value`, by default in the dtype and on the device of x."""
    if layout is not None or pin_memory:
        return placed(new_full, layout, pin_memory, x, size, fill_value, dtype=dtype, device=device,
                      requires_grad=requires_grad)
    dtype, device = dtype or x.dtype, device or x.device
    return lifted_like(full(size, fill_value, dtype=dtype, device=device, requires_grad=requires_grad), x)
