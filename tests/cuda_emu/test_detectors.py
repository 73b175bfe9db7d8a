"""Every kind of mistake in a kernel is caught, and the report names block, thread and line."""

import ctypes
import mmap
import re
import signal
import threading

import numpy as np
import pytest
from cuda_emu import build, toolchain
from cuda_emu.samples import HERE, every_order, nans, needs_emulator, random, wrong

pytestmark = [pytest.mark.cpu, needs_emulator]


def line_of(remark):
    """Where wrong.cu has this remark, as messages name a line."""
    lines = (HERE / "wrong.cu").read_text().splitlines()
    return next(f"source.cu:{i}" for i, line in enumerate(lines, 1) if line.endswith(f"// {remark}"))


# Mistakes that every build finds


@every_order
def test_missing_barrier_reads_poison(order):
    y = np.zeros(64, np.float32)
    wrong("missing_barrier", 1, 64, random(64), y, order=order)
    assert np.isnan(y).any()


@every_order
@pytest.mark.parametrize("name", ["partly_written", "never_written", "dynamic_never_written"])
def test_unwritten_shared_memory_is_poison(name, order):
    y = np.zeros(64, np.float32)
    wrong(name, 1, 64, y, shared_bytes=256, order=order)
    assert np.isnan(y).sum() == (32 if name == "partly_written" else 64)


def test_shared_memory_does_not_outlive_its_block():
    y = np.zeros((2, 64), np.float32)
    wrong("written_by_block_0<float>", 2, 64, y)
    assert (y[0] == 1).all()
    assert np.isnan(y[1]).all()


@every_order
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("divergent_barrier", ["divergent barrier", "divergent_barrier one", "divergent_barrier other"]),
        ("exited_lane", ["33 have finished and 31 wait", "31 in __shfl_sync", "lanes 0x20 of mask", "exited_lane"]),
        ("different_calls", ["16 in __shfl_sync", "lanes 0xffff0000", "lanes 0xffff of", "different_calls"]),
        ("barrier_in_half_a_warp", ["16 in __syncwarp", "48 in __syncthreads", "half_a_warp"]),
    ],
)
def test_deadlock(name, message, order):
    with pytest.raises(build.Deadlock) as caught:
        wrong(name, 1, 64, np.zeros(64, np.float32), order=order)
    for part in message:
        remark = re.search(rf"// {part}$", (HERE / "wrong.cu").read_text(), re.MULTILINE)
        assert (line_of(part) if remark else part) in str(caught.value)


def test_mask_that_does_not_name_a_lane():
    y = np.ones(32, np.float32)
    with pytest.raises(build.UndefinedBehaviour, match="mask 0xffff, which does not name its own lane 16"):
        wrong("own_lane_not_named", 1, 32, y)
    wrong("lane_not_named", 1, 32, y)
    assert np.isnan(y[:16]).all()


@pytest.fixture
def guarded():
    """16 floats that end at an unreadable page."""
    memory = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    whole = np.frombuffer(memory, np.uint8)
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(whole.ctypes.data + mmap.PAGESIZE), mmap.PAGESIZE, 0) == 0
    return whole[mmap.PAGESIZE - 64 : mmap.PAGESIZE].view(np.float32)


@pytest.mark.parametrize("check", toolchain.CHECKS)
def test_write_out_of_bounds(guarded, check):
    wrong("write_at", 1, 32, guarded, np.int32(15), check=check)
    assert guarded[15] == 1
    with pytest.raises(build.IllegalAddress) as caught:
        wrong("write_at", (4, 2, 1), 32, guarded, np.int32(16), check=check, order="reverse")
    address = hex(guarded.ctypes.data + 64)
    assert str(caught.value) == (
        f"block (3, 1, 0) thread (3, 0, 0) accesses the illegal address {address} at {line_of('write_at')}"
    )


@pytest.mark.parametrize("check", toolchain.CHECKS)
def test_null_and_unset_pointers(check):
    with pytest.raises(build.IllegalAddress, match=r"illegal address (0x0|\(nil\)) at source\.cu"):
        wrong("read_from", 1, 1, np.uintp(0), random(4), check=check)
    never_set = build.UndefinedBehaviour if check == "races" else build.IllegalAddress  # there, it is misaligned
    with pytest.raises(never_set, match="misaligned"):
        wrong("through_table", 1, 1, np.full(1, -1), check=check)


@pytest.mark.parametrize(
    ("name", "where", "values"),
    [
        ("stack_overflow", "overflows its stack", (random(1), np.int32(0))),
        ("dynamic_overrun", "past the end of dynamic shared memory", (np.int32(64),)),
        ("static_overrun", "past the end of static shared memory", (np.zeros(32, np.int32), np.int32(20000))),
    ],
)
def test_overflow_and_overrun(name, where, values):
    with pytest.raises(build.IllegalAddress, match=where):
        wrong(name, 1, 32, *values, shared_bytes=256)


@pytest.fixture
def interruptible():
    """A process in the background may have been started with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_endless_kernel_can_be_interrupted():
    interrupt = threading.Timer(0.2, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
    interrupt.start()
    with pytest.raises(KeyboardInterrupt):
        wrong("endless", 1, 1, np.zeros(1, np.int32))
    interrupt.join()
    wrong("endless", 1, 1, np.ones(1, np.int32))


def test_division_by_zero():
    with pytest.raises(build.UndefinedBehaviour, match="divides an integer by zero"):
        wrong("divide", 1, 1, np.ones(1, np.int32), np.int32(0))


def test_trap_and_assert():
    with pytest.raises(build.EmulationError, match=rf"thread \(2, 0, 0\) calls __trap\(\) at {line_of('trap')}"):
        wrong("trap", 1, 32)
    wrong("assertion", 1, 32, np.int32(0))
    message = rf"device-side assert triggered: .*: n == 0 at {line_of('assertion')}"
    with pytest.raises(build.EmulationError, match=message):
        wrong("assertion", 1, 32, np.int32(1))


def test_handlers_are_put_back():
    def handlers():
        now = [ctypes.create_string_buffer(256) for _ in range(3)]
        for which, buffer in zip((signal.SIGSEGV, signal.SIGILL, signal.SIGFPE), now, strict=True):
            ctypes.CDLL(None).sigaction(int(which), None, buffer)
        return [buffer.raw[:8] for buffer in now]  # the address; the rest may hold what the stack held

    before = handlers()
    with pytest.raises(build.IllegalAddress):
        wrong("read_from", 1, 1, np.uintp(0), random(4))
    assert handlers() == before
    x, y = random(4), nans(4)
    wrong("read_from", 1, 1, x, y)
    assert handlers() == before
    np.testing.assert_array_equal(x, y)


# Mistakes that only the races build finds


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("read_from", (random(8)[1:], random(4))),
        ("static_overrun", (np.zeros(32, np.int32), np.int32(1))),
        ("overflow", (np.zeros(32, np.int32), np.int32(2**31 - 5))),
    ],
    ids=["misaligned", "overrun", "overflow"],
)
def test_undefined_behaviour(name, values):
    with pytest.raises(build.UndefinedBehaviour, match=r"what C\+\+ leaves undefined.* at source\.cu:\d+"):
        wrong(name, 1, 32, *values, check="races")


def race(name, grid, block, *values, **how):
    with pytest.raises(build.DataRace) as caught:
        wrong(name, grid, block, *values, check="races", **how)
    return str(caught.value)


@every_order
def test_race_between_blocks(order):
    x, out = random(3, 32), np.zeros(32, np.float32)
    wrong("add_rows", 3, 32, x, out, order=order)
    np.testing.assert_allclose(out, x.sum(0), rtol=1e-5, atol=1e-5)  # the plain build cannot see it
    message = race("add_rows", 3, 32, x, out, order=order)
    assert message.count(line_of("add_rows")) == 2
    assert "in global memory" in message


@every_order
def test_race_of_overlapping_strides(order):
    message = race("overlapping_stride", 2, 32, random(128), nans(128), np.int32(128), order=order)
    assert message.count(line_of("overlapping_stride")) == 2


@every_order
@pytest.mark.parametrize("name", ["missing_barrier", "reused_too_early"])
def test_race_in_shared_memory(name, order):
    message = race(name, 1, 64, random(128), nans(128), order=order)
    assert "in shared memory" in message
    assert line_of(f"{name} writes") in message
    assert line_of(f"{name} reads") in message


@every_order
def test_race_within_a_warp(order):
    assert "in shared memory" in race("shuffle_for_syncwarp", 1, 32, random(32), nans(32), order=order)


@every_order
def test_race_between_warps(order):
    assert "in shared memory" in race("syncwarp_for_barrier", 1, 64, random(64), nans(64), order=order)


@every_order
def test_race_of_read_and_later_write(order):
    message = race("cleared_while_read", 1, 64, nans(1), nans(64), order=order)
    assert line_of("cleared_while_read reads") in message
    assert line_of("cleared_while_read writes") in message


@every_order
def test_race_of_plain_and_atomic(order):
    message = race("plain_zero", 1, 64, nans(1), order=order)
    assert line_of("plain_zero") in message
    assert line_of("plain_zero atomic") in message
    assert "atomically" in message


def test_race_without_fence():
    assert "in global memory" in race("unfenced", 3, 1, nans(3), np.zeros(1, np.uint32), np.zeros(1, np.float32))
