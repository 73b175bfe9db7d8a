"""sgd_step and adam_step against their NumPy references, on emulated threads."""

import kernel_references as references
import numpy as np
import pytest
from emulated import ORDERS, assert_close, assert_same
from list_kernels import Lists

from autograd_gpu.backend import kernels
from autograd_gpu.backend.kernels.constants import CHUNK
from autograd_gpu.backend.optimizers.formulas import AdamNumbers, SGDNumbers

pytestmark = pytest.mark.cpu
SIZES = [1, 0, 7, 64, 1000, CHUNK - 1, CHUNK + 5, 8]
OFFSETS = [0, 1, 0, 3, 1, 0, 0, 2]
SGD = SGDNumbers(sign=1.0, lr=0.1, decay=0.0)
MOMENTUM = SGD._replace(decay=0.05, momentum=0.9, damped=0.7)
SGD_CASES = [
    (False, SGD), (False, SGD._replace(sign=-1.0, decay=0.05)), (True, MOMENTUM), (True, MOMENTUM._replace(first=True)),
    (True, MOMENTUM._replace(nesterov=True, damped=1.0, sign=-1.0)),
]  # fmt: skip
ADAM = AdamNumbers(sign=1.0, decay=0.0, keep=1.0, beta1=0.8, beta2=0.95, rate=0.02, eps=1e-3)
ADAM_CASES = [
    (False, ADAM), (False, ADAM._replace(decay=0.05, sign=-1.0)), (True, ADAM), (True, ADAM._replace(keep=0.99)),
]  # fmt: skip


def drawn(sizes, dtype, count):
    """Lists of normal numbers; every list but the first two and the last of positive ones."""
    lists = [[np.random.standard_normal(size).astype(dtype) for size in sizes] for _ in range(count)]
    for arrays in lists[2:-1]:
        arrays[:] = [abs(array) for array in arrays]
    return lists


def step(kernel, flag, c, lists, offsets=None, **how):
    name = f"{kernel}<{kernels.C_NAMES[lists[0][0].dtype]}, {str(flag).lower()}>"
    if kernel == "sgd_step":
        numbers = (c.sign, c.lr, c.decay, c.momentum, 1.0 if c.first else c.damped, c.nesterov, c.first)
    else:
        numbers = (c.sign, c.decay, c.keep, c.beta1, 1 - c.beta1, c.beta2, 1 - c.beta2, c.rate, c.eps)
    return Lists(lists, offsets).launch(name, *numbers, None, **how)


def check(kernel, flag, c, lists, actual):
    reference = getattr(references, kernel)
    *written, grads = actual
    for i, row in enumerate(zip(*lists, strict=True)):
        assert_same(grads[i], row[-1])
        epsilon = {"float64": 1e-14, "float32": 2e-6, "float16": 2e-3, "bfloat16": 1.6e-2}[str(row[0].dtype)]
        for arrays, expected in zip(written, reference(row, c), strict=True):
            assert_close(arrays[i], expected, rtol=epsilon, atol=epsilon)


def lists_of(kernel, flag, dtype, sizes=SIZES):
    return drawn(sizes, dtype, (3 if flag else 2) if kernel == "sgd_step" else (5 if flag else 4))


CASES = [("sgd_step", *case) for case in SGD_CASES] + [("adam_step", *case) for case in ADAM_CASES]


@pytest.mark.parametrize(("kernel", "flag", "c"), CASES)
def test_steps(dtype, kernel, flag, c):
    lists = lists_of(kernel, flag, dtype)
    check(kernel, flag, c, lists, step(kernel, flag, c, lists, OFFSETS))


@pytest.mark.parametrize(("kernel", "flag", "c"), [CASES[2], CASES[-1]])
def test_orders_and_alignment_give_the_same_bits(dtype, kernel, flag, c):
    lists = lists_of(kernel, flag, dtype)
    first, *others = [step(kernel, flag, c, lists, order=order) for order in ORDERS]
    for other in [*others, step(kernel, flag, c, lists, OFFSETS)]:
        for mine, theirs in zip(first, other, strict=True):
            for a, b in zip(mine, theirs, strict=True):
                assert_same(a, b)


@pytest.mark.parametrize("check_build", ["races", "undefined"])
@pytest.mark.parametrize(("kernel", "flag", "c"), [CASES[0], CASES[3], CASES[5], CASES[-1]])
def test_no_race_and_no_undefined_behaviour(dtype, kernel, flag, c, check_build):
    lists = lists_of(kernel, flag, dtype, [1, 0, 37, 600])
    check(kernel, flag, c, lists, step(kernel, flag, c, lists, [0, 0, 1, 0], check=check_build))


def test_nan_and_infinity_stay_where_they_are(dtype):
    """Infinite parameters have no effect without decay; a NaN in the square goes on to the largest square."""
    lists = lists_of("adam_step", True, dtype, [40])
    lists[0][0][3], lists[-1][0][5], lists[3][0][7], lists[-1][0][9] = np.inf, np.nan, np.nan, np.inf
    results = [arrays[0].astype(float) for arrays in step("adam_step", True, ADAM, lists)]
    parameter, _, square, largest, _ = results
    assert np.isposinf(parameter[3])
    assert np.flatnonzero(np.isnan(parameter)).tolist() == [5, 7, 9]
    assert np.flatnonzero(np.isnan(square)).tolist() == [5]
    assert np.flatnonzero(np.isnan(largest)).tolist() == [5, 7]


def test_hundreds_of_arrays(dtype):
    sizes = [int(size) for size in np.random.randint(0, 70, 300)]
    lists = lists_of("sgd_step", True, dtype, sizes)
    check("sgd_step", True, MOMENTUM, lists, step("sgd_step", True, MOMENTUM, lists))
