"""Tensors of given strides."""

from __future__ import annotations

from typing import Any

from ... import backend
from ...backend.arrays import dtypes, strides
from ...backend.arrays.device import or_default
from ...core.extend import Tensor, made_inside, method, public, wrap


@public()
def empty_strided(
    size: Any, stride: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:  # fmt: skip
    """An uninitialized tensor of these sizes and strides, in elements.

    >>> ag.empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    size, stride = tuple(size), tuple(stride)
    if len(size) != len(stride):
        raise RuntimeError(f"dimensionality of sizes ({len(size)}) must match dimensionality of strides "
                           f"({len(stride)})")
    if min(*size, *stride, 0, 0) < 0:
        raise RuntimeError(f"empty_strided: Negative sizes and strides are not supported, got {list(size)}, "
                           f"{list(stride)}")
    home = or_default(device)
    target = dtypes.get_default_dtype() if dtype is None else dtypes.computing(dtype)
    last = sum([(n - 1) * s for n, s in zip(size, stride, strict=True)])
    buffer = backend.make(home, "empty", 0 if 0 in size else last + 1, dtype=target)
    array = strides.strided(backend.namespace(buffer), buffer, size, tuple([s * buffer.itemsize for s in stride]))
    return made_inside(wrap(array)).requires_grad_(requires_grad)


@method()
def new_empty_strided(
    x: Tensor, size: Any, stride: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:  # fmt: skip
    """empty_strided, by default in the dtype and on the device of x."""
    return empty_strided(size, stride, dtype=dtype or x.dtype, device=device or x.device, requires_grad=requires_grad)
