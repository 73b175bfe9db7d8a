"""Slabs of page-locked memory: cut into blocks, given back, too small, refused."""

from __future__ import annotations

import collections
import contextlib
import gc
import itertools
import warnings

import fault_injection
import pytest
from offloading import SLAB, equal, numbers

import autograd_gpu as ag
from autograd_gpu.backend.transfer import offload, pinned_memory

pytestmark = [pytest.mark.cuda, pytest.mark.usefixtures("own_slabs")]


class TestSlab:
    def test_first_fit_and_neighbours_that_end_together(self):
        slab = pinned_memory.Slab(4096)
        blocks = [slab.take(n) for n in (1, 513, 1024, 512)]
        assert [(block.low, block.high) for block in blocks] == [(0, 512), (512, 1536), (1536, 2560), (2560, 3072)]
        assert slab.take(2048) is None
        blocks[1] = blocks[2] = None
        again = slab.take(2048)
        assert (again.low, again.high) == (512, 2560)
        assert again.ptr == slab.address(0) + 512
        del again, blocks
        assert slab.idle()
        assert slab.take(4097) is None
        assert slab.take(4096).low == 0

    @pytest.mark.parametrize("where", ["cut", "merge", "pop"])
    def test_an_interrupt_neither_loses_bytes_nor_gives_them_twice(self, where, monkeypatch):
        class Cut(list):
            def __setitem__(self, *args):
                raise KeyboardInterrupt

        class Ended(collections.deque):
            def popleft(self):
                raise KeyboardInterrupt

        def merged(ranges):
            raise KeyboardInterrupt

        slab = pinned_memory.Slab(4096)
        blocks = [slab.take(1024) for _ in range(2)]
        del blocks[0]
        with monkeypatch.context() as patch:
            if where == "cut":
                slab.idle()
                slab._free = Cut(slab._free)
            elif where == "pop":
                slab.ended = Ended(slab.ended)
            else:
                patch.setattr(pinned_memory, "_merged", merged)
            with pytest.raises(KeyboardInterrupt):
                slab.take(1024)
        slab._free, slab.ended = list(slab._free), collections.deque(slab.ended)
        gc.collect()
        blocks += [slab.take(1024) for _ in range(3)]
        assert sorted(block.low for block in blocks) == [0, 1024, 2048, 3072]
        assert slab.take(1) is None
        del blocks
        assert slab.idle()

    def test_too_small_since_what_is_free_is_in_pieces(self):
        slab = pinned_memory.Slab(4 << 20)
        blocks = [slab.take(1 << 20) for _ in range(4)]
        del blocks[::2]
        assert slab.take(2 << 20) is None
        spill = pinned_memory.Spill(slab, 2 << 20)
        with pytest.warns(UserWarning, match=f"slab_bytes={6 << 20}"):
            slab.warn_if_full()
        del spill

    def test_memory_is_page_locked_once(self, cp, monkeypatch):
        made, real = [], pinned_memory.page_locked
        monkeypatch.setattr(pinned_memory, "page_locked", lambda n: made.append(n) or real(n))
        for i in range(50):
            packed = [offload.pack(numbers(cp, 100 + 60 * j, i), SLAB) for j in range(5)]
            if i % 3:
                for j in (4, 3, 2, 1, 0):
                    equal(packed[j].unpack(), 100 + 60 * j, i)
        assert made == [SLAB]
        start = pinned_memory.slab(SLAB).address(0)
        assert cp.cuda.is_memory_pinned(start) if hasattr(cp.cuda, "is_memory_pinned") else True

    def test_a_full_slab_doubles_up_to_a_limit(self, cp, monkeypatch):
        made, real = [], pinned_memory.page_locked
        monkeypatch.setattr(pinned_memory, "page_locked", lambda n: made.append(n) or real(n))
        slab = pinned_memory.Slab(2048, growth=6)
        blocks = [slab.take(1024) for _ in range(4)]
        assert (made, slab.nbytes) == ([2048, 2048], 4096)
        blocks.append(slab.take(5000))  # more than twice as much
        assert (made, slab.nbytes) == ([2048, 2048, 5120], 9216)
        assert slab.take(3584) is None
        blocks.append(slab.take(3072))  # what is left of the limit
        assert (made, slab.nbytes) == ([2048, 2048, 5120, 3072], 12288)
        assert slab.take(1) is None
        places = sorted((block.ptr, block.ptr + block.high - block.low) for block in blocks)
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(places))
        parts = [(int(memory.ptr), int(memory.ptr) + n) for (_, memory), n in zip(slab._parts, made, strict=True)]
        assert all(any(low <= start and stop <= high for low, high in parts) for start, stop in places)
        blocks.clear()
        assert slab.idle()
        assert slab.take(5632) is None  # free ranges of two allocations are not joined
        assert slab.take(5120) is not None

    def test_a_slab_that_grows_takes_all_that_is_packed(self, cp):
        packed = [offload.pack(numbers(cp, 256 * (i + 1), i), 8192) for i in range(6)]
        assert not any(one.spill for one in packed)
        for i in reversed(range(6)):
            equal(packed[i].unpack(), 256 * (i + 1), i)
        assert pinned_memory.slab(8192).nbytes == 4 * 8192
        del packed
        ag.cuda.empty_cache()
        assert not pinned_memory._slabs

    def test_a_slab_that_cannot_grow_says_why(self, cp, monkeypatch):
        slab = pinned_memory.slab(2048)

        def refuse(nbytes):
            raise MemoryError("no more")

        monkeypatch.setattr(pinned_memory, "page_locked", refuse)
        packed = [offload.pack(numbers(cp, 256, i), 2048) for i in range(3)]
        assert [one.spill is None for one in packed] == [True, True, False]
        with pytest.warns(UserWarning, match=r"into 2048 bytes of page-locked.*it could not grow: no more"):
            equal(packed[2].unpack(), 256, 2)
        assert slab.most == 2048  # it does not ask again

    def test_full(self, cp, monkeypatch):
        """What does not fit goes to pageable memory; one warning says a size that is enough."""
        monkeypatch.setattr(pinned_memory, "GROWTH", 1)

        def run(slab_bytes):
            packed = [offload.pack(numbers(cp, 256 * (i + 1), i), slab_bytes) for i in range(8)]
            for i in reversed(range(8)):
                equal(packed[i].unpack(), 256 * (i + 1), i)
                packed[i].prefetch()
            return sum(one.pinned is None for one in packed)

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert 0 < run(20 << 10) < 8
            assert 0 < run(20 << 10) < 8
        assert len(caught) == 1
        assert "slab_bytes=1048576" in str(caught[0].message)
        assert "up to 36864 bytes were kept at one time" in str(caught[0].message)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert run(36864) == run(1 << 20) == 0

    def test_spilled_bytes_end_with_the_handle(self, cp):
        for _ in range(3):
            packed = offload.pack(numbers(cp), 0)
            with contextlib.suppress(UserWarning), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                packed.unpack()
            del packed
        assert pinned_memory.slab(0)._needed == 1024

    def test_no_page_locked_memory(self, cp, monkeypatch):
        def refuse(nbytes):
            raise cp.cuda.runtime.CUDARuntimeError(2)

        def fail(nbytes):
            raise cp.cuda.runtime.CUDARuntimeError(700)

        array = numbers(cp)
        with monkeypatch.context() as patch:
            patch.setattr(cp.cuda, "PinnedMemory", fail, raising=False)
            with pytest.raises(cp.cuda.runtime.CUDARuntimeError, match="cudaErrorIllegalAddress"):  # of a kernel before
                offload.pack(array, SLAB)
            patch.setattr(cp.cuda, "PinnedMemory", refuse, raising=False)
            with pytest.raises(MemoryError, match=r"cannot page-lock 65536 bytes .* use a smaller slab_bytes"):
                offload.pack(array, SLAB)
        equal(offload.pack(array, SLAB).unpack())

    @pytest.mark.parametrize("prefetch", [False, True])
    def test_out_of_memory_on_the_device(self, cp, prefetch):
        packed = offload.pack(numbers(cp), SLAB, ahead=0)
        with fault_injection.out_of_memory(ag.device("cuda"), at=1):
            if prefetch:
                packed.prefetch()
                assert packed.device_bytes == 0
            else:
                with pytest.raises(MemoryError):
                    packed.unpack()
        equal(packed.unpack())

    def test_released_when_nothing_is_kept(self, cp):
        packed = offload.pack(numbers(cp), SLAB)
        first = pinned_memory.slab(SLAB)
        ag.cuda.empty_cache()
        assert pinned_memory.slab(SLAB) is first
        assert packed.source.array is None
        equal(packed.unpack())
        del packed
        ag.cuda.empty_cache()
        assert not pinned_memory._slabs
        equal(offload.pack(numbers(cp), SLAB).unpack())
        assert pinned_memory.slab(SLAB) is not first
