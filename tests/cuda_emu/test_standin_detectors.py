"""Each bug in order and lifetime that the stand-in finds: a wrong program beside its right twin, in every schedule.

A hazard that nothing can raise at its place, such as memory freed in flight, is raised by the next call to the device
or by `_emulation.check()`.
"""

import gc
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from cuda_emu.programs import N, found, ready, two_streams

pytestmark = [pytest.mark.emulated, pytest.mark.smoke]


# ---- order between streams -----------------------------------------------------------------------------


def read_after_write(cp, first, second, a, b):
    with first:
        a += 1
    yield first, second
    with second:
        b[...] = a
    yield b, 2


def write_after_read(cp, first, second, a, b):
    with first:
        b[...] = a
    yield first, second
    with second:
        a.fill(9)
    yield b, 1


def write_after_write(cp, first, second, a, b):
    with first:
        a.fill(5)
    yield first, second
    with second:
        a.fill(6)
    yield a, 6


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("program", [read_after_write, write_after_read, write_after_write])
def test_order(cp, schedule, program, waits):
    (first, second), arrays = two_streams(cp), ready(cp, 1, 0)
    steps = program(cp, first, second, *arrays)
    next(steps)
    if waits:
        second.wait_event(first.record())
    with nullcontext() if waits else found("RaceError", rf"race: .*{Path(__file__).name}:\d+.*nothing orders the two"):
        array, value = next(steps)
        second.synchronize()
        assert array.get(stream=second).tolist() == [value] * N
    first.synchronize()


def test_an_event_recorded_too_early(cp, schedule):
    copying, computing = two_streams(cp)
    host, (a, b) = np.ones(N, "float32"), ready(cp, 0, 0)
    with copying:
        event = copying.record()
        a.set(host)
    computing.wait_event(event)
    with computing, found("RaceError", "race"):
        b += a
    copying.synchronize()


def test_the_host_orders_too(cp, schedule):
    first, second = two_streams(cp)
    (a,) = ready(cp, 1)
    with first:
        a += 1
    first.synchronize()
    with second:
        a += 1
    assert a.get(stream=second)[0] == 3


@pytest.mark.parametrize("blocking", [True, False])
def test_the_null_stream_waits_for_blocking_streams_only(cp, schedule, blocking):
    (a,) = ready(cp, 1)
    stream = cp.cuda.Stream(non_blocking=not blocking)
    with stream:
        a += 1
    with nullcontext() if blocking else found("RaceError", "null stream"):
        a += 1
        with stream:
            a += 1
        assert a.get(stream=stream)[0] == 4
    stream.synchronize()


@pytest.mark.parametrize("disjoint", [True, False])
def test_columns_of_one_matrix(cp, schedule, disjoint):
    matrix = cp.zeros((8, 4))
    cp.cuda.Stream.null.synchronize()
    first, second = two_streams(cp)
    with first:
        matrix[:, 0] = 1
    with second, nullcontext() if disjoint else found("RaceError", "race"):
        matrix[:, slice(1, 4) if disjoint else slice(0, 2)] = 2
    cp.cuda.Device().synchronize()
    assert matrix.sum() == (56 if disjoint else 8)


@pytest.mark.parametrize("name", ["scale", "scale_all"])
@pytest.mark.parametrize("waits", [True, False])
def test_kernels_take_part(cp, schedule, kernels, name, waits):
    first, second = two_streams(cp)
    a, b = ready(cp, 1, 0)
    table = cp.asarray(np.array([a.data.ptr], np.uint64))
    cp.cuda.Stream.null.synchronize()
    rest = np.float32(2), np.int32(N)
    arguments = {"scale": (a, b, *rest), "scale_all": (table, np.int32(1), *rest)}
    with first:
        a += 1
    if waits:
        second.wait_event(first.record())
    with nullcontext() if waits else found("RaceError", name):
        with second:
            kernels[name]((1,), (N,), arguments[name])
        second.synchronize()
        assert (b if name == "scale" else a).get(stream=second)[0] == 4
    first.synchronize()
    second.synchronize()


WAITS = ("copy out", "free", "prefetch", "use")


@pytest.mark.parametrize("missing", [None, *WAITS])
def test_activation_offload(cp, schedule, missing):
    """Four layers: copy each activation to pinned memory and free it, then fetch it back one layer ahead."""
    import cupyx

    compute, copies = two_streams(cp)

    def wait(name, stream, event):
        if name != missing:
            stream.wait_event(event)

    with nullcontext() if missing is None else found("HazardError", "race|in flight"):
        pinned = [cupyx.empty_pinned(N, "float32") for _ in range(4)]
        with compute:
            x = cp.ones(N, "float32")
            for host in pinned:
                activation = x * 2
                wait("copy out", copies, compute.record())
                activation.get(stream=copies, out=host, blocking=False)
                x = activation + 1
                wait("free", compute, copies.record())
                del activation
            fetched = {}
            grad = cp.ones(N, "float32")
            for layer in (3, 2, 1, 0):
                for ahead in {layer, max(layer - 1, 0)} - set(fetched):
                    fetched[ahead] = cp.empty(N, "float32")
                    wait("prefetch", copies, compute.record())
                    fetched[ahead].set(pinned[ahead], stream=copies)
                    arrived = copies.record()
                wait("use", compute, arrived)
                grad *= fetched.pop(layer)
                cp._emulation.check()
            assert grad.get(stream=compute)[0] == 2 * 6 * 14 * 30
    cp._emulation.forget()  # one missing wait is found several times
    cp.cuda.Device().synchronize()
    cp._emulation.forget()


# ---- lifetimes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("waits", [True, False])
def test_memory_freed_in_flight(cp, schedule, waits):
    first, second = two_streams(cp)
    with first:
        a = cp.ones(N)
    second.wait_event(first.record())
    with second:
        b = a + 1
    if waits:
        first.wait_event(second.record())
    del a
    with nullcontext() if waits else found("HazardError", "freed while in flight: race: freeing on stream"):
        cp._emulation.check()
    assert b.get(stream=second)[0] == 2


@pytest.mark.parametrize("waits", [True, False])
def test_pinned_memory_freed_in_flight(cp, schedule, waits):
    import cupyx

    stream, _ = two_streams(cp)
    (a,) = ready(cp, 0)
    host = cupyx.zeros_pinned(N, "float32")
    host[...] = 3
    a.set(host, stream=stream)
    if waits:
        stream.synchronize()
    del host
    gc.collect()
    with nullcontext() if waits else found("HazardError", "pinned memory freed in flight"):
        cp._emulation.check()
    assert a.get(stream=stream)[0] == 3


@pytest.mark.parametrize("schedule", ["late"])
def test_pinned_memory_is_read_and_written_when_the_stream_gets_there(cp, schedule):
    import cupyx

    stream, _ = two_streams(cp)
    a, b = ready(cp, 1, 0)
    host = cupyx.empty_pinned(N, "float32")
    a.get(stream=stream, out=host, blocking=False)
    assert np.isnan(host).all()  # a reader that does not wait
    stream.synchronize()
    assert (host == 1).all()
    b.set(host, stream=stream)
    host.fill(7)  # a writer that does not wait
    assert b.get(stream=stream)[0] == 7


@pytest.mark.parametrize("waits", [True, False])
def test_memory_is_taken_over_from_the_stream_that_allocates(cp, schedule, waits):
    """The pool may give what the first stream's earlier work still uses."""
    first, second = two_streams(cp)
    with first:
        cp.ones(N) + 1
        a = cp.empty(N)
    if waits:
        second.wait_event(first.record())
    with second, nullcontext() if waits else found("RaceError", "allocated on stream"):
        a.fill(1)
    cp.cuda.Device().synchronize()


def test_a_stale_pointer_table(cp, schedule, kernels):
    a, b = ready(cp, 1, 2)
    table = cp.asarray(np.array([a.data.ptr, b.data.ptr], np.uint64))
    arguments = (table, np.int32(2), np.float32(2), np.int32(N))
    kernels["scale_all"]((1,), (N,), arguments)
    assert b[0] == 4
    del a
    with found("HazardError", f"the pointer table holds the address of memory that was freed.*{Path(__file__).name}"):
        kernels["scale_all"]((1,), (N,), arguments)
        cp.cuda.Device().synchronize()


def test_a_pointer_table_whose_arrays_die_behind_it(cp, schedule, kernels):
    """As with arrays that are arguments: their memory goes back in the order of the stream."""
    _, other = two_streams(cp)
    a, b = ready(cp, 1, 2)
    table = cp.asarray(np.array([a.data.ptr, b.data.ptr], np.uint64))
    arguments = (table, np.int32(2), np.float32(2), np.int32(N))
    kernels["scale_all"]((1,), (N,), arguments)
    del a
    assert b[0] == 4
    c = cp.ones(N, "float32")
    table = cp.asarray(np.array([c.data.ptr, b.data.ptr], np.uint64))
    other.wait_event(cp.cuda.Stream.null.record())
    with other:
        kernels["scale_all"]((1,), (N,), (table, *arguments[1:]))
    with found("HazardError", "freed"):
        del c
        other.synchronize()
    cp.cuda.Device().synchronize()


def test_bare_addresses_must_be_memory_in_use(cp, kernels):
    (a,) = ready(cp, 1)
    address = a.data.ptr
    del a
    rest = np.int32(0), np.float32(1), np.int32(1)
    for use in (lambda: cp.cuda.runtime.memsetAsync(address, 0, 4, 0),
                lambda: kernels["scale_all"]((1,), (1,), (address, *rest)),
                lambda: kernels["scale_all"]((1,), (1,), (address + 2**20, *rest))):  # fmt: skip
        with found("HazardError", "freed|no device memory"):
            use()


def test_leaks_show_in_the_pool(cp):
    pool, kept = cp.cuda.MemoryPool(), []
    with cp.cuda.using_allocator(pool.malloc):
        for step in range(3):
            kept.append(cp.empty(N, "float64"))
            assert pool.used_bytes() == 512 * (step + 1)
        kept.clear()
    assert pool.used_bytes() == 0


@pytest.mark.parametrize(("at", "text"), [(N, None), (N + 1, "wrote outside a block"), (-1, "wrote outside a block")])
def test_the_slack_around_a_block(cp, schedule, kernels, at, text):
    a = cp.zeros(N + 1, "float32")  # 4 bytes more than a multiple of 16: the next 12 belong to nobody
    kernels["put"]((1,), (1,), (a, np.int32(at)))
    cp.cuda.Device().synchronize()
    with nullcontext() if text is None else found("HazardError", text):
        del a
        cp.cuda.Device().synchronize()
        cp._emulation.check()


def test_an_address_beyond_the_block(cp, kernels):
    from cuda_emu.build import IllegalAddress

    (a,) = ready(cp, 1)
    beyond = 4 if cp._emulation.SETTINGS.addresses == "unique" else 1024  # elements up to the unreadable page, at most

    def launch_and_wait():
        kernels["put"]((1,), (1,), (a, np.int32(N + beyond)))
        cp.cuda.Device().synchronize()

    with pytest.raises(IllegalAddress) as error:
        launch_and_wait()
    assert any("put on the null stream (enqueued at" in note for note in error.value.__notes__)
