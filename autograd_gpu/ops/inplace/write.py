"""Operations that write into their first operand.

Each increments the version before it writes, so that backward detects saved tensors that may have changed; record.py
does the writes that have to be recorded.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import backend, errors
from ...backend.arrays import dtypes
from ...backend.cuda import exact
from ...core.extend import (
    RECORD,
    Float8Tensor,
    LevelTensor,
    Tensor,
    as_number,
    bump_version,
    method,
    numbers_last,
    outlived,
    overwrite,
    public,
    refresh_if_stale,
    wrap_given,
)
from ..creation.convert import to
from ..creation.from_data import as_tensor
from ..elementwise.arithmetic import add, mul, sub
from ..elementwise.division import div, divide
from .record import IN_LEVEL, check_writable, in_place, record, refuse_storage


def _operand(name: str, x: Tensor, other: Any) -> Any:
    """`other` as an operand for x's array, after all checks."""
    value = other._array if isinstance(other, Tensor) else other
    if _alike(x, other):
        return value
    if isinstance(other, LevelTensor):  # of a level that is on, `record` would have taken it
        return _operand(name, x, outlived(other))
    refuse_storage(name, x, other)
    if backend.is_array(value):
        if value is other:
            refuse_storage(name, wrapped := wrap_given(value))
            value = wrapped._array
        home = backend.device_of(value)
        if home != x.device and (value.ndim or home != backend.CPU):
            raise errors.mixed_devices(name, [str(x.device), str(home)])
        if dtypes.category(value.dtype) > dtypes.category(x.dtype):
            raise RuntimeError(f"result type {value.dtype} can't be cast to the desired output type {x.dtype}")
        check_fits(name, x, value.shape)
        return value if home == x.device else value.item()
    if isinstance(value, np.generic):
        value = value.item()  # its dtype counts no more than that of a Python number
    if not isinstance(value, (bool, int, float)):
        raise TypeError(f"{name}: expected a number, a Tensor or an array, not {type(value).__name__}")
    if dtypes.category(dtypes.result_type([], [], [value])) > dtypes.category(x.dtype):
        raise RuntimeError(f"result type {type(value).__name__} can't be cast to the desired output type {x.dtype}")
    return dtypes.wrapped(value, x.dtype) if type(value) is int and x.dtype in dtypes.INTEGERS else value


def _alike(x: Tensor, other: Any) -> bool:
    """Whether `other` is a tensor of x's shape and dtype, both on the CPU and not float8."""
    a, b = x._array, other._array if isinstance(other, Tensor) else None
    alike = type(a) is np.ndarray is type(b) and a.dtype is b.dtype and a.shape == b.shape
    return alike and type(x) is not Float8Tensor and type(other) is not Float8Tensor


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float))


def check_fits(name: str, x: Tensor, shape: tuple[int, ...]) -> None:
    try:
        fits = np.broadcast_shapes(shape, x.shape) == x.shape
    except ValueError:
        fits = False
    if not fits:
        raise RuntimeError(f"{name}: output with shape {list(x.shape)} doesn't match the broadcast shape of "
                           f"{list(x.shape)} and {list(shape)}")


def _update(x: Tensor, ufunc: str, value: Any) -> Tensor:
    array = x._array
    compute = getattr(np if type(array) is np.ndarray else backend.namespace(array), ufunc)
    bump_version(x)
    if array.dtype in dtypes.HALF and not backend.is_array(value):  # NumPy would round the number to half first
        array[...] = compute(array.astype(dtypes.float32), value)
    else:
        compute(array, value, out=array, casting="unsafe")
    return x


def _scaled(name: str, x: Tensor, value: Any, alpha: Any) -> Any:
    """alpha * value, at least one of them a number, in x's integer dtype."""
    factor = as_number(name, "alpha", alpha)
    if x.dtype not in dtypes.FLOATS and isinstance(factor, (float, np.floating)):
        raise errors.float_factor("alpha")
    scaled = value * dtypes.fitting(factor, x.dtype)
    return dtypes.wrapped(scaled, x.dtype) if type(scaled) is int and x.dtype in dtypes.INTEGERS else scaled


@method()
def add_(x: Tensor, other: Any, tensor: Any = None, *, alpha: float = 1) -> Tensor:
    """x += alpha * other; add_(alpha, other) is PyTorch's deprecated form."""
    if tensor is not None:
        _, other, alpha = numbers_last("add_", 2, x, other, tensor)
    if check_writable("add_", x, other):
        return record("add_", x, add, other, alpha=alpha)
    value = _operand("add_", x, other)
    return _update(x, "add", value if type(alpha) is int and alpha == 1 else _scaled("add_", x, value, alpha))


@method("sub_", "subtract_")
def sub_(x: Tensor, other: Any, tensor: Any = None, *, alpha: float = 1) -> Tensor:
    """x -= alpha * other; sub_(alpha, other) is PyTorch's deprecated form."""
    if tensor is not None:
        _, other, alpha = numbers_last("sub_", 2, x, other, tensor)
    if check_writable("sub_", x, other):
        return record("sub_", x, sub, other, alpha=alpha)
    value = _operand("sub_", x, other)
    return _update(x, "subtract", value if type(alpha) is int and alpha == 1 else _scaled("sub_", x, value, alpha))


@method("mul_", "multiply_")
def mul_(x: Tensor, other: Any) -> Tensor:
    """x *= other."""
    if check_writable("mul_", x, other):
        return record("mul_", x, mul, other)
    return _update(x, "multiply", _operand("mul_", x, other))


@method("div_", "divide_", "true_divide_")
def div_(x: Tensor, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """x /= other, or rounded as ag.div does with `rounding_mode`; without it x must be floating point."""
    if rounding_mode is not None:
        return _rounded_div_(x, other, rounding_mode=rounding_mode)
    if x.dtype not in dtypes.FLOATS:
        raise RuntimeError(f"result type float can't be cast to the desired output type {x.dtype}")
    if check_writable("div_", x, other):
        return record("div_", x, div, other)
    return _update(x, "true_divide", _operand("div_", x, other))


@method()
def copy_(x: Tensor, other: Any, non_blocking: bool = False) -> Tensor:
    """Copies `other` into x, broadcasting, converting dtype and device; non_blocking has no effect."""
    recorded = check_writable("copy_", x, other)
    if recorded == IN_LEVEL:
        return record("copy_", x, _as_copied, other)
    if _alike(x, other):
        if recorded:
            refresh_if_stale(other)
        bump_version(x)
        x._array[...] = exact.assignable(other._array, x._array)
    else:
        value = other if isinstance(other, Tensor) else as_tensor(np.asarray(other) if _is_number(other) else other)
        check_fits("copy_", x, value.shape)
        if isinstance(x, Float8Tensor) or isinstance(value, Float8Tensor):
            value = value.to(x.device, x.dtype)
        if recorded:
            other = value = to(value, x.device, x.dtype)
            refresh_if_stale(value)
        array = backend.to_device(value._array, x.device)
        bump_version(x)
        x._array[...] = exact.assignable(array, x._array)
    if recorded:
        overwrite(x, other)
    return x


def _as_copied(x: Tensor, other: Any) -> Tensor:
    """`other` as copy_ writes it to x, out of place."""
    value = other if isinstance(other, Tensor) else as_tensor(np.asarray(other) if _is_number(other) else other)
    check_fits("copy_", x, value.shape)
    shown: Tensor = RECORD.expand(to(value, x.device, x.dtype), x.shape)
    return shown


@public(methods="fill_")
def fill_(input: Tensor, value: Any) -> Tensor:
    """Fills input with `value`, a number or a 0-d tensor."""
    x = input
    recorded = check_writable("fill_", x, value, allow_expanded=not (isinstance(value, Tensor) and value.requires_grad))
    if type(value) is float and x._array.dtype in dtypes.FULL_FLOATS:
        return put(x, value, recorded)
    if isinstance(value, Tensor) and value.ndim:
        raise RuntimeError("fill_ only supports 0-dimension value tensor but got tensor with "
                           f"{value.ndim} dimensions.")
    value = value.to(x.device, x.dtype) if isinstance(value, Tensor) else as_tensor(value, x.dtype, x.device)
    if recorded == IN_LEVEL:
        return record("fill_", x, _as_copied, value)
    if recorded:
        refresh_if_stale(value)
    bump_version(x)
    x._array[...] = value._array
    if recorded:
        overwrite(x, value)
    return x


@public(methods="zero_")
def zero_(input: Tensor) -> Tensor:
    """Fills input with zeros."""
    return put(input, 0, check_writable("zero_", input, allow_expanded=True))


def put(x: Tensor, values: Any, recorded: int) -> Tensor:
    """Writes constants into x, broadcasting; `recorded` is the result of check_writable."""
    if recorded == IN_LEVEL:
        return record("fill_", x, _as_copied, values)
    bump_version(x)
    array = x._array
    array[...] = values if type(array) is np.ndarray else exact.assignable(values, array)
    if recorded:
        overwrite(x, None)
    return x


_rounded_div_ = in_place(divide, "div_")
