"""Copies between a device and its page-locked slab: what waits for what, what is used again, and what runs out."""

from __future__ import annotations

import collections
import gc
import inspect
import re
import sys
import threading
import warnings

import numpy as np
import pytest
from offloading import SLAB, equal, numbers

import autograd_gpu as ag
from autograd_gpu.backend.keyed_singleton import KeyedSingleton
from autograd_gpu.backend.transfer import copy_engine, offload

pytestmark = [pytest.mark.cuda, pytest.mark.usefixtures("own_slabs")]


@pytest.fixture
def unfinished(cp, monkeypatch):
    """No copy is done as far as the host knows: a GPU may be faster than a test."""

    class Running(cp.cuda.Event):
        done = False

    monkeypatch.setattr(cp.cuda, "Event", Running)


class TestValues:
    @pytest.mark.parametrize("make", [
        numbers, lambda cp: numbers(cp).reshape(16, 16).T, lambda cp: numbers(cp).reshape(2, 8, 16)[:, ::2],
        lambda cp: numbers(cp)[::-1], lambda cp: numbers(cp)[:0], lambda cp: cp.broadcast_to(numbers(cp, 4), (3, 4)),
        lambda cp: numbers(cp).astype(np.float16), lambda cp: numbers(cp) > 3, lambda cp: cp.asarray(2.0),
    ])  # fmt: skip
    @pytest.mark.parametrize("slab_bytes", [SLAB, 0])
    @pytest.mark.filterwarnings("ignore:saved tensors do not fit")
    def test_any_array_comes_back(self, make, slab_bytes, cp):
        array = make(cp)
        expected, transposed = array.get(), array.flags.fnc
        packed = offload.pack(array, slab_bytes, ahead=0)
        del array
        for _ in range(2):
            result = packed.unpack()
            assert (result.dtype, result.flags.fnc) == (expected.dtype, transposed)
            np.testing.assert_array_equal(result.get(), expected)
            packed.prefetch()

    @pytest.mark.parametrize("ahead", [0, 1, 5])
    def test_what_is_unpacked_is_new_memory(self, ahead, cp):
        array = numbers(cp)
        packed = offload.pack(array, SLAB, ahead)
        for _ in range(3):
            result = packed.unpack()
            result += 1
        equal(array)
        equal(packed.unpack())

    def test_written_to_after_prefetch(self, cp):
        array = numbers(cp)
        packed = offload.pack(array, SLAB, ahead=1)
        packed.prefetch()
        packed.source.keep({})
        array += 1
        equal(packed.unpack())

    def test_bytes(self, cp):
        array = numbers(cp)
        packed = offload.pack(array, SLAB, ahead=0)
        assert (packed.device_bytes, packed.host_bytes) == (0, 1024)
        packed.prefetch()
        packed.prefetch()
        assert packed.device_bytes == 1024
        packed.forget()
        assert packed.device_bytes == 0
        packed.prefetch()
        equal(packed.unpack())
        assert packed.device_bytes == 0

    @pytest.mark.usefixtures("unfinished")
    def test_the_source_is_held_while_it_is_copied(self, cp):
        first = offload.pack(numbers(cp), SLAB, ahead=1)
        assert first.source.array is not None
        first.prefetch()
        offload.pack(numbers(cp), SLAB, ahead=1)
        assert first.source.array is None  # only one may be on its way
        assert first.device_bytes == 1024  # but it will be needed soon
        before = copy_engine.engine(0).back.count
        equal(first.unpack())
        assert copy_engine.engine(0).back.count == before  # nothing came from the host
        assert first.device_bytes == 0


def computed_before_it_is_read(cp):
    offload.pack(numbers(cp), SLAB)


def block_read_before_it_is_filled_again(cp):
    packed = offload.pack(numbers(cp), 1024, ahead=0)
    packed.prefetch()
    del packed
    offload.pack(numbers(cp), 1024, ahead=9)


def memory_used_before_it_is_filled(cp):
    packed = offload.pack(numbers(cp), SLAB, ahead=0)
    numbers(cp)
    packed.prefetch()


def block_filled_before_it_is_read(cp):
    packed, side = offload.pack(numbers(cp), SLAB, ahead=9), cp.cuda.Stream(non_blocking=True)
    with side:
        packed.unpack()


def filled_before_it_is_used(cp):
    offload.pack(numbers(cp), SLAB, ahead=0).unpack() + np.float32(1)


def read_before_it_is_freed(cp):
    array = numbers(cp)
    packed = offload.pack(array, SLAB, ahead=9)
    packed.source.keep({})
    array += 1


def read_before_another_stream_writes(cp):
    array, side = numbers(cp), cp.cuda.Stream(non_blocking=True)
    packed = offload.pack(array, SLAB, ahead=9)
    side.wait_event(cp.cuda.get_current_stream().record())
    with side:
        packed.source.keep({})
        array += 1
    cp.cuda.get_current_stream().wait_event(side.record())


# each place that waits: function, and which of its waits; what goes wrong without it
WAITS = {
    ("_send", 0): computed_before_it_is_read,
    ("_send", 1): block_read_before_it_is_filled_again,
    ("_fetch", 0): memory_used_before_it_is_filled,
    ("_fetch", 1): block_filled_before_it_is_read,
    ("Arrival.take", 0): filled_before_it_is_used,
    ("CopyEngine.order", 0): read_before_it_is_freed,
    ("PendingCopy.keep", 0): read_before_another_stream_writes,
}


@pytest.mark.emulated
class TestEachWait:
    """Under the stand-in a missing wait is a race, found where the later access is ordered."""

    @pytest.fixture(autouse=True)
    def _clean(self, own_slabs, schedule, cp, monkeypatch):
        monkeypatch.setattr(copy_engine, "_engines", KeyedSingleton(copy_engine.CopyEngine))
        monkeypatch.setattr(copy_engine, "_streams", collections.defaultdict(set))  # one stream: the CPU never waits
        yield
        schedule.forget()
        cp.cuda.Device().synchronize()
        gc.collect()
        schedule.forget()

    def run(self, program, cp, schedule, monkeypatch, without=None):
        """The lines that waited, by function; that with the number `without` of its function did not."""
        lines = {name: [] for name, _ in WAITS}

        def wait(stream, event):
            frame = sys._getframe(1)
            name, line = frame.f_code.co_qualname, frame.f_lineno
            if line not in lines[name]:
                lines[name].append(line)
            if (name, lines[name].index(line)) != without:
                stream.wait_event(event)

        monkeypatch.setattr(cp.cuda.Event, "done", False)  # as far as the host knows
        monkeypatch.setattr(copy_engine, "wait", wait)
        monkeypatch.setattr(offload, "wait", wait)
        program(cp)
        gc.collect()
        numbers(cp)  # what was found in a finalizer is raised by the next call
        schedule.check()
        return {(name, i) for name in lines for i in range(len(lines[name]))}

    @pytest.mark.parametrize("site", WAITS, ids=lambda site: f"{site[0]}-{site[1]}")
    def test_is_needed(self, site, cp, schedule, monkeypatch):
        assert site in self.run(WAITS[site], cp, schedule, monkeypatch)
        with pytest.raises((schedule.RaceError, schedule.HazardError)):
            self.run(WAITS[site], cp, schedule, monkeypatch, without=site)

    def test_is_in_the_table(self):
        source = "".join([inspect.getsource(module) for module in (copy_engine, offload)])
        assert len(re.findall(r"(?<!def )\bwait\(", source)) == len(WAITS)


class TestOrder:
    @pytest.mark.emulated
    def test_nothing_waits_on_the_host(self, cp, schedule):
        """But for the reads of the test itself: pack, prefetch and unpack only order streams."""
        schedule.configure(schedule="late")
        array = numbers(cp)
        packed = [offload.pack(array + np.float32(i), SLAB, ahead=1) for i in range(4)]
        for one in reversed(packed):
            one.prefetch()
            one.unpack()
        assert not cp.cuda.get_current_stream().done

    def test_another_stream_than_that_of_the_prefetch(self, cp, schedule):
        packed, side = offload.pack(numbers(cp), SLAB, ahead=0), cp.cuda.Stream(non_blocking=True)
        packed.prefetch()
        with side:
            array = packed.unpack()
            equal(array)

    @pytest.mark.emulated
    def test_made_on_a_stream_that_was_told_before(self, cp, schedule, monkeypatch):
        """It waited for all that was done with the array, as it has to before that is dropped; then the copy comes."""
        monkeypatch.setattr(cp.cuda.Event, "done", False)
        main, side = cp.cuda.get_current_stream(), cp.cuda.Stream(non_blocking=True)
        with side:
            array = numbers(cp)
            offload.pack(array, SLAB, ahead=9)
        main.wait_event(side.record())
        packed = offload.pack(array, SLAB, ahead=9)
        side.wait_event(main.record())
        del array
        copy_engine.settle(0)
        with side:
            numbers(cp)
        equal(packed.unpack())

    @pytest.mark.emulated
    def test_made_on_a_stream_that_has_saved_nothing(self, cp, schedule, monkeypatch):
        """It waits for what was done with the array, not for the copy, of which it has not heard."""
        monkeypatch.setattr(copy_engine, "_streams", collections.defaultdict(set))
        monkeypatch.setattr(cp.cuda.Event, "done", False)
        main, side = cp.cuda.get_current_stream(), ag.cuda.Stream()
        with side:
            array = numbers(cp)
        main.wait_event(side.cupy_stream.record())
        packed = offload.pack(array, SLAB, ahead=9)
        side.wait_event(main.record())
        del array
        copy_engine.settle(0)
        with side:
            numbers(cp)
        equal(packed.unpack())

    def test_an_interrupt_at_the_copy(self, cp, monkeypatch, schedule):
        """The array, the block and the stream stay as they should be, whatever was ordered before the interrupt."""
        def interrupt(fence):
            raise KeyboardInterrupt

        kept = offload.pack(numbers(cp, first=9), 1024, ahead=0)
        with monkeypatch.context() as patch:
            patch.setattr(copy_engine.Fence, "record", interrupt)
            with pytest.raises(KeyboardInterrupt):
                kept.unpack()
            del kept
            with pytest.raises(KeyboardInterrupt):
                offload.pack(numbers(cp, first=3), 1024, ahead=0)
        equal(offload.pack(numbers(cp, first=1), 1024, ahead=0).unpack(), first=1)

    def test_refused_while_capturing(self, cp):
        packed, array, stream = offload.pack(numbers(cp), SLAB), numbers(cp), cp.cuda.Stream(non_blocking=True)
        stream.wait_event(cp.cuda.get_current_stream().record())
        with stream:
            stream.begin_capture()
            for use in (lambda: offload.pack(array, SLAB), packed.unpack):
                with pytest.raises(RuntimeError, match=r"offloaded only in a capture by ag.cuda.graph"):
                    use()
            array += 1
            stream.end_capture().launch()
            stream.synchronize()
        equal(array, first=1)


@pytest.mark.emulated
def test_another_thread_looks_just_before_the_copy(cp, schedule, monkeypatch):
    """It does not take the copy for done, nor its end for marked."""
    real, others = cp.cuda.runtime.memcpyAsync, []

    def copy(*args):
        monkeypatch.setattr(cp.cuda.runtime, "memcpyAsync", real)
        others.append(threading.Thread(target=copy_engine.engine(0).settle, args=(9,)))
        others[0].start()
        others[0].join(0.05)
        real(*args)

    monkeypatch.setattr(cp.cuda.runtime, "memcpyAsync", copy)
    packed = offload.pack(numbers(cp), SLAB, ahead=9)
    others[0].join()
    numbers(cp)
    equal(packed.unpack())


def test_threads(cp):
    """Handles of their own and one that all share, through a slab that is too small for all at once."""
    shared, errors = offload.pack(numbers(cp, first=100), 8 << 10, ahead=0), []

    def work(i):
        try:
            with cp.cuda.Stream(non_blocking=True):
                for j in range(20):
                    packed = offload.pack(numbers(cp, first=i + j), 8 << 10, ahead=i % 3)
                    shared.prefetch()
                    equal(shared.unpack(), first=100)
                    packed.prefetch()
                    equal(packed.unpack(), first=i + j)
                cp.cuda.get_current_stream().synchronize()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not errors
