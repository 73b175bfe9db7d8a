"""On CUDA what CuPy computes otherwise than NumPy (backend/cuda/exact.py) is what NumPy and PyTorch make of it."""

import itertools
import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import autograd_gpu as ag

pytestmark = pytest.mark.cuda

FLOATS = ["float16", "bfloat16", "float32", "float64"]
DTYPES = {name: getattr(ml_dtypes, name, np.dtype(name)) if name == "bfloat16" else np.dtype(name) for name in FLOATS}
NUMBERS = [0.0, -0.0, 1.0, -1.0, 0.1, -0.1, 3.0, -7.5, 1e4, -1e4, math.inf, -math.inf, math.nan]
PAIRS = np.array(list(itertools.product(NUMBERS, NUMBERS))).T


def on_cuda(array):
    return ag.tensor(array, device="cuda")


def same(actual, expected):
    """Equal dtypes and bits, but for the bits of NaN."""
    actual, expected = actual.cpu().numpy(), np.asarray(expected)
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(actual.astype(np.float64), expected.astype(np.float64))
    known = ~np.isnan(expected.astype(np.float64))
    np.testing.assert_array_equal(np.signbit(actual)[known], np.signbit(expected)[known])


def floor_quotient(a, b):
    """a // b by NumPy; of half types in float32, and rounded once."""
    wide = np.float32 if a.itemsize == 2 else a.dtype
    return np.floor_divide(a.astype(wide), b.astype(wide)).astype(a.dtype)


@pytest.mark.parametrize("dtype", FLOATS)
def test_floor_quotients_and_remainders(dtype):
    a, b = PAIRS.astype(DTYPES[dtype])
    with np.errstate(all="ignore"):
        same(ag.floor_divide(on_cuda(a), on_cuda(b)), floor_quotient(a, b))
        same(ag.remainder(on_cuda(a), on_cuda(b)), np.remainder(a, b))
        same(ag.fmod(on_cuda(a), on_cuda(b)), np.fmod(a, b))


@pytest.mark.parametrize("function", [ag.floor_divide, ag.remainder, ag.fmod], ids=lambda f: f.__name__)
@pytest.mark.parametrize("number", [0.1, -3.0, 0.0])
def test_beside_a_number(function, number):
    a = PAIRS[0]
    numpys = getattr(np, function.__name__)
    with np.errstate(all="ignore"):
        same(function(on_cuda(a), number), numpys(a, number))
        same(function(number, on_cuda(a)) if function is ag.remainder else number // on_cuda(a),
             np.remainder(number, a) if function is ag.remainder else np.floor_divide(number, a))


@pytest.mark.parametrize(("a", "b", "quotient", "rest"), [
    (1.0, 0.1, 9.0, 0.09999999999999995), (1.0, math.inf, 0.0, 1.0), (-1.0, math.inf, -1.0, math.inf),
    (1e8, 3.0, 33333333.0, 1.0), (-1e15, 3.0, -333333333333334.0, 2.0),
])  # fmt: skip
def test_values(a, b, quotient, rest):
    a, b = ag.tensor([a], dtype=ag.float64, device="cuda"), ag.tensor([b], dtype=ag.float64, device="cuda")
    assert (a // b).tolist() == [quotient]
    assert (a % b).tolist() == [rest]


def test_remainder_of_a_large_float32():
    a = ag.tensor([1e8], device="cuda")
    assert (a % 3.0).tolist() == [1.0]


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(*[st.integers(-(2**63), 2**63 - 1)] * 2), min_size=1, max_size=8))
def test_fmod_of_integers_is_exact(pairs):
    pairs = [(a, b or 1) for a, b in pairs if (a, b) != (-(2**63), -1)] or [(7, 2)]
    a, b = np.array(pairs, np.int64).T
    expected = [abs(x) % abs(y) * (1 if x >= 0 else -1) for x, y in pairs]
    assert ag.fmod(on_cuda(a), on_cuda(b)).tolist() == expected
    assert ag.div(on_cuda(a), on_cuda(b), rounding_mode="trunc").tolist() == [
        (x - rest) // y for (x, y), rest in zip(pairs, expected, strict=True)
    ]


# ---- selection -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
def test_where_keeps_the_dtype_in_one_launch(dtype, request):
    x = on_cuda(np.array([1.5, -0.0, math.nan, -math.inf]).astype(DTYPES[dtype]))
    mask = ag.tensor([True, False, True, False], device="cuda")
    same(ag.where(mask, x, -x), np.where(mask.cpu().numpy(), x.cpu().numpy(), -x.cpu().numpy()))
    result = ag.where(mask, x, -0.0)
    assert result.dtype == x.dtype
    assert np.signbit(result.cpu().numpy()).tolist()[1::2] == [True, True]
    same(ag.where(x > 0, x.t(), x[::1]), x.cpu().numpy())


@pytest.mark.emulated
@pytest.mark.parametrize("dtype", FLOATS)
def test_where_is_one_launch(dtype, launches):
    x = on_cuda(np.ones(4).astype(DTYPES[dtype]))
    mask = x > 0
    with launches() as launched:
        ag.where(mask, x, 0.0)
        ag.where(mask, x, x)
    assert launched.kernels == {"where": 2}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["tril", "triu"])
def test_triangles_keep_the_dtype(name, dtype):
    host = np.arange(1.0, 7).reshape(2, 3).astype(DTYPES[dtype])
    same(getattr(ag, name)(on_cuda(host), 1), getattr(np, name)(host, 1))
    same(getattr(ag, name)(on_cuda(host).T), getattr(np, name)(host.T))


def test_shifts_by_numbers(device):
    x = ag.tensor([1, -5], device=device)
    assert [(x << n).tolist() for n in (1, 64, -1)] == [[2, -10], [0, 0], [0, 0]]
    assert [(x >> n).tolist() for n in (1, 64, -1)] == [[0, -3], [0, -1], [0, -1]]


# ---- zeros with a sign ---------------------------------------------------------------------------------


def put(x, key):
    x[key] = -0.0
    return x


ZEROS = {
    "full": lambda x: ag.full((3,), -0.0, dtype=x.dtype, device="cuda"),
    "full_like": lambda x: ag.full_like(x, -0.0),
    "tensor": lambda x: ag.tensor(-0.0, dtype=x.dtype, device="cuda"),
    "to": lambda x: ag.tensor(-0.0, dtype=x.dtype, device="cpu").to("cuda"),
    "fill_": lambda x: x.fill_(-0.0),
    "copy_": lambda x: x.copy_(ag.tensor(-0.0, device="cpu")),
    "all": lambda x: put(x, ...),
    "slice": lambda x: put(x, slice(0, 2))[:2],
    "element": lambda x: put(x, 1)[1],
    "indices": lambda x: put(x, ag.tensor([0, 2], device="cuda"))[::2],
    "mask": lambda x: put(x, x > 0),
    "masked_fill_": lambda x: x.masked_fill_(x > 0, -0.0),
    "index_fill": lambda x: ag.index_fill(x, 0, ag.tensor([1], device="cuda"), -0.0)[1],
    "scatter": lambda x: ag.scatter(x, 0, ag.tensor([1], device="cuda"), -0.0)[1],
    "pad": lambda x: ag.nn.functional.pad(x, (2, 0), value=-0.0)[:2],
    "fill_diagonal_": lambda x: ag.ones(2, 2, dtype=x.dtype, device="cuda").fill_diagonal_(-0.0).diagonal(),
    "recorded": lambda x: put(x.requires_grad_() * 1, slice(1, 3))[1:],
    "constant_": lambda x: ag.nn.init.constant_(x, -0.0),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("way", ZEROS)
def test_negative_zero_keeps_its_sign(way, dtype):
    result = ZEROS[way](on_cuda(np.ones(3).astype(DTYPES[dtype]))).detach().cpu().numpy()
    assert result.size
    assert not result.any()
    assert np.signbit(result).all()


@pytest.mark.parametrize("join", [ag.cat, ag.stack])
@pytest.mark.parametrize("count", [8, 9, 100])
def test_many_arrays_are_joined_in_a_capture(join, count):
    import cupy

    parts = [on_cuda(np.full((2, 3), k, "float32")) for k in range(count)]
    host, stream = [part.cpu().numpy() for part in parts], cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    with stream:
        eager = join(parts, 1)
        stream.synchronize()
        stream.begin_capture()
        joined = join(parts, 1)
        stream.end_capture().launch(stream)
        stream.synchronize()
    expected = (np.concatenate if join is ag.cat else np.stack)(host, 1)
    same(eager, expected)
    same(joined, expected)
