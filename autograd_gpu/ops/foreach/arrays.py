"""Runs an op on lists of arrays: by kernels on CUDA, where they are suitable, otherwise element by element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import backend, errors
from ...backend.arrays.dtypes import FULL_FLOATS, HALF, float32
from ...backend.cuda import foreach as launches
from ...core.extend import OpDef
from .columns import LIST, Columns, Each, elements, groups, length
from .steps import Step, steps_of

# NumPy's ufuncs that compute what the forward of the op does, and can write into their operand.
_UFUNCS = {
    "abs": np.absolute, "add": np.add, "div": np.true_divide, "exp": np.exp, "log": np.log, "mul": np.multiply,
    "neg": np.negative, "reciprocal": np.reciprocal, "sqrt": np.sqrt, "sub": np.subtract,
}  # fmt: skip


def computed(op: OpDef, arrays: Sequence[Any], columns: Columns) -> list[Any]:
    """The results of the op for all elements, in new arrays."""
    if _on_cpu(arrays):
        return _each(op, arrays, columns)
    found = _launched(op, arrays, columns)
    left = [i for i, result in enumerate(found) if result is None]
    for i, result in zip(left, _each(op, arrays, columns, left), strict=True):
        found[i] = result
    return found


def write(op: OpDef, arrays: Sequence[Any], columns: Columns) -> None:
    """Writes the results into the arrays of the first list, in order."""
    targets = arrays[: length(columns, arrays)]
    if not _on_cpu(arrays):
        done = _launched(op, arrays, columns, targets)
        left = [i for i, result in enumerate(done) if result is None]
    elif _writes_by_ufunc(op, arrays, columns):
        compute, count = _UFUNCS[op.name], len(op.inputs)
        for values in elements(columns, arrays):
            compute(*values[:count], out=values[0])
        return
    else:
        left = list(range(len(targets)))
    for i in left:
        targets[i][...] = _each(op, arrays, columns, [i])[0]


def _on_cpu(arrays: Sequence[Any]) -> bool:
    return set(map(type, arrays)) <= {np.ndarray}


def _writes_by_ufunc(op: OpDef, arrays: Sequence[Any], columns: Columns) -> bool:
    """Whether a NumPy ufunc computes the op on arrays of these dtypes with these attributes: an alpha of 1."""
    attributes = columns[len(op.inputs) :]
    return op.name in _UFUNCS and FULL_FLOATS.issuperset([x.dtype for x in arrays]) and attributes in ((), (1,))


def copy(targets: Sequence[Any], sources: Sequence[Any]) -> None:
    """Copies arrays of equal shapes."""
    done = [None] * len(targets)
    if not _on_cpu(targets):
        done = launches.chained([Step("mul_scalar", 1.0)], [sources], targets)
    for target, source, result in zip(targets, sources, done, strict=True):
        if result is None:
            target[...] = source


def _launched(
    op: OpDef, arrays: Sequence[Any], columns: Columns, into: Sequence[Any] | None = None
) -> list[Any]:  # fmt: skip
    """The results that kernels have computed, in the arrays `into` or in new ones, None for the other elements."""
    n = length(columns, arrays)
    found: list[Any] = [None] * n
    for rows, given in groups(columns, n):
        steps = steps_of(op.name, given)
        if steps:
            lists = [[arrays[start + i] for i in rows] for start in range(0, len(arrays), n)]
            targets = None if into is None else [into[i] for i in rows]
            for i, result in zip(rows, launches.chained(steps, lists, targets), strict=True):
                found[i] = result
    return found


def _each(op: OpDef, arrays: Sequence[Any], columns: Columns, rows: Sequence[int] | None = None) -> list[Any]:
    """The results of forward for all elements, or for those in `rows`."""
    count, forward = len(op.inputs), op.forward
    given = list(elements(columns, arrays))
    chosen = given if rows is None else [given[i] for i in rows]
    try:
        if Each in map(type, columns[count:]) or _rounds(arrays, columns[:count]):
            return [_single(op, values) for values in chosen]
        attributes = dict(zip(op.attributes, columns[count:], strict=True))
        if _on_cpu(arrays):
            return [forward(np, *values[:count], **attributes) for values in chosen]
        return [forward(backend.namespace(*values[:count]), *values[:count], **attributes) for values in chosen]
    except ValueError as error:
        raise RuntimeError(f"foreach.{op.name}: {_explained(given, count) or error}") from error


def _rounds(arrays: Sequence[Any], inputs: Columns) -> bool:
    """Whether numbers meet half types: NumPy would round them to half first, so such elements compute in float32."""
    has_numbers = any(column is not LIST and column is not None for column in inputs)
    return has_numbers and not HALF.isdisjoint([x.dtype for x in arrays])


def _single(op: OpDef, values: tuple[Any, ...]) -> Any:
    """The result for one element; half types beside numbers compute in float32."""
    inputs, attributes = values[: len(op.inputs)], dict(zip(op.attributes, values[len(op.inputs) :], strict=True))
    half = next((x.dtype for x in inputs if getattr(x, "dtype", None) in HALF), None)
    if half is None or all(x is None or hasattr(x, "dtype") for x in inputs):
        return op.forward(backend.namespace(*inputs), *inputs, **attributes)
    wide = [x.astype(float32) if hasattr(x, "dtype") else x for x in inputs]
    return op.forward(backend.namespace(*wide), *wide, **attributes).astype(half)


def _explained(given: Sequence[tuple[Any, ...]], count: int) -> str | None:
    """PyTorch's text for the first element whose shapes do not broadcast."""
    for i, values in enumerate(given):
        if text := errors.sizes_differ([x.shape for x in values[:count] if hasattr(x, "shape")]):
            return f"{text} (element {i})"
    return None
