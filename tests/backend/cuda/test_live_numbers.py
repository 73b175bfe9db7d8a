"""The block of numbers that are filled in before each launch of a CUDA graph."""

import re
from collections import deque

import numpy as np
import pytest
from captures import Captured

from autograd_gpu.backend import to_numpy
from autograd_gpu.backend.cuda import live_numbers
from autograd_gpu.backend.cuda.live_numbers import SLOTS, LiveNumbers, _Buffer

pytestmark = pytest.mark.cuda


def copying(cp, count, refresh, out):
    """A capture that copies live numbers to `out`."""
    return Captured(lambda: cp.copyto(out, live_numbers.current().array(refresh, count)))


def test_each_replay_has_the_numbers_of_its_time(cp, schedule):
    values, outs = [1.0, 2.0], []
    out = cp.zeros(2)
    captured = copying(cp, 2, lambda: values, out)
    for step in range(20):  # none of which has run when the next is launched, in the late schedule
        values[:] = [float(step), 0.5 * step]
        captured.replay()
        outs.append(out.copy())
    assert [to_numpy(x).tolist() for x in outs] == [[step, 0.5 * step] for step in range(20)]


@pytest.mark.emulated
@pytest.mark.parametrize("schedule", ["late"], indirect=True)
def test_a_ring_without_its_events_is_found(cp, schedule, monkeypatch):
    """Memory that is filled anew before its copy ran gives the numbers of a later replay."""
    values, outs, out = [0.0], [], cp.zeros(1)
    captured = copying(cp, 1, lambda: values, out)
    monkeypatch.setattr(live_numbers, "_RINGS", {0: deque()})
    monkeypatch.setattr(live_numbers, "_free_buffer", lambda module, ring: ring[0] if ring else _Buffer(module))
    for step in range(4):
        values[0] = float(step)
        captured.replay()
        outs.append(out.copy())
    assert [to_numpy(x).item() for x in outs] == [3, 3, 3, 3]


@pytest.mark.parametrize("stride", [1, 3])
def test_memory_is_used_again_once_its_copy_ran(cp, stride, monkeypatch):
    monkeypatch.setattr(live_numbers, "_RINGS", {0: (ring := deque())})
    out = cp.zeros(1)
    captured = copying(cp, 1, lambda: [1.0], out)
    for step in range(12):
        captured.replay()
        if step % stride == stride - 1:
            to_numpy(out)
    assert len(ring) == stride


@pytest.mark.emulated
def test_a_graph_may_be_dropped_before_its_copy_ran(cp, schedule):
    out = cp.zeros(1)
    for step in range(3):
        captured = copying(cp, 1, lambda step=step: [float(step)], out)
        captured.replay()
        del captured
    assert to_numpy(out).item() == 2


def test_seeds_keep_all_bits(cp):
    out = cp.zeros(2, np.uint64)
    numbers = [2**64 - 1, 2**63 + 1]
    captured = Captured(
        lambda: cp.copyto(out, live_numbers.current().array(lambda: np.array(numbers, np.uint64), 2, np.uint64))
    )
    captured.replay()
    assert [int(x) for x in to_numpy(out)] == numbers


def test_errors(cp):
    numbers = LiveNumbers(0)
    assert numbers.place(SLOTS, list) == numbers._block.ptr
    with pytest.raises(RuntimeError, match=f"holds up to {SLOTS} numbers .* capture the work in several graphs"):
        numbers.place(1, list)
    wrong = LiveNumbers(0)
    wrong.place(2, lambda: [1.0])
    with pytest.raises(TypeError, match="2 numbers belong here, not 1"):
        wrong.fill(cp.cuda.get_current_stream())
    typed = LiveNumbers(0)
    typed.place(1, lambda: np.array([1]))
    with pytest.raises(TypeError, match="numbers in float64 or uint64 belong here, not in int64"):
        typed.fill(cp.cuda.get_current_stream())


def test_current():
    numbers = LiveNumbers(0)
    assert live_numbers.current() is None
    with live_numbers.activate(numbers):
        assert live_numbers.current() is numbers
        with pytest.raises(RuntimeError, match=re.escape("x cannot be captured in a CUDA graph, as y: z")):
            live_numbers.refuse("x", "as y", "z")
    assert live_numbers.current() is None
    live_numbers.refuse("x", "as y", "z")
