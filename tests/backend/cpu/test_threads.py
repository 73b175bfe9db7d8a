"""set_num_threads limits BLAS and the threads that work on blocks of rows."""

import threading
import time

import pytest

import autograd_gpu as ag
from autograd_gpu.backend.cpu import blas, rows

pytestmark = pytest.mark.cpu


@pytest.fixture(autouse=True)
def _restored():
    before, products = ag.get_num_threads(), blas.limit()
    yield
    ag.set_num_threads(before)
    if products:
        blas.set_limit(products)


def seen(blocks=6, patience=0.2):
    """The number of threads that take blocks if each waits a moment for the others."""
    result, deadline = set(), time.monotonic() + patience

    def work(start, stop):
        result.add(threading.get_ident())
        while len(result) < 3 and time.monotonic() < deadline:
            time.sleep(0.001)

    rows.in_blocks(blocks, 1, work)
    return len(result)


def test_both_kinds_of_threads_are_limited():
    for count in (3, 1, 2):
        ag.set_num_threads(count)
        assert ag.get_num_threads() == count == rows.cores()
        assert blas.threads() in (count, 0)  # 0: another BLAS than OpenBLAS
        assert seen() == count


def test_a_product_on_one_thread_keeps_the_new_limit():
    if not blas.threads():
        pytest.skip("NumPy uses another BLAS")
    ag.set_num_threads(2)

    def inside():
        ag.set_num_threads(3)
        return blas.threads(), blas.limit()

    assert blas.on_one_thread(inside) == (1, 3)
    assert blas.threads() == 3


@pytest.mark.parametrize("value", [0, -1, 1.5, "a", True, None])
@pytest.mark.parametrize("name", ["set_num_threads", "set_num_interop_threads"])
def test_errors_are_pytorchs(name, value):
    torch = pytest.importorskip("torch")
    with pytest.raises(RuntimeError) as theirs:
        getattr(torch, name)(value)
    with pytest.raises(RuntimeError) as ours:
        getattr(ag, name)(value)
    assert str(ours.value) == str(theirs.value)


def test_interop_threads_are_remembered():
    before = ag.get_num_interop_threads()
    ag.set_num_interop_threads(5)
    assert ag.get_num_interop_threads() == 5
    ag.set_num_interop_threads(before)
