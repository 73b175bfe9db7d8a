"""Operations that write into their first operand. They work where nothing is recorded: under no_grad, or between
tensors that do not require grad. Each bumps the version, so that backward notices a saved tensor that changed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import backend, errors
from ..backend import dtypes
from ..config import GRAD_OFF, MODES
from ..core.node import AccumulateGrad
from ..core.tensor import StorageTensor, Tensor, wrap
from ..core.views import bump_version
from .creation import as_tensor
from .division import divide
from .index import advanced_key, in_our_words, key_part, sort_out


def _operand(name: str, x: Tensor, other: Any) -> Any:
    """`other` as something NumPy or CuPy may combine with x's array, after all checks."""
    value = other._array if isinstance(other, Tensor) else other
    check_writable(name, x, other)
    if _alike(x, other):
        return value
    refuse_storage(name, x, other)
    if backend.is_array(value):
        if backend.device_of(value) != x.device and not (value.ndim == 0 and not backend.is_cuda(value)):
            raise errors.mixed_devices(name, [str(x.device), str(backend.device_of(value))])
        if dtypes.category(value.dtype) > dtypes.category(x.dtype):
            raise RuntimeError(f"result type {value.dtype} can't be cast to the desired output type {x.dtype}")
        _check_fits(name, x, value.shape)
        return value.item() if x.is_cuda and not backend.is_cuda(value) else value
    if not isinstance(value, (bool, int, float, np.generic)):
        raise TypeError(f"{name}: expected a number, a Tensor or an array, not {type(value).__name__}")
    if dtypes.category(dtypes.result_type([], [], [value])) > dtypes.category(x.dtype):
        raise RuntimeError(f"result type {type(value).__name__} can't be cast to the desired output type {x.dtype}")
    return value


def _alike(x: Tensor, other: Any) -> bool:
    """Whether `other` is a tensor of x's shape and dtype, both NumPy arrays to compute with."""
    a, b = x._array, other._array if isinstance(other, Tensor) else None
    alike = type(a) is np.ndarray is type(b) and a.dtype is b.dtype and a.shape == b.shape
    return alike and type(x) is not StorageTensor and type(other) is not StorageTensor


def _stretched(array: Any) -> bool:
    return any(size > 1 for stride, size in zip(array.strides, array.shape, strict=True) if stride == 0)


def _check_fits(name: str, x: Tensor, shape: tuple[int, ...]) -> None:
    try:
        fits = np.broadcast_shapes(shape, x.shape) == x.shape
    except ValueError:
        fits = False
    if not fits:
        raise RuntimeError(f"{name}: output with shape {list(x.shape)} doesn't match the broadcast shape of "
                           f"{list(x.shape)} and {list(shape)}")


def check_writable(name: str, x: Tensor, *others: Any) -> None:
    """RuntimeError where x cannot be written to: it is in a graph, or it is a stretched view."""
    array = x._array
    if 0 in array.strides and array.size and _stretched(array):
        raise RuntimeError(f"{name}: unsupported operation: more than one element of the written-to tensor refers to a "
                           "single memory location. Please clone() the tensor before performing the operation.")
    _check_unrecorded(name, x, *others)


def refuse_storage(name: str, *values: Any) -> None:
    """TypeError for a float8 tensor."""
    for value in values:
        if isinstance(value, StorageTensor):
            raise TypeError(f"{name}: {value.dtype} is a storage dtype and has no arithmetic; convert with "
                            ".to(ag.float32) first")


def _check_unrecorded(name: str, x: Tensor, *others: Any) -> None:
    """RuntimeError where the operation would have to be recorded."""
    if MODES.bits & GRAD_OFF:
        return
    node = x._node
    if type(node) is AccumulateGrad:
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation; "
                           f"wrap {name} in ag.no_grad()")
    for other in others:
        if node is None and isinstance(other, Tensor):
            node = other._node
    if node is not None:
        raise RuntimeError(f"{name} would have to be recorded, and in-place operations are not; use the out-of-place "
                           f"operation, or wrap {name} in ag.no_grad()")


def _update(x: Tensor, ufunc: str, value: Any) -> Tensor:
    array = x._array
    compute = getattr(np if type(array) is np.ndarray else backend.namespace(array), ufunc)
    if array.dtype in dtypes.HALF and not backend.is_array(value):  # NumPy would round the number to half first
        array[...] = compute(array.astype(dtypes.float32), value)
    else:
        compute(array, value, out=array, casting="unsafe")
    bump_version(x)
    return x


def add_(x: Tensor, other: Any, *, alpha: float = 1) -> Tensor:
    """x += alpha * other."""
    value = _operand("add_", x, other)
    return _update(x, "add", value if alpha == 1 else value * alpha)


def sub_(x: Tensor, other: Any, *, alpha: float = 1) -> Tensor:
    """x -= alpha * other."""
    value = _operand("sub_", x, other)
    return _update(x, "subtract", value if alpha == 1 else value * alpha)


def mul_(x: Tensor, other: Any) -> Tensor:
    """x *= other."""
    return _update(x, "multiply", _operand("mul_", x, other))


def div_(x: Tensor, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """x /= other, or rounded as ag.div does with `rounding_mode`; without it x must be floating point."""
    if rounding_mode is not None:
        return _rounded_div_(x, other, rounding_mode=rounding_mode)
    if x.dtype not in dtypes.FLOATS:
        raise RuntimeError(f"result type float can't be cast to the desired output type {x.dtype}")
    return _update(x, "true_divide", _operand("div_", x, other))


def copy_(x: Tensor, other: Any, non_blocking: bool = False) -> Tensor:
    """The values of `other` into x, broadcasting, converting dtype and device; non_blocking has no effect."""
    check_writable("copy_", x, other)
    if _alike(x, other):
        x._array[...] = other._array
        bump_version(x)
        return x
    value = other if isinstance(other, Tensor) else as_tensor(other)
    _check_fits("copy_", x, value.shape)
    if isinstance(x, StorageTensor) or isinstance(value, StorageTensor):
        value = value.to(x.device, x.dtype)
    x._array[...] = backend.to_device(value._array, x.device)
    bump_version(x)
    return x


def fill_(x: Tensor, value: Any) -> Tensor:
    """`value`, a number or a 0-d tensor, everywhere in x."""
    check_writable("fill_", x, value)
    if type(value) is float and x._array.dtype in dtypes.FULL_FLOATS:
        x._array.fill(value)
        bump_version(x)
        return x
    if isinstance(value, Tensor) and value.ndim:
        raise RuntimeError("fill_ only supports 0-dimension value tensor but got tensor with "
                           f"{value.ndim} dimensions.")
    x._array[...] = as_tensor(value).to(x.device, x.dtype)._array
    bump_version(x)
    return x


def zero_(x: Tensor) -> Tensor:
    """Zeros everywhere in x."""
    check_writable("zero_", x)
    x._array[...] = 0
    bump_version(x)
    return x


def in_place(function: Any, name: str) -> Any:
    """`name`: writes function(x, ...) back into x, whose shape and kind of dtype it must have, and returns x."""

    def method(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        check_writable(name, x, *args, *kwargs.values())
        result = function(x, *args, **kwargs)  # nothing to record: the check has seen to that
        array, value = x._array, result._array
        if value.shape != array.shape:
            raise RuntimeError(f"{name}: output with shape {list(x.shape)} doesn't match the broadcast shape "
                               f"{list(result.shape)}")
        if value.dtype is not array.dtype and dtypes.category(result.dtype) > dtypes.category(x.dtype):
            raise RuntimeError(f"result type {result.dtype} can't be cast to the desired output type {x.dtype}")
        array[...] = value
        bump_version(x)
        return x

    return _named(method, function, name, f"`{name[:-1]}` of x, written into x, which is returned.")


def in_place_view(function: Any, name: str) -> Any:
    """The method `name` that makes x itself the view function(x, ...): same memory, other shape."""

    def method(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        _check_unrecorded(name, x)
        x._array = function(x, *args, **kwargs)._array
        bump_version(x)
        return x

    return _named(method, function, name, f"x itself as x.{name[:-1]}(...).")


def _named(method: Any, function: Any, name: str, doc: str) -> Any:
    method.__name__ = method.__qualname__ = name
    method.__doc__, method.__wrapped__ = doc, function
    return method


_rounded_div_ = in_place(divide, "div_")


def fill_diagonal_(x: Tensor, fill_value: float, wrap: bool = False) -> Tensor:
    """`fill_value` on the main diagonal of x, of two or more dimensions, all equal if more than two; with `wrap` the
    diagonal of a tall matrix starts again, one row further down.

    >>> ag.zeros(2, 2).fill_diagonal_(1.0)
    tensor([[1., 0.],
            [0., 1.]])
    """
    check_writable("fill_diagonal_", x)
    refuse_storage("fill_diagonal_", x)
    if x.ndim < 2:
        raise RuntimeError("dimensions must larger than 1")
    if x.ndim > 2 and len(set(x.shape)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    backend.namespace(x._array).fill_diagonal(x._array, fill_value, wrap)
    bump_version(x)
    return x


def _place(x: Tensor, key: Any) -> tuple[Any, Any]:
    """The array and the key of it that x[key] stands for, by the rules of `getitem`: x[0, :, i] is x[0][:, i]."""
    parts = [key_part(x, part) for part in (key if type(key) is tuple else (key,))]
    if not any(isinstance(part, Tensor) for part in parts):
        return x._array, tuple(parts)
    view, indices, dims = sort_out(wrap(x._array), parts)
    return view._array, advanced_key(view.ndim, dims, [index._array for index in indices])


def setitem(x: Tensor, index: Any, value: Any) -> None:
    """x[index] = value, under no_grad or between constants."""
    check_writable("x[index] = value", x, value)
    if isinstance(x, StorageTensor) and not isinstance(value, Tensor):
        value = as_tensor(value).to(x.device, x.dtype)
    if value is None or isinstance(value, str):
        raise TypeError(f"can't assign a {type(value).__name__} to a tensor")
    array = value._array if isinstance(value, Tensor) else value
    if backend.is_array(array) and backend.device_of(array) != x.device:
        if array.ndim:
            raise errors.mixed_devices("setitem", [str(x.device), str(backend.device_of(array))])
        array = array.item()
    if isinstance(x, StorageTensor) != isinstance(value, StorageTensor):
        raise TypeError("setitem: convert the value to the tensor's dtype first, a float8 dtype has no implicit casts")
    try:
        target, key = _place(x, index)
        target[key] = array
    except IndexError as error:
        raise IndexError(in_our_words(str(error), x.ndim)) from None
    except ValueError as error:
        raise RuntimeError(f"shape mismatch: value tensor of shape {list(np.shape(array))} cannot be broadcast to "
                           f"indexing result of shape {list(x[index].shape)}") from error
    bump_version(x)
