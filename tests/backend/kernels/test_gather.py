"""gather against NumPy, on emulated threads, and what sort, gather and topk launch."""

import kernel_references as references
import numpy as np
import pytest
from emulated import ORDERS, Placed, assert_same, launch

from autograd_gpu.backend import kernels
from autograd_gpu.backend.kernels.gather import BITS

pytestmark = pytest.mark.cpu
DTYPES = ["bool", "int8", "float16", "bfloat16", "int32", "float32", "float64", "int64"]


def gather(x, index, dim, offset=0, **how):
    """What backend/kernels/gather.py launches."""
    (_, name), out = BITS[x.itemsize], Placed(np.zeros(index.shape, x.dtype), offset)
    inner = int(np.prod(index.shape[index.ndim + dim + 1 :]))
    shape = (-(-index.size // kernels.THREADS), 1), (kernels.THREADS, 1)
    sizes = x.shape[dim], inner, index.shape[dim], index.size
    launch(f"gather<{name}>", shape, Placed(x, offset), Placed(index, offset), out, *sizes, **how)
    return out.result()


def draw(shape, count, dim, kind):
    x = np.random.randint(0, 2 if kind == "bool" else 100, shape).astype(kind)
    sizes = list(shape)
    sizes[dim] = count
    return x, np.random.randint(-shape[dim], shape[dim], sizes)


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dim", [-1, -2, -3])
def test_gather(kind, order, dim):
    for count in (0, 1, 300):
        x, index = draw((3, 4, 5), count, dim, kind)
        assert_same(gather(x, index, dim, count % 2, order=order), references.gather(x, index, dim))


def test_indices_out_of_range_wrap_around():
    x, index = np.arange(3.0), np.array([3, -4, 7, 2**40])
    assert_same(gather(x, index, -1), references.gather(x, index, -1))


def test_no_race_and_no_undefined_behaviour():
    for kind in DTYPES:
        gather(*draw((3, 4, 5), 7, -2, kind), -2, check="races")
