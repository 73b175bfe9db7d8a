"""group.cu with the functor of a group, emulated: sizes, addresses, orders, in place, special values; references."""

from types import SimpleNamespace

import emulated
import formula_functors as functors
import kernel_references as references
import numpy as np
import pytest
from emulated import ORDERS, Placed, assert_close, quarters, unset

from autograd_gpu.backend import kernels
from autograd_gpu.backend.formulas import cuda_code
from autograd_gpu.backend.formulas.expression import element
from autograd_gpu.backend.formulas.lowering import lowered
from autograd_gpu.backend.kernels.group import packed_arrays, row_and_column

functors.declare()
pytestmark = [pytest.mark.cpu, pytest.mark.filterwarnings("ignore::RuntimeWarning")]
CLOSE = {"float64": 1e-13, "float32": 4e-6, "float16": 1e-3, "bfloat16": 8e-3}


def placed_operands(arrays, offset):
    """Copies of the operands; a strided one keeps its strides."""
    return [Placed(a, offset) if a.flags.c_contiguous else SimpleNamespace(array=a) for a in arrays]


def run(arrays, offset=0, in_place=False, **how):
    """What backend/kernels/group.py launches."""
    (functor, _), x = functors.group(), arrays[0]
    placed = placed_operands(arrays, offset)
    outs = [unset(x.shape, x.dtype, offset) for _ in range(functor.outputs)]
    if in_place:
        outs[:2] = placed[:2]
    instance = kernels.declare_group(functor, x.dtype, emulated.width_of(x, offset))
    packed = packed_arrays(functor, [on_device(p.array) for p in placed], [on_device(out.array) for out in outs])
    emulated.launch(instance, kernels.group_shape(x.size, emulated.width_of(x, offset)), packed, x.size, **how)
    return [out.result() for out in outs]


def on_device(array):
    """An array with what `packed_arrays` asks of CuPy's."""
    return SimpleNamespace(data=SimpleNamespace(ptr=array.ctypes.data), shape=array.shape, strides=array.strides,
                           itemsize=array.itemsize)  # fmt: skip


def operands(size, dtype, layout="rows"):
    """Dense arrays, two strided ones by `layout`, and one of one element."""
    shape = (size // 8, 8) if layout != "apart" else (size,)
    y, a = {
        "rows": lambda: (quarters((8,), dtype), quarters(shape, dtype)),
        "columns": lambda: (quarters((shape[0], 1), dtype), quarters((8, shape[0]), dtype).T),
        "apart": lambda: (quarters((size, 3), dtype)[:, 1], quarters((size,), dtype)[::-1]),
    }[layout]()
    return [*(quarters(shape, dtype) for _ in range(2)), y, a, quarters((1,), dtype)]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize(
    ("size", "layout"), [(0, "apart"), (1, "apart"), (7, "apart"), (64, "rows"), (5000, "columns"), (5001, "apart")]
)
def test_sizes_layouts_and_orders(dtype, size, layout, offset, order):
    arrays = operands(size, dtype, layout)
    for out, expected in zip(run(arrays, offset, order=order), references.group(*arrays), strict=True):
        assert_close(out, expected, CLOSE[str(dtype)], CLOSE[str(dtype)])


def test_results_may_overwrite_inputs(dtype):
    arrays = operands(640, dtype)
    for out, expected in zip(run(arrays, in_place=True), run(arrays), strict=True):
        assert_close(out, expected, 0.0)


def test_races_and_accesses():
    run(operands(640, np.dtype("float32")), check="races")


def test_every_array_is_moved_once():
    """The difference of two launches of one grid leaves out what a thread reads once: the addresses, one element."""
    functor, _ = functors.group()
    for width in (4, 1):
        name, moved = kernels.declare_group(functor, np.dtype("float32"), width), []
        for size in (4096, 8192):
            arrays = [*(Placed(np.ones(size, np.float32)) for _ in range(4)), Placed(np.ones(1, np.float32))]
            outs = [unset((size,), np.float32) for _ in range(functor.outputs)]
            packed = packed_arrays(functor, *([on_device(p.array) for p in several] for several in (arrays, outs)))
            emulated.launch(name, ((4, 1), (kernels.THREADS, 1)), packed, size, check="races")
            moved.append(emulated.compiled("group.cu", "races").kernels[name].traffic())
        read, written = np.subtract(moved[1], moved[0])
        assert (read, written) == (4 * 4 * 4096, functor.outputs * 4 * 4096)


def test_special_values():
    values = np.float32([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -3.0, 90.0])
    arrays = [*(np.ravel(a) for a in np.meshgrid(*[values] * 4)), np.float32([-0.0])]
    for out, expected in zip(run(arrays), references.group(*arrays), strict=True):
        assert_close(out, expected, 4e-6, 1e-6)
        zero = (out == 0) & (expected == 0)
        np.testing.assert_array_equal(np.signbit(out[zero]), np.signbit(expected[zero]))


def test_equal_programs_are_one_kernel():
    x, y = element("x"), element("y")
    programs = [lowered([x * y + number], ["x", "y"], double=True) for number in (1, 1, 2)]
    names = [cuda_code.group(program, 0, 0).name for program in programs]
    assert names[0] == names[1] != names[2]
    assert len({cuda_code.group(programs[0], *counts).name for counts in ((0, 0), (1, 0), (0, 1))}) == 3


@pytest.mark.parametrize(("own", "view"), [
    ((4, 6, 8), np.asarray), ((8,), np.asarray), ((6, 1), np.asarray), ((4, 1, 1), np.asarray),
    ((4, 6, 16), lambda a: a[..., ::2]), ((4, 6, 8), lambda a: a[..., ::-1]), ((8, 6, 4), np.transpose),
    ((4, 12, 8), lambda a: a[:, ::2]), ((4, 12, 8), lambda a: a[:, :6]),
])  # fmt: skip
def test_rows_and_columns(own, view):
    """Elements by row and column are those of the broadcast array; None where rows have no one step in memory."""
    array, shape = view(np.arange(np.prod(own)).reshape(own)), (4, 6, 8)
    steps, whole = row_and_column(array.strides, array.shape, shape), np.broadcast_to(array, shape)
    assert (steps is not None) == (len({*np.diff(whole[..., 0].reshape(-1))}) == 1)
    if steps is not None:
        by_step = np.lib.stride_tricks.as_strided(array, (24, 8), steps)
        np.testing.assert_array_equal(by_step, whole.reshape(24, 8))

