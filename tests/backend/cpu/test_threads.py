"""set_num_threads limits the threads that work on blocks of rows, and lets decompositions use those of BLAS."""

import threading
import time

import pytest

import autograd_gpu as ag
from autograd_gpu.backend.cpu import blas, rows

pytestmark = pytest.mark.cpu


@pytest.fixture(autouse=True)
def _restored():
    before = rows._Cores.count
    yield
    rows.set_cores(before)


def seen(blocks=6, patience=0.2):
    """The number of threads that take blocks if each waits a moment for the others."""
    result, deadline = set(), time.monotonic() + patience

    def work(start, stop):
        result.add(threading.get_ident())
        while len(result) < 3 and time.monotonic() < deadline:
            time.sleep(0.001)

    rows.in_blocks(blocks, 1, work)
    return len(result)


def test_our_threads_are_limited_and_those_of_blas_are_as_the_user_has_them():
    before = blas.limit_of("numpy").threads()
    for count in (3, 1, 2):
        ag.set_num_threads(count)
        assert ag.get_num_threads() == count == rows.cores()
        assert blas.limit_of("numpy").threads() == before
        assert seen() == count


@pytest.mark.parametrize(("count", "limit"), [(0, 1), (1, 1), (3, 3)])
def test_decompositions_run_on_one_thread_until_more_are_asked_for(monkeypatch, count, limit):
    """0: nobody has called set_num_threads."""
    monkeypatch.setattr(rows._Cores, "count", count)
    limits = []

    def on(self, threads, function, *args):
        limits.append(threads)
        return function(*args)

    monkeypatch.setattr(blas.Limit, "on", on)
    a = ag.eye(100) * 2
    for one in (a, a[None]):
        ag.linalg.inv(one), ag.linalg.qr(one), ag.linalg.eigh(one), ag.linalg.svd(one), ag.linalg.cholesky(one)
    assert set(limits) == {limit}


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
