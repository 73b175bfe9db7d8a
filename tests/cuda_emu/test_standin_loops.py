"""Which dtypes CuPy computes in, and where its numbers are not NumPy's; asked as in test_standin.py."""

import importlib
import json
import math
import operator

import ml_dtypes
import numpy as np
import pytest
from checkout import STAND_IN

pytestmark = [pytest.mark.cuda, pytest.mark.smoke]

LOOPS = json.loads((STAND_IN / "cupy" / "loops.json").read_text())
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


@pytest.fixture(scope="module")
def xp():
    import cupy

    return cupy


def test_loops_are_those_of_the_committed_table(xp):
    found, listed = {}, {}
    for name, loops in LOOPS.items():
        module, _, function = name.rpartition(".")
        if module in ("cupy", "cupyx", "cupyx.scipy.special") and " " not in name:
            ufunc = getattr(importlib.import_module(module), function, None)
            if ufunc is not None:  # the stand-in has no function that SciPy lacks
                found[name] = [loop.split("->")[0] for loop in ufunc.types]
                listed[name] = [loop.split("->")[0] for loop in loops]
    assert len(found) > 150
    assert found == listed


@pytest.mark.parametrize("number", [2, 2.5, True, np.float32(2), np.float64(2), np.int64(2)], ids=repr)
def test_promotion_of_bfloat16_is_numpys(xp, number):
    array, host = xp.ones(3, BFLOAT16), np.ones(3, BFLOAT16)
    if type(number) is int and (host * number).dtype != BFLOAT16:
        pytest.skip(f"NumPy {np.__version__} widens bfloat16 beside an int, newer ones do not")
    assert (array * number).dtype == (host * number).dtype
    assert xp.less(array, number).dtype == bool


@pytest.mark.parametrize("work", [
    lambda xp, x: xp.where(x > 0, x, x), lambda xp, x: xp.where(x > 0, x, 0.0), lambda xp, x: xp.tril(x.reshape(1, 3)),
    lambda xp, x: xp.triu(x.reshape(1, 3)), lambda xp, x: xp.clip(x, 0, 1), lambda xp, x: x * 1.5,
])  # fmt: skip
def test_functions_without_bfloat16_answer_float32(xp, work):
    assert work(xp, xp.ones(3, BFLOAT16)).dtype == np.float32


@pytest.mark.parametrize("name", [
    "sum", "prod", "max", "min", "mean", "nansum", "nanmax", "negative", "exp", "sqrt", "copysign",
    "maximum", "fmod", "isnan", "sign", "concatenate", "zeros_like",
])
def test_functions_that_keep_bfloat16(xp, name):
    x = xp.asarray(np.array([1.0, 2.0, 3.0], BFLOAT16))
    args = ([x, x],) if name == "concatenate" else (x, x) if name in ("copysign", "maximum", "fmod") else (x,)
    assert getattr(xp, name)(*args).dtype == (bool if name == "isnan" else BFLOAT16)


def test_places_of_bfloat16(xp):
    x = xp.asarray(np.array([1.0, 3.0, 2.0], BFLOAT16))
    assert (int(x.argmax()), int(xp.count_nonzero(x)), bool(x.any())) == (1, 3, True)
    for work in (xp.sort, xp.argsort, xp.unique, lambda x: xp.lexsort(xp.stack([x, x])), lambda x: xp.isin(x, x)):
        with pytest.raises((NotImplementedError, TypeError), match="dtype 'bfloat16' is not supported"):
            work(x)


def test_special_functions_of_float16_answer_float64(xp):
    from cupyx.scipy import special

    half = xp.ones(2, "float16")
    assert [getattr(special, name)(half).dtype for name in ("erf", "digamma", "i0e", "ndtr")] == [np.float64] * 4
    assert special.erfinv(half * 0.5).dtype == np.float32


@pytest.mark.parametrize(("name", "host"), [
    ("subtract", np.ones(2, bool)), ("negative", np.ones(2, bool)), ("bitwise_and", np.ones(2)),
])  # fmt: skip
def test_loops_that_are_refused(xp, name, host):
    x = xp.asarray(host)
    with pytest.raises(TypeError):
        getattr(xp, name)(*(x, x)[: 1 if name == "negative" else 2])


def test_numbers_beside_integers_in_comparisons(xp):
    a = xp.asarray([1, -1], "int32")
    assert (a < 2**40).tolist() == [True, True]
    assert (a == 2**63).tolist() == [False, False]


def test_explicit_dtypes(xp):
    a = xp.arange(3)
    assert xp.true_divide(a, 2, dtype="float32").dtype == np.float32
    assert xp.add(a, a, dtype="float16").dtype == np.float16
    assert a.sum(dtype="int8").dtype == np.int8
    assert a.mean(dtype="float32").dtype == np.float32
    assert (a.sum().dtype, xp.ones(3, bool).sum().dtype, xp.ones(3, "uint8").prod().dtype) == (
        np.int64, np.int64, np.uint64)  # fmt: skip


# ---- numbers -------------------------------------------------------------------------------------------


def test_floor_quotients_come_of_the_rounded_quotient(xp):
    a, b = xp.asarray([1.0, 1.0, -1.0]), xp.asarray([0.1, math.inf, math.inf])
    assert (a // b).tolist() == [10, 0, 0]
    rest = (a % b).get()
    assert abs(rest[0]) < 1e-15
    assert np.isnan(rest[1:]).all()


def test_fmod_of_integers_goes_by_float64(xp):
    big = 2**60 + 1
    assert xp.fmod(xp.asarray([7, -7, 5]), xp.asarray([4, 4, 0])).tolist() == [3, -3, 0]
    assert xp.fmod(xp.asarray([big]), xp.asarray([3])).tolist() != [big % 3]


def test_bounds_that_are_nan_do_not_count(xp):
    a = xp.asarray([1.0, math.nan])
    assert a.clip(math.nan, 0.5).tolist()[0] == 0.5
    assert np.isnan(a.clip(0.0, 0.5).get()[1])


@pytest.mark.parametrize("make", [
    lambda xp: xp.asarray(-0.0), lambda xp: _filled(xp, -0.0), lambda xp: _assigned(xp, -0.0),
])  # fmt: skip
def test_zeros_by_memset_have_no_sign(xp, make):
    assert not np.signbit(make(xp).get()).any()


@pytest.mark.parametrize("make", [
    lambda xp: xp.full(3, -0.0), lambda xp: xp.asarray([-0.0]), lambda xp: xp.where(xp.ones(3, bool), -0.0, 1.0),
    lambda xp: _assigned(xp, xp.full((), -0.0)), lambda xp: xp.full_like(xp.ones(3), -0.0),
])  # fmt: skip
def test_zeros_by_a_kernel_keep_their_sign(xp, make):
    assert np.signbit(make(xp).get()).all()


def _filled(xp, value):
    a = xp.ones(3)
    a.fill(value)
    return a


def _assigned(xp, value):
    a = xp.ones(3)
    a[...] = value
    return a


# ---- what is asked of strangers ------------------------------------------------------------------------


class Guarded:
    """Its memory may be asked for by hasattr; `error` is what answers."""

    def __init__(self, error):
        self.error = error

    @property
    def __cuda_array_interface__(self):
        raise self.error("not now")

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        return "theirs"


@pytest.mark.parametrize("operate", [operator.mul, operator.lt, np.multiply], ids=lambda f: f.__name__)
def test_only_an_attribute_error_says_that_there_is_no_interface(xp, operate):
    assert operate(xp.ones(2), Guarded(AttributeError)) == "theirs"
    with pytest.raises(RuntimeError, match="not now"):
        operate(xp.ones(2), Guarded(RuntimeError))
