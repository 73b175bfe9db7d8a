"""Large products by blocks on our threads: BLAS' values, the same bits whoever computes them, its limit restored."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autograd_gpu.backend.cpu import blas, large_products, matmul, rows

LIMIT = blas.limit_of("numpy")
pytestmark = [pytest.mark.cpu, pytest.mark.skipif(not LIMIT.threads(), reason="no limit for NumPy's BLAS is known")]

CORES = 2


@pytest.fixture(autouse=True)
def _small_is_large(monkeypatch):
    """Products of 2^16 bytes times multiply-adds go by blocks, on two threads whatever the machine has."""
    monkeypatch.setattr(rows, "cores", lambda: CORES)
    monkeypatch.setattr(blas.Limit, "threads", lambda limit: CORES)
    monkeypatch.setattr(matmul, "SMALL_PRODUCT", 1 << 13)
    monkeypatch.setattr(matmul, "MANY_ELEMENTS", 1 << 10)
    monkeypatch.setattr(large_products, "PER_BLOCK", 1 << 15)
    monkeypatch.setattr(large_products, "FEWEST", 16)
    before = LIMIT.get()
    yield
    assert LIMIT.get() == before


@pytest.fixture
def blocks(monkeypatch):
    """The blocks that are computed, as (rows, step)."""
    seen, original = [], rows.in_blocks

    def in_blocks(count, step, work):
        seen.append((count, step))
        original(count, step, work)

    monkeypatch.setattr(rows, "in_blocks", in_blocks)
    return seen


def operands(m, k, n, dtype, layout="cc", seed=0):
    rng = np.random.default_rng(seed)

    def array(r, c, order):
        if order == "c":
            return rng.standard_normal((r, c)).astype(dtype)
        if order == "f":
            return rng.standard_normal((c, r)).astype(dtype).T
        return rng.standard_normal((2 * r, 3 * c)).astype(dtype)[::2, ::3]

    return array(m, k, layout[0]), array(k, n, layout[1])


def exact(a, b):
    return np.matmul(a.astype(np.longdouble), b.astype(np.longdouble))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 300), st.integers(1, 200), st.integers(1, 300), st.sampled_from(["float32", "float64"]),
       st.sampled_from(["cc", "cf", "fc", "ff", "sc", "fs"]))  # fmt: skip
def test_values(m, k, n, dtype, layout):
    a, b = operands(m, k, n, dtype, layout)
    bound = k * np.finfo(dtype).eps * np.matmul(np.abs(a), np.abs(b)) + np.finfo(dtype).tiny
    assert (np.abs(matmul.matmul(a, b) - exact(a, b)) <= bound).all()


@pytest.mark.parametrize("layout", ["cc", "cf", "fc", "ff", "ss"])
@pytest.mark.parametrize(("m", "n"), [(300, 100), (100, 300)])
def test_threads_do_not_change_a_bit(monkeypatch, blocks, layout, m, n):
    """The blocks are the same; who computes them depends on the time."""
    a, b = operands(m, 100, n, "float32", layout)
    first = matmul.matmul(a, b)
    assert blocks == [(300, 80)]
    monkeypatch.setattr(rows, "in_blocks", rows._in_turn)
    assert np.array_equal(matmul.matmul(a, b), first)


@pytest.mark.parametrize("layout", ["strided", "reversed", "expanded"])
@pytest.mark.parametrize(
    ("left", "right"), [((200, 100), (100, 50)), ((16, 20, 30), (16, 30, 40)), ((3, 8, 8), (3, 8, 300)),
                        ((4, 20000), (20000, 4))],
)  # fmt: skip
def test_matmul_gets_what_blas_reads(monkeypatch, left, right, layout):
    """For other operands np.matmul of NumPy 2.1 takes twenty times as long as BLAS."""
    rng, original, seen = np.random.default_rng(0), np.matmul, []

    def array(shape):
        x = rng.standard_normal((*shape[:-1], 2 * shape[-1]))
        if layout == "expanded":
            return np.broadcast_to(x[..., :1, :1], shape)
        return x[..., ::2] if layout == "strided" else x[..., shape[-1] :][..., ::-1]

    def spied(a, b, **keywords):
        seen.extend(x is blas.readable(x) for x in (a, b) if x.ndim > 1)
        return original(a, b, **keywords)

    a, b = array(left), array(right)
    expected = original(np.ascontiguousarray(a), np.ascontiguousarray(b))
    monkeypatch.setattr(np, "matmul", spied)
    assert np.allclose(matmul.matmul(a, b), expected, rtol=1e-10, atol=1e-10)
    assert seen
    assert all(seen)


@pytest.mark.parametrize(
    ("left", "right"), [((16, 1), (16, 1)), ((16, 2), (2,)), ((2,), (16, 2)), ((16,), (1,)), ((17,), (17,))]
)
def test_batches(blocks, left, right):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((*left, 20, 30)), rng.standard_normal((*right, 30, 40))
    assert np.allclose(matmul.matmul(a, b), np.matmul(a, b), rtol=1e-13, atol=1e-13)
    assert blocks == [(max(left[0], right[0]), -(-max(left[0], right[0]) // 4))]


@pytest.mark.parametrize("case", ["small", "narrow", "one matrix", "syrk", "limited", "one core"])
def test_what_the_caller_computes_in_one(monkeypatch, blocks, case):
    m, k, n, dtype = 200, 100, 200, np.dtype("float64")
    if case == "small":
        m = n = k = 16
    if case == "narrow":
        m, k, n = 16, 1000, 16
    if case == "limited":  # by threadpoolctl, say
        monkeypatch.setattr(blas.Limit, "threads", lambda limit: 1)
    if case == "one core":
        monkeypatch.setattr(rows, "cores", lambda: 1)
    a, b = (np.arange(r * c).reshape(r, c).astype(dtype) % 7 for r, c in ((m, k), (k, n)))
    if case == "one matrix":
        a, b = a[None], b[None]
    if case == "syrk":
        b = a.T
    assert np.array_equal(matmul.matmul(a, b), np.matmul(a, b))
    assert not blocks


def test_sizes_of_blocks(monkeypatch):
    """What docs/backend.md says, with the real limits."""
    monkeypatch.undo()
    monkeypatch.setattr(blas.Limit, "threads", lambda limit: 64)

    def step(m, k, n, cores, dtype="float32"):
        monkeypatch.setattr(rows, "cores", lambda: cores)
        a, b = np.broadcast_to(np.zeros((), dtype), (m, k)), np.broadcast_to(np.ones((), dtype), (k, n))
        return large_products.step_of(a, b, m * k * n)

    assert step(2000, 512, 512, 2) == 512
    assert step(12000, 512, 512, 2) == 3008
    assert step(512, 2000, 512, 2) == 128
    assert step(128, 784, 256, 2) == 128
    assert step(128, 256, 256, 2) == 0  # 0.2 ms on one thread
    assert step(1024, 1024, 1024, 16) == 64
    assert step(128, 784, 256, 16) == 96  # three blocks of 0.2 ms
    assert step(128, 256, 256, 2, "float64") == 128


def test_the_limit_is_restored_after_an_error(monkeypatch):
    a, b = operands(300, 100, 100, "float32")
    before = LIMIT.get()

    def fail(*args, **kwargs):
        assert LIMIT.get() == 1
        raise MemoryError("no memory for a buffer")

    monkeypatch.setattr(np, "matmul", fail)
    with pytest.raises(MemoryError, match="no memory"):
        matmul.matmul(a, b)
    monkeypatch.undo()
    assert LIMIT.get() == before


def test_products_on_many_threads():
    """Each caller gets its own result, bit for bit, whichever has the helpers."""
    cases = [operands(200 + 16 * k, 64, 100 + 40 * k, "float32", seed=k) for k in range(4)]
    expected, wrong = [matmul.matmul(a, b) for a, b in cases], []

    def call(k):
        wrong.extend([k for _ in range(40) if not np.array_equal(matmul.matmul(*cases[k]), expected[k])])

    callers = [threading.Thread(target=call, args=(k,)) for k in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32"])
def test_narrow_integers_wrap_around(dtype):
    largest = min(np.iinfo(dtype).max, 1 << 20)
    a, b = np.random.default_rng(0).integers(largest // 2, largest, (2, 40, 40), dtype=dtype)
    assert np.array_equal(matmul.matmul(a, b), np.einsum("ij,jk->ik", a, b))


def test_integers_are_exact():
    """By float64 as long as it holds every sum, else by NumPy, which wraps around."""
    rng = np.random.default_rng(0)
    for largest in (100, 1 << 24, 1 << 40):
        a, b = rng.integers(-largest, largest, (2, 40, 40))
        assert np.array_equal(matmul.matmul(a, b), np.einsum("ij,jk->ik", a, b))


def test_set_num_threads_wins_over_the_limit_of_blas(monkeypatch, blocks):
    monkeypatch.setattr(blas.Limit, "threads", lambda limit: 1)
    monkeypatch.setattr(rows, "asked", lambda: CORES)
    a, b = operands(200, 100, 200, "float64")
    matmul.matmul(a, b)
    assert blocks
