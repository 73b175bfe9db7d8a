"""group_sums.cu with the functor of a group, emulated: shapes, orders, parts, in place, special values; references."""

from types import SimpleNamespace

import emulated
import formula_functors as functors
import kernel_references as references
import numpy as np
import pytest
from emulated import ORDERS, Placed, assert_close, assert_same, quarters, unset

from autograd_gpu.backend import kernels
from autograd_gpu.backend.kernels.group import packed_arrays

functors.declare()
pytestmark = [pytest.mark.cpu, pytest.mark.filterwarnings("ignore::RuntimeWarning")]
CLOSE = {"float64": 1e-13, "float32": 4e-6, "float16": 2e-3, "bfloat16": 1.6e-2}
SHAPES = [(1, 1), (1, 8), (37, 24), (40, 45), (300, 3), (3, 520), (4300, 8)]  # the last one in several parts


def on_device(array):
    """An array with what `packed_arrays` asks of CuPy's."""
    return SimpleNamespace(data=SimpleNamespace(ptr=array.ctypes.data), shape=array.shape, strides=array.strides,
                           itemsize=array.itemsize)  # fmt: skip


def operands(shape, dtype):
    """Two dense arrays, a row, a column, and one of one element."""
    whole = [quarters(shape, dtype) for _ in range(2)]
    return [*whole, quarters(shape[1:], dtype), quarters((shape[0], 1), dtype), quarters((1,), dtype)]


def run(arrays, along="columns", offset=0, in_place=False, divisor=1, parts=None, op="sum", **how):
    """What backend/kernels/group_sums.py launches: two results and two sums, or maxima or minima."""
    functor, x = functors.group_sums(), arrays[0]
    (rows, cols), wide = x.shape, kernels.wide(x.dtype)
    placed = [Placed(a, offset) for a in arrays]
    written = placed[:2] if in_place else [unset(x.shape, x.dtype, offset) for _ in range(2)]
    sums = [unset({"columns": (cols,), "rows": (rows,), "all": ()}[along], x.dtype) for _ in range(2)]
    width = emulated.width_of(x.reshape(-1) if along == "all" else x, offset)
    packed = packed_arrays(functor, *([on_device(p.array) for p in several] for several in (placed, [*written, *sums])),
                           x.shape)  # fmt: skip
    name = kernels.declare_group_sums(functor, x.dtype, width, along, op)
    if along != "columns":
        tiles = kernels.row_tiles(rows, cols, width, x.itemsize, stages=1)
        tiles, size = (tiles, (rows, cols)) if along == "rows" else (((1, 1), (kernels.THREADS, 1)), (x.size,))
        emulated.launch(name, tiles, packed, divisor, *size, **how)
        return [out.result() for out in (*written, *sums)]
    (across, usual), block = kernels.sum_tiles(rows, cols, width, x.itemsize, 2 if op == "sum" else 1)
    parts = parts or usual
    partials = unset((2, parts, cols), wide) if parts > 1 else None
    emulated.launch(name, ((across, parts), block), packed, partials, rows, cols, **how)
    made = [out.result() for out in written]
    return made + ([*partials.result().sum(1).astype(x.dtype)] if parts > 1 else [out.result() for out in sums])


def expected(arrays, along="columns", divisor=1, op="sum"):
    first, second, third = references.group(*[a.astype(kernels.wide(a.dtype)) for a in arrays])
    axis = {"columns": 0, "rows": 1, "all": None}[along]
    reduce = {"sum": np.sum, "amax": np.max, "amin": np.min}[op]
    sums = [np.asarray(reduce(r, axis) / divisor) for r in (third, second)]
    return [r.astype(arrays[0].dtype) for r in (first, second, *sums)], max(len(first) ** 0.5, 1)


def compare(made, arrays, **options):
    wanted, terms = expected(arrays, **options)
    tolerance = CLOSE[str(arrays[0].dtype)]
    for one, other in zip(made, wanted, strict=True):
        assert_close(one, other, tolerance * 10, tolerance * 10 * terms)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sums(dtype, shape, offset, order):
    arrays = operands(shape, dtype)
    for along, divisor in (("columns", 1), ("rows", shape[1]), ("all", arrays[0].size)):
        compare(run(arrays, along, offset, divisor=divisor, order=order), arrays, along=along, divisor=divisor)


@pytest.mark.parametrize("along", ["columns", "rows", "all"])
def test_orders_and_places_give_the_same_bits(dtype, along):
    arrays = operands((300, 24), dtype)
    first = run(arrays, along)
    for how in (*({"order": order} for order in ORDERS[1:]), {"in_place": True}):
        for one, other in zip(run(arrays, along, **how), first, strict=True):
            assert_same(one, other)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("op", ["amax", "amin"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_extremes(dtype, shape, op, order):
    """Exactly those of the results that are written: a rounded maximum is the maximum of what is rounded."""
    for along, axis in (("columns", 0), ("rows", 1), ("all", None)):
        for offset in (0, 1):
            arrays = operands(shape, dtype)
            made = run(arrays, along, offset, op=op, order=order)
            reduce = np.max if op == "amax" else np.min
            assert_same(made[3], np.asarray(reduce(made[1].astype(kernels.wide(dtype)), axis)).astype(dtype))
            compare(made, arrays, along=along, op=op)


@pytest.mark.parametrize("op", ["amax", "amin"])
@pytest.mark.parametrize("along", ["columns", "rows", "all"])
def test_extremes_of_special_values(along, op):
    """NaN is the maximum, and the minimum, wherever it is; infinities; all elements of one sign."""
    for number in np.float32([np.nan, np.inf, -np.inf, -3.0, 90.0]):
        for place in ((0, 0), (5, 7), (2, 3)):
            arrays = operands((6, 8), np.dtype("float32"))
            arrays[1][place] = number
            compare(run(arrays, along, op=op), arrays, along=along, op=op)


@pytest.mark.parametrize("parts", [2, 3])
def test_parts(dtype, parts):
    """Also with parts that have no row of their own."""
    for rows in (1, 70):
        arrays = operands((rows, 24), dtype)
        compare(run(arrays, parts=parts), arrays)


def test_no_race():
    for along in ("columns", "rows", "all"):
        for shape in ((37, 24), (40, 45), (3, 520)):
            for op in ("sum", "amax"):
                run(operands(shape, np.dtype("float32")), along, in_place=True, op=op, check="races")
    run(operands((70, 24), np.dtype("float32")), parts=3, check="races")


def test_special_values():
    values = np.float32([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -3.0, 90.0])
    for number in values:
        arrays = operands((6, 8), np.dtype("float32"))
        arrays[0][2, 3] = arrays[1][1, 2] = arrays[3][4, 0] = number
        compare(run(arrays), arrays)


def test_every_array_is_moved_once():
    """The difference of two launches of one grid leaves out what a thread reads once, and the sums."""
    functor, moved = functors.group_sums(), []
    name = kernels.declare_group_sums(functor, np.dtype("float32"), 4, "columns")
    for rows in (64, 128):
        arrays = [Placed(a) for a in operands((rows, 64), np.dtype("float32"))]
        outs = [*(unset((rows, 64), np.float32) for _ in range(2)), *(unset((64,), np.float32) for _ in range(2))]
        there = [[on_device(p.array) for p in several] for several in (arrays, outs)]
        packed = packed_arrays(functor, *there, (rows, 64))
        emulated.launch(name, kernels.sum_tiles(64, 64, 4, 4), packed, None, rows, 64, check="races")
        moved.append(emulated.compiled("group_sums.cu", "races").kernels[name].traffic())
    read, written = np.subtract(moved[1], moved[0])
    rows_and_columns = 2 * 4 * 64 * 64  # a row and a column are read by element, from the cache
    assert (read, written) == (2 * 4 * 64 * 64 + rows_and_columns, 2 * 4 * 64 * 64)
