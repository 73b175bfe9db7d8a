"""list_norm and limit_norm against their NumPy references, on emulated threads."""

import math

import emulated
import kernel_references as references
import numpy as np
import pytest
from emulated import ORDERS, Placed, assert_close, assert_same, quarters, unset
from list_kernels import Lists

from autograd_gpu.backend import kernels
from autograd_gpu.backend.kernels.constants import CHUNK

pytestmark = pytest.mark.cpu
SIZES = [1, 0, 7, 64, 1000, CHUNK - 1, CHUNK + 5, 8]
OFFSETS = [0, 1, 0, 3, 1, 0, 0, 2]
NORMS = {"L1": 1.0, "L2": 2.0, "Largest": math.inf}


@pytest.fixture(params=NORMS)
def norm(request):
    return request.param


def list_norm(norm, arrays, offsets=None, **how):
    wide = kernels.wide(arrays[0].dtype)
    found, lists = [], Lists([arrays], offsets)
    for shape, argument in lists.parts:
        partials = unset((shape[0][0],), wide)
        emulated.launch(f"list_norm<{norm}, {kernels.C_NAMES[arrays[0].dtype]}>", shape, argument, partials, **how)
        found.append(partials.result())
    partials, out = Placed(np.concatenate(found)), unset((1,), wide)
    shape = ((1, 1), (kernels.THREADS, 1))
    name = f"list_norm_total<{norm}, {kernels.C_NAMES[wide]}>"
    emulated.launch(name, shape, partials, out, partials.array.size, **how)
    return out.result()[0]


@pytest.mark.parametrize("order", ORDERS)
def test_norms(dtype, norm, order):
    arrays = [quarters((size,), dtype) for size in SIZES]
    total = references.list_norm(arrays, NORMS[norm])
    assert_close(list_norm(norm, arrays, OFFSETS, order=order), total, rtol=1e-6)


def test_norm_of_many_chunks(norm):
    """More partial results than the second launch has threads."""
    arrays = [np.random.randn(70).astype("float32") for _ in range(700)]
    assert_close(list_norm(norm, arrays), references.list_norm(arrays, NORMS[norm]), rtol=2e-6)


def test_norm_of_nothing(dtype, norm):
    arrays = [np.zeros(0, dtype)] * 3
    assert list_norm(norm, arrays) == 0


def test_norms_give_the_same_bits_in_every_order(dtype, norm):
    arrays = [np.random.randn(size).astype(dtype) for size in SIZES]
    first, *others = [list_norm(norm, arrays, order=order) for order in ORDERS]
    assert others == [first, first]


@pytest.mark.parametrize("place", [0, 2, 600, 999])
def test_nan_and_infinity_in_norms(dtype, norm, place):
    for value in (np.nan, np.inf, -np.inf):
        arrays = [np.zeros(1000, dtype) for _ in range(3)]
        arrays[1][place] = value
        assert_same(list_norm(norm, arrays).astype(dtype), np.asarray(abs(value), dtype)[()])


def limit(arrays, norm, most, offsets=None, **how):
    wide = kernels.wide(arrays[0].dtype)
    name = f"limit_norm<{kernels.C_NAMES[arrays[0].dtype]}>"
    (launched,) = Lists([arrays], offsets).launch(name, Placed(np.asarray([norm], wide)), most, **how)
    return launched


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("norm", [0.5, 1.0, 3.0, np.inf, np.nan])
def test_limit(dtype, norm, order):
    arrays = [np.random.randn(size).astype(dtype) for size in SIZES]
    for actual, array in zip(limit(arrays, norm, 1.0, OFFSETS, order=order), arrays, strict=True):
        assert_same(actual, references.limit_norm(array, norm, 1.0))


@pytest.mark.parametrize("offset", [0, 1])
def test_no_race_and_no_undefined_behaviour(dtype, norm, offset):
    arrays, offsets = [quarters((size,), dtype) for size in (1, 0, 37, 600)], [offset] * 4
    assert_same(list_norm(norm, arrays, offsets, check="races"), list_norm(norm, arrays))
    for actual, array in zip(limit(arrays, 3.0, 1.0, offsets, check="races"), arrays, strict=True):
        assert_same(actual, references.limit_norm(array, 3.0, 1.0))
