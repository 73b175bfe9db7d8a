"""Conversion: dtype, device, copies."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import backend
from ...backend.arrays import dtypes
from ...backend.arrays.device import Device, is_device
from ...backend.arrays.memory_format import copy_order, is_contiguous_format
from ...backend.cpu import half
from ...backend.quantization.quantize import from_float8, to_float8
from ...core.extend import (
    BROADCASTING,
    LINEAR,
    RECORD,
    Float8Tensor,
    FollowingStorage,
    LevelTensor,
    Tensor,
    defop,
    method,
    public,
    storage_of,
    to_detach,
    tracer,
    wrap,
    wrap_codes,
)
from ...modes import MODES


def _cast(xp, x, *, dtype):
    if type(x) is np.ndarray and x.size >= half.MANY and x.flags.c_contiguous and x.dtype != dtype:
        return half.convert(x, dtype)
    return x.astype(dtype, copy_order(x))


@defop
class cast:
    """x in another dtype; floating point to floating point is differentiable.

    >>> ag.tensor([1.5, 2.5]).to(ag.float64)
    tensor([1.5, 2.5], dtype=float64)
    """

    forward = _cast
    def grad_x(F, g, x_dtype): return F.cast(g, x_dtype)
    def differentiable(dtype): return dtype in dtypes.FLOATS
    jvp, batch = LINEAR, BROADCASTING
    def formula(x, *, dtype): return x  # groups round behind it


def _clone_in(x: Tensor, memory_format: Any) -> Tensor:
    return contiguous_copy(x) if is_contiguous_format("clone", memory_format) else clone(x)


@defop
class clone:
    """A copy of x; differentiable.

    >>> ag.clone(ag.ones(2))
    tensor([1., 1.])
    """

    def forward(xp, x): return x.copy(copy_order(x)) if x.ndim else xp.array(x)
    def grad_x(F, g): return g
    storage_ok = True
    keyword_redirects = (("memory_format", _clone_in),)
    jvp, batch = LINEAR, BROADCASTING
    takes_out = False
    public = methods = True


@defop
class contiguous_copy:
    """A copy of x in C order; see contiguous.

    >>> ag.contiguous(ag.ones(2, 3).mT).stride()
    (2, 1)
    """

    def forward(xp, x): return xp.array(x, order="C")
    def grad_x(F, g): return g
    storage_ok = True
    jvp, batch = LINEAR, BROADCASTING
    keeps_layout = False


@public(methods=True)
def contiguous(x: Tensor, memory_format: Any = None) -> Tensor:
    """x itself if it is in C order, else a copy in C order.

    >>> ag.contiguous(ag.ones(2, 3).mT).stride()
    (2, 1)
    """
    preserved = memory_format is not None and not is_contiguous_format("contiguous", memory_format)
    if x._layout().flags.c_contiguous:
        return x
    if preserved:
        raise RuntimeError("preserve memory format is unsupported by the contiguous operator; leave memory_format out")
    return contiguous_copy(x)


@defop
class to_device:
    """x on `device`; the gradient is copied back to x's device.

    >>> ag.ones(2).to("cpu").device
    device('cpu')
    """

    def forward(xp, x, *, device, non_blocking=False):
        return backend.to_device(x, device, non_blocking), {"home": backend.device_of(x)}
    def grad_x(F, g, home): return F.to_device(g, home)
    saved = ("home",)
    jvp, batch = LINEAR, BROADCASTING


@public(methods=True)
def to(
    x: Tensor, *args: Any, dtype: Any = None, device: Any = None, copy: bool = False, non_blocking: bool = False,
    memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """x with another dtype, device, or both; x itself if nothing changes and `copy` is False.

    to(dtype), to(device), to(device, dtype), to(other): PyTorch's forms. With non_blocking the CPU does not wait for
    a copy from page-locked memory (`pin_memory`) to CUDA; other copies take no notice of it. A copy has the memory
    order of x, or C order with memory_format=contiguous_format.

    >>> ag.ones(2).to("cpu", ag.float64).dtype
    dtype('float64')
    """
    for value in args:
        if isinstance(value, Tensor):
            device, dtype = value.device, value.dtype
        elif is_device(value):
            device = value
        elif isinstance(value, bool):
            non_blocking = value
        else:
            dtype = value
    result = x
    home = x.device if device is None else backend.resolve(Device(device))
    if home != x.device:
        result = move(result, home, non_blocking)
    if dtype is not None:
        target = dtypes.as_dtype(dtype)
        if target != result.dtype:
            result = convert(result, target)
    if copy and result is x:
        result = clone(result)
    if memory_format is not None and is_contiguous_format("to", memory_format) and result is not x:
        return contiguous(result)
    return result


def move(x: Tensor, device: Device, non_blocking: bool = False) -> Tensor:
    if isinstance(x, Float8Tensor):
        return wrap_codes(backend.to_device(x._array, device, non_blocking), x.dtype)
    return RECORD.to_device(x, device, non_blocking=non_blocking)


def convert(x: Tensor, dtype: np.dtype) -> Tensor:
    """`cast`, also to and from the float8 storage dtypes (rounded to nearest even; finite numbers saturate)."""
    if (isinstance(x, Float8Tensor) or dtype in dtypes.STORAGE) and (level := tracer()) is not None:
        level.refuse("a tensor is converted to or from float8", "convert it outside of the function")
    if isinstance(x, Float8Tensor):
        if dtype not in dtypes.FLOATS:
            return convert(wrap(from_float8(x._array, x.dtype, dtypes.float32)), dtype)
        return wrap(from_float8(x._array, x.dtype, dtype))
    if isinstance(x, LevelTensor) and (dtype in dtypes.STORAGE or x.dtype in dtypes.STORAGE):
        raise RuntimeError(f"inside of a function transform {x.dtype} cannot be converted to {dtype}; convert the "
                           "arguments or the result of the transform")
    if dtype in dtypes.STORAGE:
        return wrap_codes(to_float8(x._array, dtype), dtype)
    return cast(x, dtype)


@method()
def cpu(x: Tensor, memory_format: Any = None) -> Tensor:
    """x on the CPU."""
    return to(x, "cpu", memory_format=memory_format)


@method()
def cuda(x: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Tensor:
    """x on a CUDA device: an ordinal, "cuda", "cuda:1"; ImportError or RuntimeError if CuPy or a device is missing."""
    home = "cuda" if device is None else f"cuda:{device}" if isinstance(device, int) else device
    return to(x, device=home, non_blocking=non_blocking, memory_format=memory_format)


def itself(x: Tensor) -> Tensor:
    """+x."""
    return x


@public()
def detach(input: Tensor) -> Tensor:
    """The same memory and version counter, without history; does not require grad.

    >>> ag.detach(ag.ones(1, requires_grad=True)).requires_grad
    False
    """
    return input.detach()


@public(methods="detach_")
def detach_(input: Tensor) -> Tensor:
    """Detaches input from its history, in place. A backward through a node that saved input raises RuntimeError.

    In function transforms the innermost one, other than vmap, sees a constant; `detach` gives one for all of them.
    RuntimeError for a view: use `detach`.
    """
    x: Any = input
    if x._is_view():
        raise RuntimeError("Can't detach views in-place. Use detach() instead.")
    if MODES.stack:
        x = to_detach(x)
        if x is None:
            return input
    if x._fn is not None and not x.is_leaf:
        x._storage = FollowingStorage(storage_of(x), 1)
    x._fn, x._nr = None, 0
    return input


@method()
def type_as(x: Tensor, other: Tensor) -> Tensor:
    """x in the dtype of `other`."""
    return x if x.dtype == other.dtype else to(x, other.dtype)


def _to_named(name: str, dtype: np.dtype) -> None:
    """Defines the Tensor method `name`, which converts to one dtype."""

    @method(name)
    def convert_to(x: Tensor, memory_format: Any = None) -> Tensor:
        return to(x, dtype, memory_format=memory_format)

    convert_to.__doc__ = f"x as {dtype}."


for _name, _dtype in (
    ("bfloat16", dtypes.bfloat16), ("bool", dtypes.bool_), ("byte", dtypes.uint8), ("char", dtypes.int8),
    ("double", dtypes.float64), ("float", dtypes.float32), ("half", dtypes.float16), ("int", dtypes.int32),
    ("long", dtypes.int64), ("short", dtypes.int16),
):  # fmt: skip
    _to_named(_name, _dtype)
