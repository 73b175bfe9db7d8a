"""Running a NumPy function as device work: now the shape and dtype of its result, later the numbers.

    1. infer(): the shapes and dtypes of the results, from a run on dummies of stride 0, remembered per signature.
    2. New arrays for the results, or the caller's `out`.
    3. An operation on the current stream that computes and stores; it holds views of memory, never the owners.

Functions whose result depends on values (nonzero, unique) wait for the stream and run at once, as CuPy's do.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import _launches, _rules
from ._access import access, check_device, upload
from ._array import as_array, ndarray, new
from ._emulation import SETTINGS
from ._state import current_queue

_REMEMBERED = 8192
_INT64 = np.dtype(np.int64)
_PLAIN = frozenset((bool, int, float, complex, str, type(None), type(Ellipsis), type))
_results: dict[Any, Any] = {}


def unpack(value: Any, arrays: list[ndarray]) -> tuple[Any, Any]:
    """`value` with NumPy views for device arrays, which are added to `arrays`; and a key that says what it is like."""
    kind = type(value)
    if kind is ndarray:
        arrays.append(value)
        raw = value._a
        return raw, (raw.shape, raw.dtype)
    if kind in _PLAIN:
        return value, (kind, value)
    if kind is tuple or kind is list:
        parts = [unpack(item, arrays) for item in value]
        return kind([raw for raw, _ in parts]), (kind, *[key for _, key in parts])
    if isinstance(value, tuple):  # CuPy makes a tuple of any sequence that is a shape
        return unpack(tuple(value), arrays)
    if isinstance(value, (np.generic, np.dtype, type)):
        return value, (kind, value.item() if isinstance(value, np.generic) else value)
    if kind is slice:
        return value, (slice, value.start, value.stop, value.step)
    found = as_array(value)
    if found is None:
        raise TypeError(f"Unsupported type {kind}")
    return unpack(found, arrays)


def dummy(value: Any) -> Any:
    """What stands for the arrays in `value` while shapes are found out: zeros, which are indices that always fit."""
    if isinstance(value, np.ndarray):
        fill = np.ones((), value.dtype) if value.dtype.kind in "fcV" else np.zeros((), value.dtype)
        return np.broadcast_to(fill, value.shape)
    return type(value)(map(dummy, value)) if type(value) in (tuple, list) else value


def infer(key: Any, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """(shape, dtype) of the function's result, or a list of them for several results."""
    try:
        return _results[key]
    except KeyError:
        pass
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = function(*map(dummy, args), **{name: dummy(value) for name, value in kwargs.items()})
    if len(_results) >= _REMEMBERED:
        _results.clear()
    _results[key] = found = _describe(result)
    return found


def _describe(result: Any) -> Any:
    if isinstance(result, (tuple, list)):
        return [_describe(part) for part in result]
    result = np.asarray(result)
    return result.shape, result.dtype


def call(name: str, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], out: Any = None) -> Any:
    """The result of function(*args, **kwargs) as device arrays, computed in the current stream."""
    arrays: list[ndarray] = []
    raw_args, key = unpack(tuple(args), arrays)
    raw_kwargs: dict[str, Any] = {}
    if kwargs:
        parts = {keyword: unpack(value, arrays) for keyword, value in kwargs.items()}
        raw_kwargs = {keyword: raw for keyword, (raw, _) in parts.items()}
        key = (key, *[(keyword, part) for keyword, (_, part) in parts.items()])
    found = infer((name, key), function, raw_args, raw_kwargs)
    if type(found) is tuple:
        results = target = new(*found) if out is None else given(out, *found)
        accesses = [access(target, True)]
    else:
        results = [new(*one) for one in found]
        accesses = [access(one, True) for one in results]
    for array in arrays:
        check_device(array)
        accesses.append(access(array, False))
    for shape in _rules.tables(name, args, kwargs, out):
        upload(new(shape, _INT64), np.zeros(shape, _INT64))
    kernels = _rules.of_call(name, args, kwargs, out) if _launches.ACTIVE else None
    current_queue().push(_store(function, raw_args, raw_kwargs, results), name, accesses, kernels)
    return results


def _store(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], results: Any
) -> Callable[[], None]:
    if type(results) is ndarray:
        raw = results._a

        def run() -> None:
            raw[...] = function(*args, **kwargs)
    else:
        raws = [one._a for one in results]

        def run() -> None:
            for one, value in zip(raws, function(*args, **kwargs), strict=True):
                one[...] = value

    return run


def given(out: ndarray, shape: tuple[int, ...], dtype: np.dtype, casting: str = "same_kind") -> ndarray:
    """The caller's `out`, after checking that a result of `shape` and `dtype` fits into it."""
    if isinstance(out, tuple) and len(out) == 1:
        out = out[0]
    if type(out) is not ndarray:
        raise TypeError(f"Output arguments type must be cupy.ndarray, not {type(out)}")
    if out.shape != shape:
        raise ValueError(f"Out shape is mismatched: expected {shape}, got {out.shape}")
    if not np.can_cast(dtype, out.dtype, casting):
        raise TypeError(f"Cannot cast array data from {dtype!r} to {out.dtype!r} according to the rule '{casting}'")
    check_device(out)
    return out


def call_now(name: str, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """As call(), for results that depend on values: waits for the arguments, computes, and stores on the device."""
    arrays: list[ndarray] = []
    raw_args, _ = unpack(tuple(args), arrays)
    raw_kwargs = {keyword: unpack(value, arrays)[0] for keyword, value in kwargs.items()}
    wait_for(name, arrays)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return to_device(name, function(*raw_args, **raw_kwargs))


def wait_for(name: str, arrays: Sequence[ndarray]) -> None:
    """Lets the host wait until the current stream may read `arrays`, and is done with what comes before."""
    if not SETTINGS.computes:
        raise NotImplementedError(f"{name} goes by values, of which there are none: the stand-in computes nothing "
                                  "(AUTOGRAD_GPU_EMU_COMPUTES=0)")
    queue = current_queue()
    queue.push(lambda: None, name, [access(array, False) for array in arrays])
    queue.synchronize()


def to_device(name: str, result: Any) -> Any:
    """Host results of call_now as new arrays that the device has just written."""
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return type(result)(*[to_device(name, part) for part in result])
    if isinstance(result, (tuple, list)):
        return type(result)([to_device(name, part) for part in result])
    if not isinstance(result, (np.ndarray, np.generic, bool)):
        return result
    value = np.asarray(result)
    array = new(value.shape, value.dtype)
    raw = array._a

    def run() -> None:
        raw[...] = value

    current_queue().push(run, name, [access(array, True)])
    return array


def change(name: str, target: ndarray, function: Callable[..., Any], args: Sequence[Any]) -> None:
    """Lets function(raw target, *raw args) write into `target` in the current stream."""
    arrays: list[ndarray] = []
    raw_args, _ = unpack(tuple(args), arrays)
    raw = target._a
    check_device(target)
    accesses = [access(target, True), *[access(array, False) for array in arrays]]
    current_queue().push(lambda: function(raw, *raw_args), name, accesses)
