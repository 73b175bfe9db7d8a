"""Products of half types: those of float32, rounded once, of operands in any order."""

import ml_dtypes
import numpy as np
import pytest

from autograd_gpu.backend.cpu.half import MANY
from autograd_gpu.backend.cpu.matmul import matmul, widened

pytestmark = pytest.mark.cpu
HALVES = [np.float16, ml_dtypes.bfloat16]
LAYOUTS = [lambda a: a, lambda a: a.T, lambda a: a[::2], lambda a: a[:, ::2].T, lambda a: np.stack([a, a]).mT]


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("shape", [(4, 6), (100, 2 * MANY // 100)], ids=str)
def test_a_half_type_is_widened_in_its_own_order(shape, dtype):
    """BLAS adds up in another order if an operand has one."""
    a = np.random.default_rng(0).normal(size=shape).astype(dtype)
    a[0, :4] = [np.inf, -0.0, 1e-7, np.nan]
    for layout in LAYOUTS:
        x = layout(a)
        wide = widened(x)
        assert wide.strides == x.astype(np.float32).strides
        np.testing.assert_array_equal(wide.view(np.uint32), x.astype(np.float32).view(np.uint32))


@pytest.mark.parametrize("dtype", HALVES)
def test_products_are_those_of_float32(dtype):
    random = np.random.default_rng(0)
    a, b = (random.normal(size=shape).astype(dtype) for shape in ((120, 90), (100, 90)))
    for x, y in ((a, b.T), (a.T, np.ascontiguousarray(a)), (b, np.stack([a, a]).mT)):
        expected = matmul(x.astype(np.float32), y.astype(np.float32)).astype(dtype)
        np.testing.assert_array_equal(matmul(x, y).view(np.uint16), expected.view(np.uint16))
