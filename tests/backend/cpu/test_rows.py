"""Work by blocks of rows: each block once, errors and interrupts reach the caller, and the helpers stay usable."""

import _thread
import contextlib
import gc
import os
import signal
import threading
import time
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autograd_gpu.backend.cpu import rows
from autograd_gpu.backend.cpu.rows import in_blocks

pytestmark = pytest.mark.cpu


@pytest.fixture(autouse=True)
def _three_cores(monkeypatch):
    """Two helpers, whatever the machine has."""
    monkeypatch.setattr(rows, "cores", lambda: 3)
    yield
    assert not rows._RUNNING


def threads_of(blocks=6, expected=3):
    """The threads that take blocks: each waits for the others, for some seconds."""
    seen, deadline = [], time.monotonic() + 5

    def work(start, stop):
        seen.append(threading.get_ident())
        while len(set(seen)) < expected and time.monotonic() < deadline:
            time.sleep(0.001)

    in_blocks(blocks, 1, work)
    assert len(seen) == blocks
    return set(seen)


@given(st.integers(0, 50), st.integers(1, 60))
def test_each_block_once(n, step):
    seen = []
    in_blocks(n, step, lambda start, stop: seen.append((start, stop)))
    assert sorted(seen) == [(start, min(start + step, n)) for start in range(0, n, step)]


def test_helpers_take_blocks_and_are_kept():
    first = threads_of()
    assert len(first) == 3
    assert threads_of() == first


def test_one_block_stays_in_the_caller():
    assert threads_of(1, 1) == {threading.get_ident()}


def test_one_core_starts_no_thread(monkeypatch):
    monkeypatch.setattr(rows, "cores", lambda: 1)
    assert threads_of(6, 1) == {threading.get_ident()}


@pytest.mark.parametrize("in_helper", [False, True])
def test_an_error_stops_all_and_is_raised(in_helper):
    caller, seen = threading.get_ident(), []

    def work(start, stop):
        seen.append(start)
        if (threading.get_ident() != caller) is in_helper:
            raise ZeroDivisionError("in a block")
        time.sleep(0.01)

    with pytest.raises(ZeroDivisionError, match="in a block"):
        in_blocks(100, 1, work)
    count = len(seen)
    assert count < 20
    time.sleep(0.03)
    assert len(seen) == count  # nobody works on after the call
    assert len(threads_of()) == 3


def test_arrays_of_a_failed_call_are_freed():
    class Array:
        pass

    array, caller = Array(), threading.get_ident()
    dead = weakref.ref(array)

    def work(start, stop, array=array):
        time.sleep(0.01)
        if threading.get_ident() != caller:
            raise ValueError(start)

    gc.disable()
    try:
        with contextlib.suppress(ValueError):
            in_blocks(10, 1, work)
        del work, array
        for _ in range(100):  # a helper that woke up late may still be on its way back to sleep
            if dead() is None:
                break
            time.sleep(0.01)
        assert dead() is None
    finally:
        gc.enable()


@pytest.fixture
def interruptible():
    """SIGINT raises KeyboardInterrupt; a job in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_leaves_the_helpers_usable():
    first, seen = threads_of(), []

    def work(start, stop):
        if start == 3:
            _thread.interrupt_main()
        time.sleep(0.01)
        seen.append(start)

    with pytest.raises(KeyboardInterrupt):
        in_blocks(1000, 1, work)
    count = len(seen)
    time.sleep(0.03)
    assert len(seen) == count < 100
    assert threads_of() == first


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_while_waiting_for_a_helper():
    """The caller has no block left, and returns only when the helper has written its last one."""
    caller, done = threading.get_ident(), []
    first = threads_of()

    def work(start, stop):
        if threading.get_ident() == caller:
            time.sleep(0.05)
        else:
            time.sleep(0.2)
            _thread.interrupt_main()
            time.sleep(0.2)
        done.append(start)

    with pytest.raises(KeyboardInterrupt):
        in_blocks(3, 1, work)
    assert len(done) == 3
    assert threads_of() == first


def test_nested_calls_run_in_turn():
    seen = []

    def outer(start, stop):
        own = threading.get_ident()

        def inner(first, last):
            time.sleep(0.001)
            seen.append((start, first, threading.get_ident() == own))

        in_blocks(4, 1, inner)

    in_blocks(6, 1, outer)
    assert sorted(seen) == [(i, j, True) for i in range(6) for j in range(4)]


def test_a_second_caller_works_alone():
    """It does not wait for the helpers of the first."""
    started, finish = threading.Event(), threading.Event()

    def work(start, stop):
        started.set()
        assert finish.wait(10)

    first = threading.Thread(target=in_blocks, args=(6, 1, work))
    first.start()
    assert started.wait(10)
    assert threads_of(6, 1) == {threading.get_ident()}
    finish.set()
    first.join()
    assert len(threads_of()) == 3


def test_callers_on_many_threads():
    out = np.zeros((8, 1000))

    def call(k):
        for _ in range(50):
            in_blocks(1000, 7, lambda start, stop: np.add(out[k, start:stop], 1, out=out[k, start:stop]))

    callers = [threading.Thread(target=call, args=(k,)) for k in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert (out == 50).all()


def test_errstate_of_the_caller_holds_in_helpers():
    seen = {}

    def work(start, stop):
        seen[threading.get_ident()] = np.geterr()["divide"]
        time.sleep(0.1)

    with np.errstate(divide="raise"):
        in_blocks(6, 1, work)
    assert len(seen) == 3
    assert set(seen.values()) == {"raise"}
    seen.clear()
    with np.errstate(divide="ignore"):  # of each call, not of the first
        in_blocks(6, 1, work)
    assert set(seen.values()) == {"ignore"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # it is multi-threaded: Python 3.12 on
def test_a_fork_has_helpers_of_its_own():
    threads_of()
    child = os.fork()
    if not child:
        os._exit(0 if len(threads_of()) == 3 else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_without_further_threads_the_caller_does_all(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(rows, "_HELPERS", [])
    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert threads_of(6, 1) == {threading.get_ident()}


@pytest.mark.parametrize("size", [10, 1 << 15, 1 << 20])
@pytest.mark.parametrize("case", ["plain", "other dtype", "broadcast", "transposed"])
def test_ufuncs_of_two(size, case):
    """Large contiguous operands go by blocks in pooled memory; the values and layouts are NumPy's in every case."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((size // 2, 2)).astype(np.float32)
    b = rng.standard_normal((size // 2, 2)).astype(np.float64 if case == "other dtype" else np.float32)
    if case == "broadcast":
        b = b[:1]
    if case == "transposed":
        a, b = a.T, b.T
    for ufunc in (np.add, np.multiply):
        result, expected = rows.of_two(ufunc, a, b), ufunc(a, b)
        assert np.array_equal(result, expected)
        assert (result.dtype, result.strides) == (expected.dtype, expected.strides)


@pytest.mark.parametrize(("size", "times", "shared"), [
    (6 * rows.SHARED_BLOCK - 1, 1, False), (6 * rows.SHARED_BLOCK, 1, True), (rows.SHARED_BLOCK // 2, 10, False),
    (rows.SHARED_BLOCK, 10, True), (100 * rows.SHARED_BLOCK, 10, True),
])
def test_what_takes_longer_is_shared_earlier(size, times, shared):
    blocks = rows.Blocks(size, 1, 1 << 15, times)
    assert blocks.shared is shared
    count = -(-size // blocks.step)
    assert not shared or (count >= 6 and (times == 1 or count % 3 == 0))
