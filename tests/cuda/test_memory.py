"""Bytes in use, their peaks, limits, and what the pool keeps."""

import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

import autograd_gpu as ag
from autograd_gpu import backend
from autograd_gpu.backend.cuda import memory_stats

pytestmark = pytest.mark.cuda

N = 1 << 18  # bytes


@pytest.fixture
def xp():
    return backend.namespace_on(ag.device("cuda"))


def in_thread(run):
    """What `run` returns, called in another thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(run).result()


@pytest.fixture(autouse=True)
def _pool(xp, monkeypatch):
    """A pool of the test's own, and its own graphs: what others left behind neither counts nor is reused."""
    monkeypatch.setattr(memory_stats, "_GRAPHS", weakref.WeakSet())
    before = xp.cuda.get_allocator()
    xp.cuda.set_allocator(xp.cuda.MemoryPool().malloc)
    yield
    xp.cuda.set_allocator(before)


def test_memory_in_use(xp):
    before = ag.cuda.memory_allocated()
    x = xp.empty(1000, "f4")
    assert ag.cuda.memory_allocated() - before == 4096  # 4000 bytes in steps of 512
    assert ag.cuda.memory_reserved() >= ag.cuda.memory_allocated()
    assert ag.cuda.memory_stats()["allocated_bytes.all.current"] == ag.cuda.memory_allocated()
    del x
    assert ag.cuda.memory_allocated() == before


def test_peaks(xp):
    ag.cuda.reset_peak_memory_stats()
    before = ag.cuda.memory_allocated()
    assert ag.cuda.max_memory_allocated() == before
    x, y = xp.empty(N, "u1"), xp.empty(2 * N, "u1")
    del x, y
    assert ag.cuda.memory_allocated() == before
    assert ag.cuda.max_memory_allocated() == before + 3 * N == ag.cuda.memory_stats()["allocated_bytes.all.peak"]
    assert ag.cuda.max_memory_reserved() >= ag.cuda.max_memory_allocated()
    ag.cuda.reset_peak_memory_stats("cuda:0")
    assert ag.cuda.max_memory_allocated() == before
    summary = ag.cuda.memory_summary()
    assert summary.startswith("CUDA memory of cuda:0, MiB")
    assert "not recorded" not in summary


def test_each_peak_rises_by_itself(xp):
    ag.cuda.reset_peak_memory_stats()
    x, y = xp.empty(2 * N, "u1"), xp.empty(2 * N, "u1")
    del x, y
    kept = xp.empty(3 * N, "u1")  # fits in neither of the two kept blocks
    assert (ag.cuda.max_memory_allocated(), ag.cuda.max_memory_reserved()) == (4 * N, 7 * N)
    ag.cuda.empty_cache()
    more = xp.empty(2 * N, "u1")
    assert kept.nbytes + more.nbytes == 5 * N == ag.cuda.memory_reserved()
    assert (ag.cuda.max_memory_allocated(), ag.cuda.max_memory_reserved()) == (5 * N, 7 * N)


def test_peaks_over_all_threads(xp):
    ag.cuda.reset_peak_memory_stats()
    before, kept = ag.cuda.memory_allocated(), [xp.empty(N, "u1")]
    in_thread(kept.clear)
    kept.append(xp.empty(N, "u1"))
    assert ag.cuda.max_memory_allocated() == before + N
    in_thread(lambda: kept.extend([xp.empty(N, "u1"), xp.empty(N, "u1")]))
    kept.clear()
    assert ag.cuda.max_memory_allocated() == before + 3 * N
    watch, _ = memory_stats.watch()
    with ThreadPoolExecutor(4) as pool:  # a lower look never overwrites a higher one
        list(pool.map(lambda _: xp.empty(N, "u1"), range(64)))
    assert watch.used[0] == ag.cuda.max_memory_allocated() >= before + 3 * N


def test_peaks_that_begin_late_say_so(xp):
    kept = xp.empty(N, "u1")
    assert "not recorded" in ag.cuda.memory_summary()
    assert not [key for key in ag.cuda.memory_stats() if "peak" in key]
    with pytest.warns(UserWarning, match=r"only from now on.*reset_peak_memory_stats") as warned:
        assert ag.cuda.max_memory_allocated() == ag.cuda.memory_allocated() >= kept.nbytes
    assert warned[0].filename == __file__
    assert ag.cuda.max_memory_reserved() == ag.cuda.memory_reserved()


def test_another_allocator(xp):
    pool = xp.cuda.MemoryPool()
    ag.cuda.reset_peak_memory_stats()
    with xp.cuda.using_allocator(pool.malloc):
        assert ag.cuda.memory_allocated() == 0
        for peak in (ag.cuda.max_memory_allocated, ag.cuda.reset_peak_memory_stats):
            with pytest.raises(RuntimeError, match="ask before or after it"):
                peak()
    xp.cuda.set_allocator(pool.malloc)
    ag.cuda.reset_peak_memory_stats()
    kept = xp.empty(N, "u1")
    assert ag.cuda.max_memory_allocated() == ag.cuda.memory_allocated() == pool.used_bytes() == kept.nbytes
    xp.cuda.set_allocator(lambda size: pool.malloc(size))
    with pytest.raises(RuntimeError, match="not a memory pool and does not count its bytes"):
        ag.cuda.memory_allocated()


def test_limit_and_cache(xp):
    assert ag.cuda.get_per_process_memory_fraction() == 1
    kept, dropped = xp.empty(N, "u1"), xp.empty(2 * N, "u1")
    del dropped
    assert (ag.cuda.memory_allocated(), ag.cuda.memory_reserved()) == (N, 3 * N)
    ag.cuda.empty_cache()
    assert ag.cuda.memory_reserved() == N == kept.nbytes
    ag.cuda.set_per_process_memory_fraction(0.5)
    assert ag.cuda.get_per_process_memory_fraction() == pytest.approx(0.5)
    ag.cuda.set_per_process_memory_fraction(0.0)
    with pytest.raises(ag.cuda.OutOfMemoryError, match="Out of memory allocating"):
        xp.empty(N, "u1")
    assert ag.cuda.OutOfMemoryError is xp.cuda.memory.OutOfMemoryError
    for wrong in (-0.1, 1.5, float("nan")):
        with pytest.raises(ValueError, match="between 0 and 1"):
            ag.cuda.set_per_process_memory_fraction(wrong)


def test_pools_of_graphs_count(xp):
    """What arrays hold is in use, all else of a graph's pool is reserved; in the capture, too, and for peaks."""
    ag.cuda.reset_peak_memory_stats()
    x, cuda_graph = ag.zeros(N), ag.cuda.CUDAGraph()
    used, held = ag.cuda.memory_allocated(), ag.cuda.memory_reserved()
    with ag.cuda.graph(cuda_graph):
        y = x + 1
        z = (x * 2).sum()
        assert ag.cuda.memory_allocated() == used + y.nbytes + 512
        assert ag.cuda.max_memory_allocated() >= used + 2 * y.nbytes
    pool = cuda_graph.pool().memory
    assert ag.cuda.memory_allocated() == used + y.nbytes + 512 == ag.cuda.max_memory_allocated() - x.nbytes
    assert ag.cuda.memory_reserved() == held + pool.total_bytes() == ag.cuda.max_memory_reserved()
    cuda_graph.replay()
    del z
    ag.cuda.empty_cache()  # leaves what the graph uses
    assert ag.cuda.memory_allocated() == used + y.nbytes
    assert ag.cuda.memory_reserved() == held + pool.total_bytes()
    cuda_graph.reset()
    assert y.tolist()[:2] == [1, 1]
    assert (ag.cuda.memory_allocated(), ag.cuda.memory_reserved()) == (used, held)


def test_a_capture_that_fails_gives_its_memory_back(device):
    """At once: arrays that the collector finds do not go back to CuPy's pool."""
    x = ag.zeros(N)
    before = ag.cuda.memory_allocated(), ag.cuda.memory_reserved()

    def fail():
        with ag.cuda.graph(ag.cuda.CUDAGraph()):
            y = x + 1
            y.sum().item()

    with pytest.raises(RuntimeError, match="item cannot be captured"):
        fail()
    assert (ag.cuda.memory_allocated(), ag.cuda.memory_reserved()) == before
