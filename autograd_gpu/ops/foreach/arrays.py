"""Runs an op on lists of arrays: by kernels on CUDA, where they are suitable, otherwise element by element."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ... import backend, errors
from ...backend.arrays.dtypes import FLOATS, FULL_FLOATS, HALF, float32
from ...backend.cuda import exact
from ...backend.cuda import foreach as launches
from ...backend.formulas import expression as formulas
from ...backend.formulas.list_code import LIST as LISTED
from ...backend.formulas.list_code import NUMBER, ONE, OTHER, ListCode
from ...backend.kernels import ListFunction
from ...core.extend import REGISTRY, OpDef
from .columns import LIST, Columns, Each, elements, groups, length, parameters


def _clamp(x: Any, low: Any, high: Any) -> Any:
    raised = x if low is None else formulas.maximum(x, low)
    return raised if high is None else formulas.minimum(raised, high)


# What kernels compute where the block has no formula, or none of all numbers. There is no power with a list of
# exponents, since in double the compiler gives it a stack frame.
_ON_CUDA: dict[str, Callable[..., Any]] = {
    "clamp": _clamp, "clone": lambda x: x, "pow": lambda base, exponent: base**exponent if exponent.uniform else None,
}  # fmt: skip


def _formula(op: OpDef) -> Callable[..., Any] | None:
    """The formula of the op, as a function of inputs and attributes in their order."""
    formula, count, names = op.formula, len(op.inputs), tuple(op.attributes)
    if not callable(formula):
        return None
    return lambda *args: formula(*args[:count], **dict(zip(names, args[count:], strict=True)))


@functools.cache
def on_cuda(name: str) -> ListFunction | None:
    """What kernels run on lists for the op of this name; None if nothing."""
    formula = _ON_CUDA.get(name) or _formula(REGISTRY[name])
    return None if formula is None else ListFunction(name, formula)


class _Calls:
    """What NumPy runs for each element of a call with these columns: `calls`, or forward if that is None.

    `is_bare`: it is a ufunc of arrays alone, whose dtypes need no look.
    """

    def __init__(self, op: OpDef, columns: Columns) -> None:
        kinds = "".join([_kind(column, k < len(op.inputs)) for k, column in enumerate(columns)])
        code = _code(op, kinds)
        self.numbers = {f"a{k}": column for k, column in enumerate(columns) if kinds[k] == NUMBER}
        self.calls = None if code is None else code.chosen(self.numbers)
        self.columns = [column for kind, column in zip(kinds, columns, strict=True) if kind == LISTED]
        self.count = self.columns.count(LIST)
        alone = self.calls is not None and not self.numbers and self.count == len(self.columns)
        self.is_bare = self.calls is not None and alone and self.calls.is_bare
        self.dtypes = FLOATS if self.calls is not None and alone and self.calls.is_one else FULL_FLOATS
        self.arguments: dict[np.dtype | None, list[Any]] = {}


MOST_KNOWN = 256  # calls with other numbers
_KNOWN: dict[tuple[str, Columns], _Calls] = {}  # by the name of the op


@functools.cache
def _code(op: OpDef, kinds: str) -> ListCode | None:
    """The calls of the op's formula for arguments of these kinds; None if it has none."""
    formula = _formula(op)
    return None if formula is None or OTHER in kinds else ListCode(op.name, formula, kinds)


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
    except (TypeError, ValueError) as error:
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
    elif direct := _direct(op, arrays, columns):
        compute, args = direct
        try:
            for _ in map(compute, *args, targets):
                pass
        except TypeError as error:
            raise _explained(error, op, arrays, columns) from error
        return
    for target, result in zip(targets, _one_by_one(op, arrays, columns), strict=True):
        target[...] = result


def copy(targets: Sequence[Any], sources: Sequence[Any]) -> None:
    """Copies arrays of equal shapes."""
    done: Sequence[Any] = [None] * len(targets)
    if not on_cpu(targets):
        done = launches.computed(on_cuda("clone"), [sources], targets)
    for target, source, result in zip(targets, sources, done, strict=True):
        if result is None:
            target[...] = exact.assignable(source, target)


def launched(name: str, out: Sequence[Any], *arguments: Any) -> list[int]:
    """Writes the results of the op `name` for lists and numbers into `out`; returns the indices that have no kernel."""
    results = launches.computed(on_cuda(name), arguments, out)
    return [i for i, result in enumerate(results) if result is None]


def on_cpu(arrays: Sequence[Any]) -> bool:
    """Whether all are NumPy's, arrays or the scalars that it makes of 0-d results."""
    ndarray = np.ndarray
    others = [x for x in arrays if type(x) is not ndarray]
    return not others or all(isinstance(x, np.generic) for x in others)


def _direct(op: OpDef, arrays: Sequence[Any], columns: Columns) -> tuple[Callable[..., Any], list[Any]] | None:
    """What computes the op on NumPy arrays in fewer calls than forward: a function and its arguments, for `map`.

    The function also takes an array for the result, as the last argument.
    """
    known = _KNOWN.get((op.name, columns))
    if known is None or 0 in columns:  # -0.0 is another number, but equal
        if len(_KNOWN) >= MOST_KNOWN:
            _KNOWN.clear()
        known = _KNOWN[op.name, columns] = _Calls(op, columns)
    if known.calls is None:
        return None
    dtype = None
    if not known.is_bare:
        dtype = arrays[0].dtype
        others = {x.dtype for x in arrays if x.dtype is not dtype}
        if not others | {dtype} <= known.dtypes:
            return None
        dtype = None if others else dtype
    n = len(arrays) // known.count
    parts = iter([arrays[start : start + n] for start in range(0, len(arrays), n)])
    lists = [next(parts) if column is LIST else column for column in known.columns]
    arguments = known.arguments.get(dtype)
    if arguments is None:
        arguments = known.arguments[dtype] = known.calls.arguments(known.numbers, dtype)
    return known.calls.compute, [lists[a] if type(a) is int else a for a in arguments]


def _kind(column: Any, is_input: bool) -> str:
    """What an argument is in a ListCode."""
    if column is LIST or type(column) is Each:
        return LISTED
    return OTHER if not isinstance(column, (int, float)) else NUMBER if is_input or column != 1 else ONE


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
        for i, result in zip(rows, launches.computed(on_cuda(op.name), arguments, targets), strict=True):
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


def _explained(error: Exception, op: OpDef, arrays: Sequence[Any], columns: Columns) -> Exception:
    """A RuntimeError with PyTorch's text for the first element whose shapes do not broadcast.

    Where a ufunc refuses a dtype, the error of forward.
    """
    if isinstance(error, TypeError):
        for values in elements(columns, arrays):
            _single(op, values)
        return error
    text = str(error)
    for i, values in enumerate(elements(columns[: len(op.inputs)], arrays)):
        if reason := errors.sizes_differ([x.shape for x in values if hasattr(x, "shape")]):
            text = f"{reason} (element {i})"
            break
    return RuntimeError(f"foreach.{op.name}: {text}")
