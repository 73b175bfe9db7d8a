"""Updates of many parameters at once: on CUDA by one launch, on the CPU by one call of machine code.

A call of a ufunc costs the host about 10 us on CUDA and 1 us on the CPU, and an update has seven to fifteen of them per
parameter. On CUDA parameters of one dtype with the same hyperparameters are updated together (kernels/foreach.py),
on the CPU once there is machine code (formulas/native/lists.py). What neither supports, parameters that are not
contiguous or overlap, is updated one at a time (`chunks.sweep`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain, compress, repeat
from operator import is_
from typing import Any

from .. import kernels
from ..cuda import live_numbers, runtime
from ..formulas.native.switch import is_on
from ..formulas.update import Variant
from .chunks import Array, Numbers
from .code import machine_code

Columns = Sequence[Sequence[Array]]  # an array per parameter for each array of the update


def step_lists(variant: Variant, columns: Columns, numbers: Sequence[Numbers], done: list[int]) -> Sequence[int]:
    """Updates the rows of `columns` that a kernel supports, and appends them to `done` after each launch.

    Returns the other rows. In the capture of a CUDA graph `numbers` will be other ones at a replay.
    """
    rows, module = range(len(numbers)), runtime.loaded()
    if module is None or not rows:
        return rows
    stepped: set[int] = set()
    for group in _groups(columns[0], numbers, module.ndarray):
        taken = _launch(variant, columns, numbers[group[0]], group)
        done += taken
        stepped.update(taken)
    return [i for i in rows if i not in stepped] if len(stepped) < len(rows) else []


def _groups(params: Sequence[Array], numbers: Sequence[Numbers], kind: Any) -> Collection[Sequence[int]]:
    """The rows of CuPy parameters, grouped by dtype and hyperparameters."""
    if all(map(is_, numbers, repeat(numbers[0]))) and len({(type(param), param.dtype.char) for param in params}) == 1:
        return [range(len(params))] if type(params[0]) is kind else []
    groups: dict[tuple[int, str], list[int]] = {}
    for i, param in enumerate(params):
        if type(param) is kind:
            groups.setdefault((id(numbers[i]), param.dtype.char), []).append(i)
    return groups.values()


def _launch(variant: Variant, columns: Columns, numbers: Numbers, rows: Sequence[int]) -> Sequence[int]:
    """Updates `rows`, or the supported ones of them, together; returns the updated rows."""
    lists = _lists(variant, columns, rows)
    if lists is None:
        written = [column for name, column in zip(variant.arrays, columns, strict=True) if name in _written(variant)]
        fitting = [i for i in rows if kernels.fits(*[column[i] for column in written])]
        lists = _lists(variant, columns, fitting) if 0 < len(fitting) < len(rows) else None
        rows = fitting
    if lists is None:
        return []
    listed, live, skip = kernels.update_of(variant.general), live_numbers.current(), live_numbers.skip()
    at_replay = None if live is None else live.array(lambda: listed.values(**numbers), len(listed.functor.numbers))
    kernels.over(listed, lists, numbers if at_replay is None else at_replay, None if skip is None else skip.flag)
    return rows


def _written(variant: Variant) -> Collection[str]:
    return variant.general.outputs


def _lists(variant: Variant, columns: Columns, rows: Sequence[int]) -> kernels.TensorLists | None:
    """The rows as TensorLists; what is only read is copied if not contiguous."""
    picked = [[column[i] for i in rows] if len(rows) < len(column) else column for column in columns]
    kind, written, read = runtime.cupy().ndarray, [], []
    for name, column in zip(variant.arrays, picked, strict=True):
        if name in _written(variant):
            written.append(column)
        else:
            read.append([a.copy() if type(a) is kind and not runtime.c_contiguous(a) else a for a in column])
    return kernels.tensor_lists(written, read, lasting=True)


def step_natively(
    variant: Variant, columns: Columns, numbers: Sequence[Numbers], rows: Sequence[int], done: list[int]
) -> Sequence[int]:
    """Updates the rows of NumPy arrays that machine code supports, and appends them to `done` after each call.

    Returns the other ones of `rows`.
    """
    if not rows or not is_on():
        return rows
    if all(map(is_, numbers, repeat(numbers[0]))):
        return _called(variant, columns, numbers[0], rows, done)
    groups: dict[int, list[int]] = {}
    for i in rows:
        groups.setdefault(id(numbers[i]), []).append(i)
    return [i for same in groups.values() for i in _called(variant, columns, numbers[same[0]], same, done)]


def _called(
    variant: Variant, columns: Columns, numbers: Numbers, rows: Sequence[int], done: list[int]
) -> Sequence[int]:
    """Updates those of `rows`, which share `numbers`; the dtypes one after the other."""
    left = list[int]()
    while rows:
        picked = columns if len(rows) == len(columns[0]) else [[column[i] for i in rows] for column in columns]
        dtype, fitting = picked[0][0].dtype, set[int]()
        ready = machine_code(variant, numbers, picked[0])
        if ready is not None:
            kernel, values = ready.kernel, ready.values
            notes, fits = kernel.notes(len(rows)), rows
            try:
                kernel(notes, values, chain.from_iterable(picked))
                if not notes.is_done:
                    fits = [*compress(rows, (notes.sizes[:-1] >= 0).tolist())]
                    kernel.rest(notes, values)
            finally:
                if notes.is_done:
                    done += fits
            if fits is rows:
                break
            fitting.update(fits)
        left += [i for i, p in zip(rows, picked[0], strict=True) if p.dtype == dtype and i not in fitting]
        rows = [i for i, p in zip(rows, picked[0], strict=True) if p.dtype != dtype]
    return left
