"""Works that are put off: their order in each block, what makes them run, errors, and other threads."""

import sys
import threading

import pytest

from autograd_gpu.backend.cpu import chains, rows

pytestmark = pytest.mark.cpu


@pytest.fixture(autouse=True)
def _one_core(monkeypatch):
    """The calling thread takes all blocks, in order."""
    monkeypatch.setattr(rows, "cores", lambda: 1)
    yield
    assert not chains._OPEN


def noted(calls, name):
    return lambda start, stop: calls.append((name, start, stop))


def test_each_block_goes_through_all_works():
    calls = []
    with chains.chained(True):
        for name in "ab":
            chains.run(5, 3, 8, noted(calls, name))
        assert not calls
    assert calls == [("a", 0, 3), ("b", 0, 3), ("a", 3, 5), ("b", 3, 5)]


@pytest.mark.parametrize(("count", "step"), [(4, 3), (5, 2)])
def test_other_blocks_come_behind(count, step):
    """Those of other rows at once, blocks of other sizes when all of them run."""
    calls = []
    with chains.chained(True):
        chains.run(5, 3, 8, noted(calls, "a"))
        chains.run(count, step, 8, noted(calls, "b"))
        assert calls == ([("a", 0, 3), ("a", 3, 5)] if count == 4 else [])
    assert calls[:2] == [("a", 0, 3), ("a", 3, 5)]
    assert [name for name, *_ in calls[2:]] == ["b"] * -(-count // step)


def test_run_and_large_arrays_put_nothing_off():
    calls = []
    with chains.chained(True) as chain:
        chains.run(2, 2, 8, noted(calls, "a"))
        chain.run()
        assert calls == [("a", 0, 2)]
        chains.run(2, 2, chains.MOST_BYTES + 1, noted(calls, "b"))
        assert calls[1:] == [("b", 0, 2)]
    assert len(calls) == 2


@pytest.mark.parametrize("within", [False, True])
def test_at_once(within):
    calls = []
    if within:
        with chains.chained(False):
            chains.run(2, 2, 8, noted(calls, "a"))
            assert calls
    else:
        chains.run(2, 2, 8, noted(calls, "a"))
    assert calls == [("a", 0, 2)]


def put_off(*works, error=None):
    with chains.chained(True):
        for work in works:
            chains.run(2, 2, 8, work)
        if error is not None:
            raise error


def test_works_of_a_failed_block_never_run():
    calls = []
    with pytest.raises(KeyError):
        put_off(noted(calls, "a"), error=KeyError())
    chains.run(2, 2, 8, noted(calls, "b"))
    assert calls == [("b", 0, 2)]


def test_an_error_in_a_work():
    def failing(start, stop):
        raise ZeroDivisionError

    calls = []
    with pytest.raises(ZeroDivisionError):
        put_off(failing, noted(calls, "b"))
    assert not calls


def test_a_chain_in_between():
    """As of a signal handler."""
    calls = []
    with chains.chained(True):
        chains.run(2, 2, 8, noted(calls, "a"))
        put_off(noted(calls, "b"))
        chains.run(2, 2, 8, noted(calls, "c"))
        assert calls == [("b", 0, 2)]
    assert [name for name, *_ in calls] == ["b", "a", "c"]


def test_another_thread_has_no_chain():
    calls = []
    with chains.chained(True):
        thread = threading.Thread(target=chains.run, args=(2, 2, 8, noted(calls, "a")))
        thread.start()
        thread.join()
        assert calls == [("a", 0, 2)]


def test_a_signal_before_the_first_line_of_the_end_leaves_no_chain():
    """Its error comes where Python enters a function; a chain that stayed would put off works that never run."""

    def interrupt(frame, event, given):
        if frame.f_code.co_name == "__exit__":
            sys.settrace(None)
            raise KeyboardInterrupt

    before = sys.gettrace()
    try:
        with pytest.raises(KeyboardInterrupt), chains.chained(True):
            sys.settrace(interrupt)
    finally:
        sys.settrace(before)
    assert not chains._OPEN
