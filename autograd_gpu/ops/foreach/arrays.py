"""Runs an op on lists of arrays: by kernels on CUDA, where they are suitable, otherwise element by element."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from typing import Any

import numpy as np

from ... import backend, errors
from ...backend.arrays.dtypes import FULL_FLOATS, HALF, float32
from ...backend.cuda import exact
from ...backend.cuda import foreach as launches
from ...core.extend import OpDef
from .columns import LIST, Columns, Each, elements, groups, length, parameters

# NumPy's ufuncs that compute what the forward of the op does, on arrays of any dtype, if its alpha is 1.
_UFUNCS = {
    "abs": np.absolute, "add": np.add, "div": np.true_divide, "exp": np.exp, "log": np.log, "mul": np.multiply,
    "reciprocal": np.reciprocal, "sqrt": np.sqrt,
}  # fmt: skip

# What computes the op on NumPy arrays of full floats in fewer calls than forward: of inputs, attributes, and an array
# for the result.
_COMPUTES: dict[str, Callable[..., Any]] = {
    "add": lambda a, b, alpha, out=None: np.add(a, b * alpha, out),
    "addcdiv": lambda x, a, b, value, out=None: np.add(x, a / b * value, out),
    "addcmul": lambda x, a, b, value, out=None: np.add(x, a * b * value, out),
    "lerp": lambda a, b, weight, out=None: np.add(a, (b - a) * weight, out),  # for a weight below 0.5
    "neg": np.negative,
    "sub": lambda a, b, alpha, out=None: np.subtract(a, b * alpha, out),
}


def computed(op: OpDef, arrays: Sequence[Any], columns: Columns) -> list[Any]:
    """The results of the op for all elements, in new arrays."""
    in_numpy = on_cpu(arrays)
    results = [] if in_numpy else _launched(op, arrays, columns)
    left = [i for i, result in enumerate(results) if result is None]
    try:
        if in_numpy:
            return list(_one_by_one(op, arrays, columns, in_numpy))
        for i, result in zip(left, _one_by_one(op, *_chosen(arrays, columns, left)), strict=True):
            results[i] = result
    except ValueError as error:
        raise _explained(error, op, arrays, columns) from error
    return results


def write(op: OpDef, arrays: Sequence[Any], columns: Columns) -> None:
    """Writes the results into the arrays of the first list, in order."""
    targets = arrays[: length(columns, arrays)]
    if not on_cpu(arrays):
        done = _launched(op, arrays, columns, targets)
        left = [i for i, result in enumerate(done) if result is None]
        targets = [targets[i] for i in left]
        arrays, columns = _chosen(arrays, columns, left)
    elif direct := _direct(op, arrays, columns, writes=True):
        compute, args = direct
        for _ in map(compute, *args, targets):
            pass
        return
    for target, result in zip(targets, _one_by_one(op, arrays, columns), strict=True):
        target[...] = result


def copy(targets: Sequence[Any], sources: Sequence[Any]) -> None:
    """Copies arrays of equal shapes."""
    done: Sequence[Any] = [None] * len(targets)
    if not on_cpu(targets):
        done = launches.computed("clone", [sources], targets)
    for target, source, result in zip(targets, sources, done, strict=True):
        if result is None:
            target[...] = exact.assignable(source, target)


def on_cpu(arrays: Sequence[Any]) -> bool:
    """Whether all are NumPy's, arrays or the scalars that it makes of 0-d results."""
    ndarray = np.ndarray
    others = [x for x in arrays if type(x) is not ndarray]
    return not others or all(isinstance(x, np.generic) for x in others)


def _direct(
    op: OpDef, arrays: Sequence[Any], columns: Columns, writes: bool = False
) -> tuple[Callable[..., Any], list[Any]] | None:  # fmt: skip
    """What computes the op on NumPy arrays instead of its forward: a function and its arguments, for `map`.

    With `writes` the function also takes, as the last argument, the array for the result.
    """
    name, count = op.name, len(op.inputs)
    by_ufunc = name in _UFUNCS and columns[count:] in ((), (1,))
    used = columns[:count] if by_ufunc else columns
    if by_ufunc and not writes and used.count(LIST) == count:
        return _UFUNCS[name], parameters(used, arrays)
    if not (by_ufunc or name in _COMPUTES) or not (dtypes := {x.dtype for x in arrays}) <= FULL_FLOATS:
        return None
    if name == "lerp" and not (isinstance(columns[2], (int, float)) and abs(columns[2]) < 0.5):
        return None
    args = parameters(used, arrays)
    for k, column in enumerate(used):
        if isinstance(column, (int, float)) and len(dtypes) == 1:
            args[k] = repeat(np.array(column, arrays[0].dtype))  # NumPy would convert the number in every call
    return (_UFUNCS if by_ufunc else _COMPUTES)[name], args


def _launched(
    op: OpDef, arrays: Sequence[Any], columns: Columns, into: Sequence[Any] | None = None
) -> list[Any]:  # fmt: skip
    """The results that kernels have computed, in the arrays `into` or in new ones, None for the other elements."""
    n = length(columns, arrays)
    results: list[Any] = [None] * n
    for rows, values in groups(columns, n):
        lists = iter([[arrays[start + i] for i in rows] for start in range(0, len(arrays), n)])
        arguments = [next(lists) if value is LIST else value for value in values]
        targets = None if into is None else [into[i] for i in rows]
        for i, result in zip(rows, launches.computed(op.name, arguments, targets), strict=True):
            results[i] = result
    return results


def _chosen(arrays: Sequence[Any], columns: Columns, rows: Sequence[int]) -> tuple[list[Any], Columns]:
    """The elements `rows` of a call."""
    n = length(columns, arrays)
    chosen = tuple([Each([column[i] for i in rows]) if type(column) is Each else column for column in columns])
    return [arrays[start + i] for start in range(0, len(arrays), n) for i in rows], chosen


def _one_by_one(op: OpDef, arrays: Sequence[Any], columns: Columns, in_numpy: bool = False) -> Iterator[Any]:
    """Computes the results of forward, one after the other; in_numpy: the arrays are known to be NumPy's."""
    if not arrays:
        return iter(())
    count = len(op.inputs)
    inputs, attributes = columns[:count], columns[count:]
    in_numpy = in_numpy or on_cpu(arrays)
    if _rounds(arrays, inputs):
        return map(functools.partial(_single, op), elements(columns, arrays))
    if in_numpy and (direct := _direct(op, arrays, columns)):
        return map(direct[0], *direct[1])
    if Each in map(type, attributes):
        return map(functools.partial(_single, op), elements(columns, arrays))
    named = dict(zip(op.attributes, attributes, strict=True))
    if in_numpy:
        return map(functools.partial(op.forward, np, **named), *parameters(inputs, arrays))
    return (op.compute(backend.namespace(*values), *values, **named) for values in elements(inputs, arrays))


def _rounds(arrays: Sequence[Any], inputs: Columns) -> bool:
    """Whether numbers meet half types: NumPy would round them to half first, so such elements compute in float32."""
    has_numbers = inputs.count(LIST) + inputs.count(None) < len(inputs)
    return has_numbers and not HALF.isdisjoint([x.dtype for x in arrays])


def _single(op: OpDef, values: tuple[Any, ...]) -> Any:
    """The result for one element; half types beside numbers compute in float32."""
    inputs, attributes = values[: len(op.inputs)], dict(zip(op.attributes, values[len(op.inputs) :], strict=True))
    half = next((x.dtype for x in inputs if getattr(x, "dtype", None) in HALF), None)
    if half is None or all(x is None or hasattr(x, "dtype") for x in inputs):
        return op.compute(backend.namespace(*inputs), *inputs, **attributes)
    wide = [x.astype(float32) if hasattr(x, "dtype") else x for x in inputs]
    return op.compute(backend.namespace(*wide), *wide, **attributes).astype(half)


def _explained(error: ValueError, op: OpDef, arrays: Sequence[Any], columns: Columns) -> RuntimeError:
    """A RuntimeError with PyTorch's text for the first element whose shapes do not broadcast."""
    text = str(error)
    for i, values in enumerate(elements(columns[: len(op.inputs)], arrays)):
        if reason := errors.sizes_differ([x.shape for x in values if hasattr(x, "shape")]):
            text = f"{reason} (element {i})"
            break
    return RuntimeError(f"foreach.{op.name}: {text}")
