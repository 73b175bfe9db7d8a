"""Buckets of small parameters with contiguous optimizer state, updated by one call of the formula.

A ufunc call has the overhead of its arithmetic on 4096 elements, and a formula is seven to fifteen calls per parameter.
In a bucket parameters and gradients are gathered, the formula runs once, and the parameters are scattered back: Adam on
100 parameters of 64 by 64 takes 0.45 ms instead of 0.85 ms. State is not gathered, since each parameter's state is a
view of the bucket's. Half types are not bucketed. On CUDA, and once there is machine code, see `fused.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise, repeat
from operator import is_, itemgetter
from typing import NamedTuple

import numpy as np

from ..formulas.numpy_code import QUIET
from ..formulas.update import Variant
from .chunks import Array, Numbers, Sweep
from .code import CHUNK, SCRATCH, code_of
from .fused import Columns, step_lists, step_natively

SMALL = CHUNK // 4  # elements up to which gathering and scattering a parameter cost less than its calls


class Bucket:
    """Parameters of one dtype, at most CHUNK elements together, that are updated by one call of the formula."""

    def __init__(self, params: Sequence[np.ndarray], slots: int) -> None:
        self.shapes = [param.shape for param in params]
        self.dtype = params[0].dtype
        self.size = sum([param.size for param in params])
        self.states = tuple([np.empty(self.size, self.dtype) for _ in range(slots)])
        self.state_views = [self._views(state) for state in self.states]
        self.params: Sequence[Array] = ()  # of the last step
        self.disjoint = True  # whether no two of them share memory
        self.gathered, self.gathered_views = np.empty(0), list[np.ndarray]()  # the parameters, and views of them

    def _views(self, flat: np.ndarray) -> list[np.ndarray]:
        views, start = [], 0
        for shape in self.shapes:
            size = math.prod(shape)
            views.append(flat[start : start + size].reshape(shape))
            start += size
        return views

    def takes(self, columns: Columns) -> bool:
        """Whether `columns` are this bucket's parameters with their state views, without overlaps."""
        params, _, *states = columns
        if len(states) != len(self.states):
            return False
        for mine, theirs in zip(self.state_views, states, strict=True):
            if not all(map(is_, mine, theirs)):
                return False
        if not all(type(param) is np.ndarray and param.dtype is self.dtype for param in params):
            return False
        if len(params) != len(self.params) or not all(map(is_, params, self.params)):
            self.params, self.disjoint = params, _disjoint(params)
        return self.disjoint

    def update(self, variant: Variant, columns: Columns, numbers: Numbers) -> None:
        """Updates the parameters in `columns`, for which `takes` is true."""
        code = code_of(variant.trace(numbers), self.dtype)
        *_, param, grad = SCRATCH.like((self.size,), self.dtype, code.floats + 2)
        if param is not self.gathered:
            self.gathered, self.gathered_views = param, self._views(param)
        np.concatenate(columns[0], axis=None, out=param)
        np.concatenate(columns[1], axis=None, out=grad)
        QUIET.copy().run(code.run, (param, grad, *self.states), code.numbers(numbers))
        for array, view in zip(columns[0], self.gathered_views, strict=True):
            array[...] = view


def _disjoint(arrays: Sequence[np.ndarray]) -> bool:
    """Whether no two arrays overlap; gathered copies of overlapping parameters would miss each other's update."""
    bounds = sorted([np.lib.array_utils.byte_bounds(array) for array in arrays if array.size])
    return all(end <= begin for (_, end), (begin, _) in pairwise(bounds))


class Plan(NamedTuple):
    """The division of rows (parameters) into buckets, and rows updated alone."""

    rows: int
    buckets: list[tuple[Bucket, itemgetter, list[int]]]  # bucket, getter of its rows from a column, its rows
    alone: list[int]


class Buckets:
    """The buckets of one optimizer."""

    def __init__(self) -> None:
        self._by_state: dict[int, Bucket] = {}  # by the ids of the views of the first state, which the bucket holds
        self._plan = Plan(0, [], [])  # of the last call
        self.natively = False  # whether the last call was machine code alone

    def pack(self, params: Sequence[Array], states: Sequence[tuple[Array, ...]]) -> list[tuple[Array, ...]]:
        """Copies the states of small parameters into buckets.

        Returns `states`, one tuple per parameter, with views of the buckets in place of the copied arrays.
        """
        result, made = list(states), {}
        for run in _runs(params):
            if len(run) < 2 or not states[run[0]]:
                continue
            bucket = Bucket([params[i] for i in run], len(states[run[0]]))
            for position, i in enumerate(run):
                result[i] = tuple([views[position] for views in bucket.state_views])
                for view, value in zip(result[i], states[i], strict=True):
                    view[...] = value
                made[id(result[i][0])] = bucket
        self._by_state.update(made)
        return result

    def forget(self, states: Sequence[Array]) -> None:
        """Drops the buckets of `states`, arrays that are no longer in use and may be results of `pack`."""
        for array in states:
            self._by_state.pop(id(array), None)

    def update(
        self, variant: Variant, columns: Columns, numbers: Sequence[Numbers], done: list[int], together: bool = True
    ) -> None:
        """Updates rows of `columns`, which are parameters, gradients and states, by lists and buckets if possible.

        `numbers` holds the hyperparameters of each row; buckets are used if all rows share them. CUDA arrays are
        updated one by one unless `together`. Appends the updated rows to `done`, those of a bucket or a list after its
        update: an interrupt before that leaves them partially updated.
        """
        alone = step_lists(variant, columns, numbers, done) if together else range(len(numbers))
        before = len(alone)
        alone = step_natively(variant, columns, numbers, alone, done)
        self.natively = before == len(numbers) and not alone
        listed = set(done)
        if alone and len(columns) > 2 and self._by_state and all(map(is_, numbers, repeat(numbers[0]))):
            plan, picked = self._plan, self._picked(self._plan, columns)
            if picked is None:
                plan = self._plan = self._planned(columns)
                picked = self._picked(plan, columns) or []
            for (bucket, _, rows), theirs in zip(plan.buckets, picked, strict=True):
                if listed.isdisjoint(rows):
                    bucket.update(variant, theirs, numbers[0])
                    done += rows
            listed = set(done)
            alone = [i for i in alone if i not in listed]
        if alone:
            QUIET.copy().run(_swept, variant, columns, numbers, alone, done)

    def _picked(self, plan: Plan, columns: Columns) -> list[list[tuple]] | None:
        """The columns of each bucket of `plan`; None if the plan does not match `columns`."""
        if plan.rows != len(columns[0]):
            return None
        picked = [[pick(column) for column in columns] for _, pick, _ in plan.buckets]
        takes = [bucket.takes(theirs) for (bucket, _, _), theirs in zip(plan.buckets, picked, strict=True)]
        return picked if all(takes) else None

    def _planned(self, columns: Columns) -> Plan:
        members: dict[Bucket, list[int]] = {}
        for i, state in enumerate(columns[2]):
            if bucket := self._by_state.get(id(state)):
                members.setdefault(bucket, []).append(i)
        whole = []
        for bucket, rows in members.items():
            pick = itemgetter(*rows)
            if len(rows) == len(bucket.shapes) and bucket.takes([pick(column) for column in columns]):
                whole.append((bucket, pick, rows))
        taken = {i for _, _, rows in whole for i in rows}
        return Plan(len(columns[0]), whole, [i for i in range(len(columns[0])) if i not in taken])


def _swept(
    variant: Variant, columns: Columns, numbers: Sequence[Numbers], rows: Sequence[int], done: list[int]
) -> None:  # fmt: skip
    """Updates the rows, one after the other, and appends each to `done`."""
    sweeps: dict[int, Sweep] = {}  # by the numbers, which parameters share
    for i in rows:
        sweep = sweeps.get(id(numbers[i])) or sweeps.setdefault(id(numbers[i]), Sweep(variant, numbers[i]))
        sweep.run([column[i] for column in columns])
        done.append(i)


def _runs(params: Sequence[Array]) -> list[list[int]]:
    """Indices of parameters that can share a bucket, in order."""
    runs: list[list[int]] = []
    filling: dict[str, tuple[list[int], int]] = {}
    for i, param in enumerate(params):
        if type(param) is not np.ndarray or param.dtype.char not in "fd" or param.size > SMALL:
            continue
        run, size = filling.get(param.dtype.char, ([], CHUNK))
        if size + param.size > CHUNK:
            run, size = [], 0
            runs.append(run)
        run.append(i)
        filling[param.dtype.char] = run, size + param.size
    return runs
