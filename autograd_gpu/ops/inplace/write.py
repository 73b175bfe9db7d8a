"""Operations that write into their first operand.

Each increments the version before it writes, so that backward detects saved tensors that may have changed. If it has to
be recorded, the op runs out of place on an alias of the tensor, and core/history/rebase.py rewrites the history.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ... import backend, errors
from ...backend.arrays import dtypes, strides
from ...backend.cuda import exact
from ...config import GRAD_OFF, INFERENCE, MODES, SAVING, TRANSFORMED
from ...core.extend import (
    INFERENCE_STORAGE,
    RECORD,
    EnoughSaved,
    Lifted,
    OpNode,
    SavedIntoView,
    SavedOutput,
    Storage,
    StorageTensor,
    Tensor,
    as_number,
    bump_version,
    check_inplace,
    concerns_level,
    ended,
    give,
    method,
    notify_write_listeners,
    overwrite,
    plain,
    public,
    push_written,
    rebase_history,
    refresh_if_stale,
    refuse_inner,
    refuse_linearized,
    set_apart,
    storage_of,
    withholding,
    wrap_given,
    write_lifted,
)
from ..creation.convert import to
from ..creation.factories import as_tensor
from ..elementwise.arithmetic import add, mul, sub
from ..elementwise.division import div, divide


def _operand(name: str, x: Tensor, other: Any) -> Any:
    """`other` as an operand for x's array, after all checks."""
    value = other._array if isinstance(other, Tensor) else other
    if _alike(x, other):
        return value
    if isinstance(other, Lifted):  # of a level that is on, `record` would have taken it
        ended(other._level)
    refuse_storage(name, x, other)
    if backend.is_array(value):
        if value is other:
            refuse_storage(name, given := wrap_given(value))
            value = given._array
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
    return dtypes.wrapped(value, x.dtype) if type(value) is int and x.dtype in dtypes.INTEGERS else value


def _alike(x: Tensor, other: Any) -> bool:
    """Whether `other` is a tensor of x's shape and dtype, both on the CPU and not float8."""
    a, b = x._array, other._array if isinstance(other, Tensor) else None
    alike = type(a) is np.ndarray is type(b) and a.dtype is b.dtype and a.shape == b.shape
    return alike and type(x) is not StorageTensor and type(other) is not StorageTensor


def refuse_stretched(name: str, array: Any) -> None:
    """RuntimeError for an array whose elements share memory."""
    if strides.is_expanded(array):
        raise RuntimeError(f"{name}: unsupported operation: more than one element of the written-to tensor refers to a "
                           "single memory location. Please clone() the tensor before performing the operation.")


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float))


def _check_fits(name: str, x: Tensor, shape: tuple[int, ...]) -> None:
    try:
        fits = np.broadcast_shapes(shape, x.shape) == x.shape
    except ValueError:
        fits = False
    if not fits:
        raise RuntimeError(f"{name}: output with shape {list(x.shape)} doesn't match the broadcast shape of "
                           f"{list(x.shape)} and {list(shape)}")


def check_writable(name: str, x: Tensor, *others: Any, allow_expanded: bool = False) -> bool:
    """Whether a write to x, of values that depend on `others`, has to be recorded.

    RuntimeError if x cannot be written to: a leaf that requires grad, an inference tensor, or an expanded view, unless
    `allow_expanded`: all elements get the same constant, or the caller checks.
    """
    concerned = MODES.bits & TRANSFORMED and concerns_level(x, others)
    if concerned:
        refuse_inner(name, x, others)
        if isinstance(x, Lifted):
            return True
    array, storage = x._array, x._storage
    recorded = changes_graph(x, others)
    if recorded:
        check_inplace(name, x)
    if not allow_expanded and 0 in array.strides:
        refuse_stretched(name, array)
    if storage is not None:
        announce(storage)
    return recorded or bool(concerned)


def announce(storage: Storage) -> None:
    """Increments the version before a write. RuntimeError for an inference tensor outside of inference mode."""
    if storage is INFERENCE_STORAGE and not MODES.bits & INFERENCE:
        raise errors.inference_written()
    if storage.write_listeners is not None:
        notify_write_listeners(storage)


def is_recorded(x: Tensor, others: tuple[Any, ...]) -> bool:
    """Whether `record` must do the write: it changes a graph, or an interpreter must see it."""
    return bool(MODES.bits & TRANSFORMED and concerns_level(x, others)) or changes_graph(x, others)


def changes_graph(x: Tensor, others: tuple[Any, ...]) -> bool:
    """Whether this thread records, and x or an operand is in a graph."""
    if MODES.bits & (GRAD_OFF | INFERENCE):
        return False
    base = x._base
    if base is None:
        if x._fn is not None:
            return True
    elif base._fn is not None or (x._fn if x._made else x._node) is not None:  # `_node` raises for some stale views
        return True
    for other in others:
        if isinstance(other, Tensor) and other._node is not None:
            return x._array.dtype in dtypes.FLOATS
    return False


def refuse_storage(name: str, *values: Any) -> None:
    """TypeError for a float8 tensor."""
    for value in values:
        if isinstance(value, StorageTensor):
            raise TypeError(f"{name}: {value.dtype} is a storage dtype and has no arithmetic; convert with "
                            ".to(ag.float32) first")


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
    scaled = value * dtypes.fitting(as_number(name, "alpha", alpha), x.dtype)
    return dtypes.wrapped(scaled, x.dtype) if type(scaled) is int and x.dtype in dtypes.INTEGERS else scaled


@method()
def add_(x: Tensor, other: Any, *, alpha: float = 1) -> Tensor:
    """x += alpha * other."""
    if check_writable("add_", x, other):
        return record("add_", x, add, other, alpha=alpha)
    value = _operand("add_", x, other)
    return _update(x, "add", value if type(alpha) is int and alpha == 1 else _scaled("add_", x, value, alpha))


@method("sub_", "subtract_")
def sub_(x: Tensor, other: Any, *, alpha: float = 1) -> Tensor:
    """x -= alpha * other."""
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
    if recorded and MODES.bits & TRANSFORMED and concerns_level(x, (other,)):
        return record("copy_", x, _as_copied, other)
    if _alike(x, other):
        if recorded:
            refresh_if_stale(other)
        bump_version(x)
        x._array[...] = other._array
    else:
        value = other if isinstance(other, Tensor) else as_tensor(np.asarray(other) if _is_number(other) else other)
        _check_fits("copy_", x, value.shape)
        if isinstance(x, StorageTensor) or isinstance(value, StorageTensor):
            value = value.to(x.device, x.dtype)
        if recorded:
            other = value = to(value, x.device, x.dtype)
            refresh_if_stale(value)
        array = backend.to_device(value._array, x.device)
        bump_version(x)
        x._array[...] = array
    if recorded:
        overwrite(x, other)
    return x


def _as_copied(x: Tensor, other: Any) -> Tensor:
    """`other` as copy_ writes it to x, out of place."""
    value = other if isinstance(other, Tensor) else as_tensor(np.asarray(other) if _is_number(other) else other)
    _check_fits("copy_", x, value.shape)
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
    if recorded and MODES.bits & TRANSFORMED and concerns_level(x, (value,)):
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


def put(x: Tensor, values: Any, recorded: bool) -> Tensor:
    """Writes constants into x, broadcasting; `recorded` is the result of check_writable."""
    if recorded and MODES.bits & TRANSFORMED and concerns_level(x, ()):
        return record("fill_", x, _as_copied, values)
    bump_version(x)
    array = x._array
    array[...] = values if type(array) is np.ndarray else exact.assignable(values, array)
    if recorded:
        overwrite(x, None)
    return x


def in_place(function: Any, name: str) -> Any:
    """The method `name` that writes function(x, ...), of x's shape and kind of dtype, into x and returns x."""

    def method(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        x = input
        if check_writable(name, x, *args, *kwargs.values()):
            return record(name, x, function, *args, **kwargs)
        result = function(x, *args, **kwargs)  # check_writable found nothing to record
        if result is x:  # dropout in evaluation
            return x
        _check_result(name, x, result)
        bump_version(x)
        x._array[...] = result._array
        return x

    return named(method, function, name, f"`{name[:-1]}` of x, written into x, which is returned.")


def _check_result(name: str, x: Tensor, result: Tensor) -> None:
    if result._array.shape != x._array.shape:
        raise RuntimeError(f"{name}: output with shape {list(x.shape)} doesn't match the broadcast shape "
                           f"{list(result.shape)}")
    if result.dtype != x.dtype and dtypes.category(result.dtype) > dtypes.category(x.dtype):
        raise RuntimeError(f"result type {result.dtype} can't be cast to the desired output type {x.dtype}")


def _calibrate() -> int:
    """The reference count that `record` sees on this Python for an object held by one local variable only."""
    original = object()
    return sys.getrefcount(original)


ALONE = _calibrate()


def record(name: str, x: Tensor, function: Any, *args: Any, **kwargs: Any) -> Tensor:
    """Writes function(x, ...) into x and makes its node the one of x (core/history/rebase.py, steps 1 to 3).

    The nodes of the function see the previous x as `original`, which gets its own memory if one of them saved it.
    Unlike in PyTorch, `original` also replaces x among the arguments, so that x.mul_(x) has the right gradient.
    """
    concerned = MODES.bits & TRANSFORMED and concerns_level(x, (*args, *kwargs.values()))
    if concerned:
        refuse_inner(name, x, (*args, *kwargs.values()))
        if isinstance(x, Lifted):
            return write_lifted(name, x, function, args, kwargs)
        refuse_linearized(name)
    original = plain(x)
    original._storage = None
    op = getattr(function, "op", None)
    apart = op is None or bool(op.saved) or MODES.bits != 0  # it is unknown who else uses the memory
    if apart:
        original._array = x._array.copy()
    if concerned:
        set_apart(original, x)
    array = x._array
    given = [original if a is x or a is array else a for a in args]
    kwargs = {key: original if a is x or a is array else a for key, a in kwargs.items()}
    if MODES.bits & SAVING:
        result, withheld = withholding(function, original, *given, **kwargs)
    else:
        result, withheld = function(original, *given, **kwargs), []
    del given, kwargs
    if result is original:
        return x
    _check_result(name, x, result)
    if result._array.dtype is not array.dtype:
        result = RECORD.cast(result, x.dtype)
    if not apart and sys.getrefcount(original) > ALONE:  # a node saved it
        original._array = array.copy()
    bump_version(x)
    array[...] = result._array
    if concerned:
        push_written(x, result)
        if MODES.bits & (GRAD_OFF | INFERENCE):
            return x
    node, nr = result._node, result._nr
    if node is None:
        overwrite(x, None)
        return x
    if withheld:
        _hand_over(withheld, x, original, node, nr)
    elif node.keeps_output:
        _move_outputs(x, node, nr)
    rebase_history(x, node, nr)
    return x


def _move_outputs(x: Tensor, node: Any, nr: int) -> None:
    for name, kept in node.saved_by_name():
        if type(kept) is SavedOutput and kept.nr == nr and kept.tensor is not None:
            _moved(kept, x, node, name)


def _moved(kept: SavedOutput, x: Tensor, node: Any, name: str) -> SavedOutput:
    """The saved output of `node` after the output was written into x."""
    if x._base is None or not isinstance(node, OpNode):
        kept.move_to(x)
        return kept
    moved = SavedIntoView(kept, x)
    setattr(node, node.saved_slots[name], moved)
    return moved


def _hand_over(withheld: list[Any], x: Tensor, original: Tensor, node: Any, nr: int) -> None:
    """Passes the saved outputs of nodes to hooks: output `nr` of `node` as x, into which it was written, so that a hook
    recognizes the memory that the next node saves. If a hook fails, x gets its previous value `original` back."""
    try:
        for kept, by, name in withheld:
            if by is node and kept.nr == nr:
                kept = _moved(kept, x, by, name)
            give(kept, by, name)
    except EnoughSaved:
        raise
    except BaseException:
        x._array[...] = original._array
        storage_of(x).version -= 1
        raise


def named(method: Any, function: Any, name: str, doc: str) -> Any:
    method.__name__ = method.__qualname__ = name
    method.__doc__, method.__wrapped__ = doc, function
    return method


_rounded_div_ = in_place(divide, "div_")
