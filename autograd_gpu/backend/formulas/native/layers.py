"""Layers of second derivatives as native code by blocks of rows: one call on each core goes through all of them.

A row behind a layer depends on the same row before it. So a block of rows, which fits into the cache of a core, goes
through all layers before the next one begins. The bits are those of the same layers one after the other; products are
tried with random numbers before they join. eager_layers.py runs layers that eager code has put off; compiled programs
have runs of their own (compilation/row_runs.py).
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ... import counters
from ...cpu import rows
from ...cpu.blas import on_one_thread
from ...cpu.matmul import matmul
from . import loops, packed, runs
from .loops import Listed, New, Unfit, loop_of, strides_of
from .runs import Operand, Place

BLOCK_BYTES = 1 << 19  # of what a layer reads and writes in a block of rows: half of a core's L2 cache
# OpenBLAS' AVX-512 kernels pack the weight in products of more multiply-adds. Blocks of fewer rows avoid that; if they
# cannot, packing for each block takes longer than the cache saves.
SMALL_PRODUCT, SMALL_WEIGHT = 10**6, 1 << 12
SHARED_BYTES = 1 << 22  # of what all layers read and write, from which on cores share them: 0.1 ms
TASKS_PER_CORE = 2  # where a core is taken, the others work on its share
GRAIN = 12  # rows: a multiple of what BLAS' kernels compute at once
LEAST_TRIED, MOST_TRIALS = 1 << 10, 64  # numbers of the smallest block that are compared, in so many trials at most
Steps = Sequence[Sequence[int]]
Window = tuple[int, int]  # rows of a block: the first, and the one behind the last


class Rows(NamedTuple):
    """A matrix (height, h), a stack of them (S, height, h), or a row (h,): where it is, and its shape and strides."""

    place: Place
    array: np.ndarray

    def of(self, window: Window, height: int, s: int = 0) -> Listed:
        """The rows of a window, of matrix s of a stack."""
        array, offset = self.array, 0
        if array.ndim == 3:
            array, offset = array[s], s * array.strides[0]
        strides = strides_of(array, (height, array.shape[-1] if array.ndim else 1))
        place = Place(self.place.number, self.place.offset + offset + window[0] * strides[0])
        return place, strides, array.itemsize

    def all(self, window: Window, height: int) -> list[Listed]:
        """The rows of a window, of each matrix of a stack."""
        return [self.of(window, height, s) for s in range(len(self.array))]

    def shape_of(self, window: Window) -> tuple[int, int]:
        """The shape of the rows of a window."""
        return window[1] - window[0], self.array.shape[-1]


class Packed(NamedTuple):
    """A weight (k, h) that was packed: where, an array of its shape, and the parts of k in products."""

    place: Place
    array: np.ndarray
    ends: packed.Ends


def packed_weight(weight: Rows, ends: packed.Ends, new: New) -> tuple[list[int], Packed]:
    """The step that packs a weight (k, h), and where it is then."""
    array = weight.array
    at = Packed(new(packed.elements(array), array.dtype), array, ends)
    return packed.packing(array, weight.place, at.place), at


class Layer(NamedTuple):
    """A stream through a product and an activation; `kernel` computes `after` from `saved` and `before`.

    a is None where the product is there already. The other parts but the kernel are arrays, or `Rows` of a run, where b
    may be `Packed`.
    """

    kernel: Any
    numbers: tuple[Any, ...]  # of the kernel
    a: Any  # (S, height, k)
    b: Any  # (k, h), or None as a
    before: Any  # a @ b
    saved: Any  # (height, h)
    bias: Any  # (h,), or None
    after: Any  # (S + groups, height, h)

    def fits(self, step: int, windows: Sequence[Window], is_packed: bool) -> bool:
        """Whether its arrays have steps, with the bits of blocks of `step` rows."""
        return _fits(self, step, windows, is_packed)

    def row_bytes(self) -> int:
        return row_bytes(len(self.saved), self.saved, self.before, self.after)

    def steps(self, window: Window, height: int, new: New) -> list[list[int]]:
        """The steps of a block, where the arrays are `Rows`."""
        steps, at = _begun(self, window, height, new)
        operands = [at, *self.before.all(window, height), *_numbers(self), *self.after.all(window, height)]
        return steps + loops.over(self.kernel.native.loop, operands, self.saved.shape_of(window), new)


class Terms(NamedTuple):
    """Adjoints through a product and the activation before it, and their part of a Hessian.

    `kernel` computes `left` and terms (rows, h) for each o and i <= j from `saved`, `before` and `tangents`; `out` has
    the products of these with `ones`.
    """

    kernel: Any
    numbers: tuple[Any, ...]
    a: Any  # (o, height, k)
    b: Any  # (k, h), or None as a
    before: Any  # a @ b
    saved: Any  # (height, h)
    bias: Any  # (h,), or None
    tangents: Any  # (d, height, h)
    ones: Any  # (h,)
    left: Any  # (o, height, h)
    out: Any  # (height, o, d, d)

    def fits(self, step: int, windows: Sequence[Window], is_packed: bool) -> bool:
        """Whether its arrays have steps, with the bits of blocks of `step` rows."""
        h, dtype = len(self.ones), self.ones.dtype
        fits = _fits(self, step, windows, is_packed)
        return fits and sums_are_equal(len(self.saved), h, step, tuple(windows), dtype)

    def row_bytes(self) -> int:
        return row_bytes(len(self.saved), self.saved, self.before, self.tangents, self.left, self.out)

    def steps(self, window: Window, height: int, new: New) -> list[list[int]]:
        """The steps of a block, where the arrays are `Rows`."""
        steps, at = _begun(self, window, height, new)
        shape, size, dtype = self.saved.shape_of(window), self.saved.array.itemsize, self.saved.array.dtype
        _, o, d, _ = self.out.array.shape
        pairs = [(k, i, j) for k in range(o) for i in range(d) for j in range(i, d)]
        terms = [(new(math.prod(shape), dtype), loops.dense(shape, size), size) for _ in pairs]
        operands = [at, *self.before.all(window, height), *self.tangents.all(window, height), *_numbers(self),
                    *self.left.all(window, height), *terms]  # fmt: skip
        steps += loops.over(self.kernel.native.loop, operands, shape, new)
        sums, copy = new(shape[0], dtype), loop_of("positive", dtype)
        for (k, i, j), (term, *_) in zip(pairs, terms, strict=True):
            steps += [runs.row_products(shape, dtype, term, self.ones.place, sums)]
            for p, q in {(i, j), (j, i)}:
                place = Place(self.out.place.number, ((window[0] * o + k) * d + p) * d * size + q * size)
                steps += loops.strided(copy, [(sums, (size,)), (place, (o * d * d * size,))], shape[:1])
        return steps


class Linear(NamedTuple):
    """A stream through a product."""

    kernel: None
    numbers: tuple[Any, ...]  # none
    a: Any  # (S, height, k)
    b: Any  # (k, h)
    before: Any  # a @ b

    def fits(self, step: int, windows: Sequence[Window], is_packed: bool) -> bool:
        """Whether its arrays have steps, with the bits of blocks of `step` rows."""
        return _fits(self, step, windows, is_packed)

    def row_bytes(self) -> int:
        return row_bytes(self.a.shape[1], self.a, self.before)

    def steps(self, window: Window, height: int, new: New) -> list[list[int]]:
        """The steps of a block, where the arrays are `Rows`."""
        return _products(self, window, height)


Part = Layer | Terms | Linear


def _begun(part: Layer | Terms, window: Window, height: int, new: New) -> tuple[list[list[int]], Listed]:
    """The steps for the product and for what the kernel reads in place of `saved`, and where that is."""
    added, at = shifted(part.saved, part.bias, window, height, new)
    return _products(part, window, height) + added, at


def shifted(
    saved: Rows, bias: Rows | None, window: Window, height: int, new: New
) -> tuple[list[list[int]], Listed]:
    """The steps for the sum of a matrix and a row, which may be missing, and where that is."""
    at, dtype, shape = saved.of(window, height), saved.array.dtype, saved.shape_of(window)
    if bias is None:
        return [], at
    total = new(math.prod(shape), dtype), loops.dense(shape, dtype.itemsize), dtype.itemsize
    return loops.over(loop_of("add", dtype), [at, bias.of(window, height), total], shape, new), total


def _products(part: Part, window: Window, height: int) -> list[list[int]]:
    return products(window, height, part.a, part.b, part.before) if part.a else []


def _numbers(part: Layer | Terms) -> list[Listed]:
    return [(number, (0, 0), part.saved.array.itemsize) for number in part.numbers]


def _fits(part: Part, step: int, windows: Sequence[Window], is_packed: bool) -> bool:
    if part.a is None or is_packed:  # whose bits do not depend on windows
        return True
    (k, h), turned = part.b.shape, part.b.flags.c_contiguous
    return are_equal(part.before.shape[1], k, h, turned, step, tuple(windows), part.b.dtype)


def ends_of_part(part: Part, step: int) -> packed.Ends | None:
    """The parts of k in the product of a layer of arrays with its weight packed; None if that has other bits."""
    if part.a is None:
        return None
    (k, h), turned = part.b.shape, part.b.flags.c_contiguous
    return packed_ends(part.before.shape[1], k, h, turned, step, part.b.dtype)


def row_bytes(height: int, *arrays: np.ndarray) -> int:
    """The bytes of a row of matrices, or of stacks of them, of so many rows."""
    return sum([x.itemsize * math.prod(x.shape) for x in arrays]) // height


def products(window: Window, height: int, a: Rows, b: Rows | Packed, out: Rows) -> list[list[int]]:
    """The steps for the rows of a window of a @ b, of each matrix of a stack."""
    return [_product(window, height, a, b, out, s) for s in range(len(out.array) if out.array.ndim == 3 else 1)]


def _product(window: Window, height: int, a: Rows, b: Rows | Packed, out: Rows, s: int) -> list[int]:
    (left, (row, column), size), (target, (line, _), _) = a.of(window, height, s), out.of(window, height, s)
    if isinstance(b, Packed):
        if column != size:
            raise Unfit
        count, n = out.shape_of(window)
        return packed.product(count, n, Operand(left, 0, row), b.place, Operand(target, 0, line), b.ends, b.array.dtype)
    matrix = a.array[s] if a.array.ndim == 3 else a.array
    step = runs.gemm(matrix[slice(*window)], b.array, [left, b.place, target])
    if step is None:
        raise Unfit
    return step


def tasks(height: int, nbytes: int, weight: int, shared: bool) -> list[list[Window]]:
    """For each task, of which a core does one at a time, its blocks of rows.

    nbytes: of a row of the largest layer; weight: the elements of the largest weight that is not packed, or 0.
    """
    share = _whole(-(-height // (rows.cores() * TASKS_PER_CORE))) if shared else height
    count = math.ceil(share * max(nbytes / BLOCK_BYTES, weight / SMALL_PRODUCT)) if weight <= SMALL_WEIGHT else 1
    step = _whole(-(-share // count))
    ends = [min(start + share, height) for start in range(0, height, share)]
    return [[(i, min(i + step, end)) for i in range(start, end, step)]
            for start, end in zip([0, *ends[:-1]], ends, strict=True)]


def _whole(count: int) -> int:
    return -(-count // GRAIN) * GRAIN


def by_tasks(first: Steps, tasks: Sequence[Steps]) -> Callable[..., None]:
    """A function of arrays that runs the steps `first`, and then those of tasks, on all cores."""
    if len(tasks) == 1:
        tasks, first = [[*first, *tasks[0]]], []
    begin, functions = runs.function_of(first) if first else None, [*map(runs.function_of, tasks)]

    def run(*arguments: Any) -> None:
        def work(i: int, j: int) -> None:
            for function in functions[i:j]:
                function(*arguments)

        if begin is not None:
            begin(*arguments)
        on_one_thread(rows.in_blocks, len(functions), 1, work)

    return run


@functools.lru_cache(1024)
def are_equal(
    height: int, k: int, h: int, turned: bool, step: int, windows: tuple[Window, ...], dtype: np.dtype,
    sharing: tuple[int, bool] | None = None, is_view: bool = True,
) -> bool:  # fmt: skip
    """Whether products of windows have the bits of those of blocks of `step` rows; of `matmul` of all rows if 0.

    `turned`: whether b (k, h) is row-major; else it is the transposed view of a weight, as `is_view` says of what
    `matmul` gets. sharing: what that depends on now, so that no answer is given that was true before.
    """
    gemms = [runs.gemm(np.empty((j - i, k), dtype), _transposed(np.empty((h, k), dtype), turned),
                       (Place(0), Place(1), Place(2))) for i, j in windows]  # fmt: skip
    steps = [gemm for gemm in gemms if gemm is not None]
    if len(steps) < len(gemms):
        return False
    for x, w, b, expected in _tried(height, k, h, turned, step, windows, dtype, is_view):
        out = np.empty((height, h), dtype)
        for (i, j), gemm in zip(windows, steps, strict=True):
            on_one_thread(runs.function_of([gemm]), runs.places(), x[i:j], b if turned else w, out[i:j])
        if not np.array_equal(out, expected):
            return False
    return True


@functools.lru_cache(1024)
def packed_ends(
    height: int, k: int, h: int, turned: bool, step: int, dtype: np.dtype, sharing: tuple[int, bool] | None = None,
    is_view: bool = True,
) -> packed.Ends | None:  # fmt: skip
    """The parts of k with which products with b packed have the bits of those above; None if there are none.

    Their bits do not depend on windows.
    """
    ends = packed.ends_of_weight(height, k, h, dtype)
    if ends is None:
        return None
    trials = _tried(height, k, h, turned, step, (), dtype, is_view)
    return ends if all(np.array_equal(packed.computed(x, b, ends), expected) for x, _, b, expected in trials) else None


def _tried(
    height: int, k: int, h: int, turned: bool, step: int, windows: Sequence[Window], dtype: np.dtype, is_view: bool
) -> Iterator[tuple[np.ndarray, ...]]:  # fmt: skip
    """Random x (height, k), weights (h, k), b (k, h) and x @ b as eager code computes it."""
    for seed in range(_trials(height, h, step, windows)):
        rng = np.random.default_rng(seed)
        x, w = (rng.standard_normal(shape).astype(dtype) for shape in ((height, k), (h, k)))
        b = _transposed(w, turned)
        if step:
            expected = np.concatenate([on_one_thread(np.matmul, x[i : i + step], b) for i in range(0, height, step)])
        else:
            with counters.unheard():
                expected = matmul(x, w.T if is_view else b)
        yield x, w, b, expected


def _transposed(w: np.ndarray, turned: bool) -> np.ndarray:
    return np.ascontiguousarray(w.T) if turned else w.T


@functools.lru_cache(1024)
def sums_are_equal(height: int, h: int, step: int, windows: tuple[Window, ...], dtype: np.dtype) -> bool:
    """Whether sums of rows by products with ones have, by windows, the bits of blocks of `step` rows."""
    ones, places = np.ones(h, dtype), (Place(0), Place(1), Place(2))
    for seed in range(_trials(height, 1, step, windows)):
        x, out = np.random.default_rng(seed).standard_normal((height, h)).astype(dtype), np.empty(height, dtype)
        expected = np.concatenate([on_one_thread(np.dot, x[i : i + step], ones) for i in range(0, height, step)])
        for i, j in windows:
            gemv = runs.row_products((j - i, h), dtype, *places)
            on_one_thread(runs.function_of([gemv]), runs.places(), x[i:j], ones, out[i:j])
        if not np.array_equal(out, expected):
            return False
    return True


def _trials(height: int, width: int, step: int, windows: Sequence[Window]) -> int:
    """How often to compare, so that enough numbers of the smallest block are compared: few are equal by chance."""
    rest = height % step if step else 0
    smallest = min([rest or height, *[j - i for i, j in windows]])
    return min(-(-LEAST_TRIED // (smallest * width)), MOST_TRIALS)


class Scratch:
    """Memory of tasks, each of whose blocks and layers uses it anew; `first` is the number of its first place."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.known: dict[Any, Place] = {}  # by task, number, elements and dtype

    def of(self, task: int) -> New:
        """What makes the memory of a layer of a block."""
        numbers = itertools.count()

        def new(elements: int, dtype: np.dtype) -> Place:
            place = Place(self.first + len(self.known))
            return self.known.setdefault((task, next(numbers), elements, dtype), place)

        return new

    def arrays(self) -> list[np.ndarray]:
        """The memory of a call."""
        return [np.empty(elements, dtype) for *_, elements, dtype in self.known]
