"""The addresses that CuPy's pool hands out, also asked of CuPy itself on a GPU; and what the stand-in finds although
addresses repeat."""

import ctypes
import gc
import random

import pytest

pytestmark = [pytest.mark.cuda, pytest.mark.smoke]


@pytest.fixture
def emulation(xp):
    """The stand-in's settings, with CuPy's addresses; None on a GPU."""
    try:
        from cupy import _emulation
    except ImportError:
        yield None
        return
    before = _emulation.SETTINGS.addresses
    _emulation.configure(addresses="pool")
    yield _emulation
    _emulation.configure(addresses=before)


@pytest.fixture
def pool(xp, emulation):
    """A pool of its own; nothing found may be left over."""
    pool = xp.cuda.MemoryPool()
    with xp.cuda.using_allocator(pool.malloc):
        yield pool
    xp.cuda.Device().synchronize()
    gc.collect()
    if emulation:
        emulation.check()


@pytest.fixture(scope="module")
def xp():
    import cupy

    return cupy


@pytest.fixture
def take(xp, pool):
    return lambda size: xp.empty(size, "uint8")


def test_freed_memory_is_taken_again(xp, take):
    a = take(1000)
    address = a.data.ptr
    assert address % 512 == 0
    del a
    assert take(600).data.ptr == address  # 1024 bytes, too
    a = take(1)  # its beginning
    b = take(1)  # its end
    assert a.data.ptr == address != b.data.ptr
    assert take(600).data.ptr not in (a.data.ptr, b.data.ptr)


def test_the_smallest_chunk_that_fits_is_taken(take):
    large, small, smaller = take(8192), take(2048), take(1024)
    addresses = {len(x): x.data.ptr for x in (large, small, smaller)}
    del large, small, smaller
    a, b = take(1500), take(2500)
    assert a.data.ptr == addresses[2048]  # and 512 bytes are left
    assert b.data.ptr == addresses[8192]
    assert take(513).data.ptr == addresses[1024]


def test_parts_become_one_again(pool, take):
    whole = take(4096)
    address = whole.data.ptr
    del whole
    parts = [take(1024) for _ in range(4)]
    assert parts[0].data.ptr == address
    assert len({part.data.ptr for part in parts}) == 4
    del parts[1], parts[2]
    assert pool.n_free_blocks() == 2
    del parts[0]
    assert pool.n_free_blocks() == 2  # the first two are one
    assert take(2048).data.ptr == address
    parts.clear()
    assert pool.n_free_blocks() == 1
    assert take(4096).data.ptr == address
    assert pool.total_bytes() == 4096


def test_a_split_segment_is_kept(pool, take):
    whole = take(4096)
    address = whole.data.ptr
    del whole
    part = take(512)
    pool.free_all_blocks()
    assert (pool.total_bytes(), pool.used_bytes(), pool.n_free_blocks()) == (4096, 512, 1)
    del part
    assert take(4096).data.ptr == address
    pool.free_all_blocks()
    assert pool.total_bytes() == 0


def test_streams_do_not_take_from_each_other(xp, pool, take):
    a, stream = take(512), xp.cuda.Stream(non_blocking=True)
    address = a.data.ptr
    del a
    with stream:
        b = take(512)
        other = b.data.ptr
        assert other != address
    del b  # goes back to the stream's arena, though another one is current
    assert take(512).data.ptr == address
    with stream:
        assert take(512).data.ptr == other


def test_out_of_memory_comes_after_freeing(xp, pool, take):
    pool.set_limit(size=4096)
    kept = take(512)
    take(3072)  # freed, and too small for what comes
    assert pool.n_free_blocks() == 1
    assert take(3584).nbytes == 3584
    assert pool.total_bytes() == 4096
    with pytest.raises(xp.cuda.memory.OutOfMemoryError, match="so far: 512 bytes, limit set to: 4,096 bytes"):
        take(4096)
    assert kept.nbytes == pool.used_bytes() == 512


class Model:
    """What the pool of one stream should do. A chunk is (address of its segment, first byte in it, byte behind it)."""

    def __init__(self):
        self.free = []

    def fitting(self, size):
        """The smallest free chunks that hold `size` bytes; CuPy may take any of them."""
        chunks = [chunk for chunk in self.free if chunk[2] - chunk[1] >= size]
        least = min((chunk[2] - chunk[1] for chunk in chunks), default=0)
        return [chunk for chunk in chunks if chunk[2] - chunk[1] == least]

    def cut(self, chunk, size):
        segment, low, high = chunk
        self.free.remove(chunk)
        if low + size < high:
            self.free.append((segment, low + size, high))
        return segment, low, low + size

    def give(self, chunk):
        segment, low, high = chunk
        for other in list(self.free):
            if other[0] == segment and (other[2] == low or other[1] == high):
                self.free.remove(other)
                low, high = min(low, other[1]), max(high, other[2])
        self.free.append((segment, low, high))


@pytest.mark.parametrize("seed", range(5))
def test_addresses_are_those_of_best_fit(take, pool, emulation, seed):
    """Beside a model: each address is that of a chunk which the model would take, or new where it has none."""
    rng, model, held = random.Random(seed), Model(), []
    spread = 16 if emulation else 1  # the stand-in's units of 512 bytes begin 8 KiB apart
    for _ in range(400):
        if held and rng.random() < 0.5:
            model.give(held.pop(rng.randrange(len(held)))[1])  # and frees the array
            continue
        size = rng.choice((1, 512, 600, 1024, 2000, 5000, 9000))
        array, size = take(size), -(-size // 512) * 512
        address, fitting = array.data.ptr, model.fitting(size)
        if fitting:
            (chunk,) = [chunk for chunk in fitting if chunk[0] + spread * chunk[1] == address]
            chunk = model.cut(chunk, size)
        else:
            chunk = address, 0, size
        held.append((array, chunk))
        del array
        assert pool.used_bytes() == sum(chunk[2] - chunk[1] for _, chunk in held)
        assert pool.n_free_blocks() == len(model.free)


def test_a_loop_gets_the_same_addresses_in_each_step(xp, pool):
    """From the second step on: the first one's are in the order in which the device gave memory."""
    seen = []
    for _ in range(5):
        a = xp.ones(1000, "float32")
        b = a * 2
        c = b + a
        seen.append((a.data.ptr, b.data.ptr, c.data.ptr))
        assert c.tolist() == [3] * 1000
        del a, b, c
    assert len(set(seen[1:])) == 1
    assert {*seen[0]} == {*seen[1]}


# ---- what is found all the same ------------------------------------------------------------------------


@pytest.mark.emulated
def test_memory_comes_back_poisoned(xp, pool):
    address = xp.ones(8).data.ptr
    a = xp.empty(8)
    assert a.data.ptr == address
    assert xp.isnan(a).all()


@pytest.mark.emulated
@pytest.mark.parametrize("schedule", ["late", "eager", "random:1"])
def test_work_behind_the_former_owner(xp, pool, emulation, schedule):
    """What waits in the stream sees the memory as it was when it was enqueued."""
    before = emulation.SETTINGS.schedule
    emulation.configure(schedule=schedule)
    sums = []
    for step in range(20):
        a = xp.full(64, step, "float64")
        sums.append(a.sum())
        del a
    assert [float(x) for x in sums] == [64 * step for step in range(20)]
    emulation.configure(schedule=before)


@pytest.mark.emulated
def test_freed_memory_is_unreadable(xp, pool, emulation):
    a = xp.zeros(8)
    raw = a._a
    del a
    xp.cuda.Device().synchronize()
    pointer = xp.cuda.MemoryPointer(xp.cuda.UnownedMemory(raw.ctypes.data, 64, None), 0)
    with pytest.raises(emulation.HazardError, match="memory that was freed"):
        pointer.memset_async(0, 64)


@pytest.mark.emulated
@pytest.mark.parametrize("place", [-8, 64, 2000])
def test_writing_outside_is_found(xp, pool, emulation, place):
    a = xp.zeros(64, "uint8")
    xp.cuda.Device().synchronize()
    ctypes.memset(a.data.ptr + place, 0, 8)
    del a
    with pytest.raises(emulation.HazardError, match="something wrote outside a block of 64 bytes"):
        xp.cuda.Device().synchronize()


@pytest.mark.emulated
def test_freed_in_flight_is_found(xp, pool, emulation):
    a, stream = xp.zeros(64), xp.cuda.Stream(non_blocking=True)
    ready = xp.cuda.get_current_stream().record()
    with stream:
        stream.wait_event(ready)
        b = a + 1
    del a
    with pytest.raises(emulation.HazardError, match="freed while in flight"):
        xp.zeros(64)
    emulation.forget()
    xp.cuda.Device().synchronize()
    assert b.tolist() == [1] * 64


@pytest.mark.emulated
def test_a_graph_finds_its_memory_given_away(xp, pool, emulation):
    stream = xp.cuda.Stream(non_blocking=True)
    x = xp.ones(64)
    xp.cuda.Device().synchronize()
    with stream:
        stream.begin_capture()
        y = x + 1
        address = y.data.ptr
        out = y * 2
        graph = stream.end_capture()
        del y
        graph.launch()
        stream.synchronize()
        assert out.tolist() == [4] * 64
        other = xp.zeros(64)
        assert other.data.ptr == address
        with pytest.raises(emulation.HazardError, match="its pool has given it away again"):
            graph.launch()
        del other
