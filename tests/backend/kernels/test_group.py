"""group.cu with the functor of a group, emulated: sizes, addresses, orders, in place, special values; references."""

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
from autograd_gpu.backend.kernels.group import addresses_parameter

functors.declare()
pytestmark = [pytest.mark.cpu, pytest.mark.filterwarnings("ignore::RuntimeWarning")]
CLOSE = {"float64": 1e-13, "float32": 4e-6, "float16": 1e-3, "bfloat16": 8e-3}


def run(arrays, offset=0, in_place=False, **how):
    """What backend/kernels/group.py launches."""
    (functor, _), x = functors.group(), arrays[0]
    placed = [Placed(array, offset) for array in arrays]
    outs = [unset(x.shape, x.dtype, offset) for _ in range(functor.outputs)]
    if in_place:
        outs[:2] = placed[:2]
    width, everything = emulated.width_of(x, offset), (*placed, *outs)
    packed = np.zeros(1, addresses_parameter(len(everything)).dtype)
    packed["at"][0] = [p.array.ctypes.data for p in everything]
    instance = kernels.declare_group(functor, x.dtype, width)
    emulated.launch(instance, kernels.group_shape(x.size, width), packed, x.size, **how)
    return [out.result() for out in outs]


def operands(size, dtype):
    return [*(quarters((size,), dtype) for _ in range(4)), quarters((1,), dtype)]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("size", [0, 1, 7, 64, 5001])
def test_sizes_and_orders(dtype, size, offset, order):
    arrays = operands(size, dtype)
    for out, expected in zip(run(arrays, offset, order=order), references.group(*arrays), strict=True):
        assert_close(out, expected, CLOSE[str(dtype)], CLOSE[str(dtype)])


def test_results_may_overwrite_inputs(dtype):
    arrays = operands(640, dtype)
    for out, expected in zip(run(arrays, in_place=True), run(arrays), strict=True):
        assert_close(out, expected, 0.0)


@pytest.mark.parametrize("check", ["races", "undefined"])
def test_races_and_accesses(check):
    run(operands(640, np.dtype("float32")), check=check)


def test_every_array_is_moved_once():
    """The difference of two launches of one grid leaves out what a thread reads once: the addresses, one element."""
    functor, _ = functors.group()
    for width in (4, 1):
        name, moved = kernels.declare_group(functor, np.dtype("float32"), width), []
        for size in (4096, 8192):
            arrays = [*(Placed(np.ones(size, np.float32)) for _ in range(4)), Placed(np.ones(1, np.float32))]
            everything = [*arrays, *(unset((size,), np.float32) for _ in range(functor.outputs))]
            packed = np.zeros(1, addresses_parameter(len(everything)).dtype)
            packed["at"][0] = [p.array.ctypes.data for p in everything]
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
    names = [cuda_code.group(program, 0).name for program in programs]
    assert names[0] == names[1] != names[2]

