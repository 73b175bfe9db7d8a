"""Devices, streams, events and seeds of ag.cuda."""

import contextlib
import copy
import doctest
import importlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from checkout import ROOT, STAND_IN

import autograd_gpu as ag
from autograd_gpu import backend
from autograd_gpu.cuda.devices import _uuid

# not those of cuda.monitor: NVML knows no emulated device
EXAMPLES = ["backend.cuda.runtime", "backend.cuda.streams", "cuda.devices", "cuda.graphs", "cuda.graphed_step",
            "cuda.graphed_callables", "cuda.memory", "cuda.seeds"]


@pytest.fixture
def xp():
    return backend.namespace_on(ag.device("cuda"))


def in_thread(run):
    """What `run` returns, called in another thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(run).result()


@pytest.mark.cpu
def test_every_public_name_has_a_docstring_with_an_example():
    for name in set(ag.cuda.__all__) - {"OutOfMemoryError"}:
        assert ">>>" in (getattr(ag.cuda, name).__doc__ or ""), name


@pytest.mark.cuda
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_run_on_the_device(xp, name):
    allocator = xp.cuda.get_allocator()
    module = importlib.import_module(f"autograd_gpu.{name}")
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for test in doctest.DocTestFinder(exclude_empty=True).find(module, globs={"ag": ag}):
        runner.run(test)
    xp.cuda.set_allocator(allocator)
    xp.get_default_memory_pool().set_limit(size=0)
    results = runner.summarize(verbose=False)
    assert results.attempted > 0 == results.failed


@pytest.mark.cuda
def test_devices(xp):
    count = ag.cuda.device_count()
    assert count == xp.cuda.runtime.getDeviceCount() >= 1
    assert ag.cuda.is_available()
    assert ag.cuda.current_device() == 0
    for form in (0, "cuda:0", "cuda", ag.device("cuda:0"), xp.cuda.Device(0), None, -1):
        with ag.cuda.device(form):
            assert ag.cuda.current_device() == 0
        ag.cuda.synchronize(form)
    ag.cuda.set_device(-1)
    for form in (count, f"cuda:{count}"):
        with pytest.raises(RuntimeError, match=rf"device 'cuda:{count}' does not exist: CUDA shows {count} device"):
            ag.cuda.synchronize(form)
    with pytest.raises(ValueError, match="expected a CUDA device, but got 'cpu'"):
        ag.cuda.get_device_name("cpu")
    with pytest.raises(TypeError, match=r"expected a CUDA device as a number, a name or a Device, but got 1\.5"):
        ag.cuda.set_device(1.5)


@pytest.mark.cuda
def test_properties(xp):
    properties, raw = ag.cuda.get_device_properties(), xp.cuda.runtime.getDeviceProperties(0)
    assert properties.name == ag.cuda.get_device_name() == raw["name"].decode()
    assert (properties.major, properties.minor) == ag.cuda.get_device_capability()
    assert properties.total_memory == raw["totalGlobalMem"]
    assert properties.multi_processor_count == raw["multiProcessorCount"] > 0
    assert properties.warp_size == 32
    assert repr(properties).startswith(f"DeviceProperties(name={properties.name!r}, major={properties.major}, ")
    assert f"total_memory={raw['totalGlobalMem'] // 2**20} MiB" in repr(properties)
    free, total = ag.cuda.mem_get_info()
    assert 0 < free <= total


@pytest.mark.cpu
def test_uuids():
    """CuPy ends the bytes at a zero, as if they were text."""
    assert _uuid(bytes(range(1, 17))) == "01020304-0506-0708-090a-0b0c0d0e0f10"
    assert _uuid(b"12345678") is None


SECOND_DEVICE = """
import autograd_gpu as ag, cupy
with ag.cuda.device(1):
    assert ag.cuda.current_device() == 1 == ag.cuda.current_stream().device.index
    side = ag.cuda.Stream()
    assert str(side.device) == "cuda:1"
assert ag.cuda.current_device() == 0 and ag.cuda.default_stream(1) != ag.cuda.default_stream(0)
before = ag.cuda.current_stream(0)
with ag.cuda.stream(side):  # the device comes with the stream
    assert ag.cuda.current_device() == 1 and ag.cuda.current_stream() == side
    x = cupy.ones(1000, "f4")
    assert ag.cuda.current_stream("cuda:0") == before
assert ag.cuda.current_device() == 0
assert ag.cuda.memory_allocated(1) - ag.cuda.memory_allocated(0) == 4096 == ag.cuda.memory_allocated("cuda:1")
ag.cuda.current_stream().wait_stream(side)
event = side.record_event()
try:
    event.record()
except RuntimeError as error:
    assert "belongs to cuda:1" in str(error)
event.wait()
ag.cuda.set_stream(side)
assert ag.cuda.current_device() == 1
ag.cuda.set_device("cuda:0")
assert ag.cuda.current_stream() == before
ag.cuda.synchronize(1)
try:
    ag.ones(2, 2, device="cuda:1") @ ag.ones(2, 2, device="cuda:1")
except RuntimeError as error:
    assert "cuda:1, but the current device is cuda:0; call inside `with ag.cuda.device(1):`" in str(error)
with ag.cuda.stream(side):  # a copy between devices waits for the source's stream, and the source for the copy
    with ag.cuda.device(0):
        source = ag.ones(20, 30, device="cuda:0").T * 3
        moved = source.to("cuda:1")
        source.mul_(2)
    assert float(moved.sum()) == 1800.0
ag.cuda.synchronize(0)
print("done")
"""
CAPTURES = """
import autograd_gpu as ag
x, z = ag.ones(4, device="cuda:0"), ag.ones(4, device="cuda:1")

with ag.cuda.device(1):
    there = ag.cuda.Stream()

def within(context):
    with context:
        z.mul_(2)

for work in (
    lambda: x.to("cuda:1"), lambda: ag.ones(3, device="cuda:1"), lambda: within(ag.cuda.device(1)),
    lambda: within(ag.cuda.stream(there)), lambda: ag.cuda.set_device(1), lambda: ag.cuda.set_stream(there),
):
    try:
        with ag.cuda.graph(ag.cuda.CUDAGraph()):
            y = x * 2
            work()
    except RuntimeError as error:
        assert "<string>:" in str(error) and "work of one device, here cuda:0, and this is on cuda:1" in str(error)
    else:
        raise AssertionError("a replay would leave out the work on cuda:1")
    assert ag.cuda.current_device() == 0 and (x * 2).tolist() == [2] * 4
with ag.cuda.device(1):
    assert z.tolist() == [1] * 4
    with ag.cuda.graph(ag.cuda.CUDAGraph()):
        z.mul_(2)
print("done")
"""


@pytest.mark.emulated
@pytest.mark.parametrize("program", [SECOND_DEVICE, CAPTURES], ids=["streams", "captures"])
def test_two_devices(program):
    environment = {**os.environ, "PYTHONPATH": str(STAND_IN), "AUTOGRAD_GPU_EMU_DEVICES": "2"}
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


# ---- streams and events ------------------------------------------------------------------------------


@pytest.mark.cuda
def test_current_stream_is_cupys(xp):
    ours, theirs = ag.cuda.Stream(priority=-1), xp.cuda.Stream(non_blocking=True)
    default = ag.cuda.current_stream()
    assert default == ag.cuda.default_stream() == xp.cuda.Stream.null
    assert ours.is_non_blocking
    with ag.cuda.stream(ours):
        assert ag.cuda.current_stream() == ours
        assert xp.cuda.get_current_stream() is ours.cupy_stream
        assert in_thread(ag.cuda.current_stream) == default
        with theirs:
            assert ag.cuda.current_stream() == theirs
            with ag.cuda.stream(None):
                assert ag.cuda.current_stream() == theirs
        with contextlib.suppress(KeyError), ag.cuda.stream(theirs), ours, default:
            assert ag.cuda.current_stream() == default
            raise KeyError
        assert ag.cuda.current_stream() == ours
    assert ag.cuda.current_stream() == default


@pytest.mark.cuda
def test_set_stream_lasts_through_a_block():
    default, first, second = ag.cuda.current_stream(), ag.cuda.Stream(), ag.cuda.Stream()
    try:
        ag.cuda.set_stream(first)
        with ag.cuda.stream(second):
            assert ag.cuda.current_stream() == second
            ag.cuda.set_stream(default)
        assert ag.cuda.current_stream() == first
        ag.cuda.set_stream(None)
        assert ag.cuda.current_stream() == first
    finally:
        ag.cuda.set_stream(default)


@pytest.mark.cuda
def test_deeply_nested_backward_stays_on_the_current_stream():
    """The engine runs it on a helper thread, where CuPy would begin on the default stream."""
    seen = []

    class Nested(ag.autograd.Function):
        @staticmethod
        def forward(ctx, x, depth):
            ctx.depth = depth
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            seen.append(ag.cuda.current_stream().ptr)
            if ctx.depth:
                with ag.enable_grad():
                    Nested.apply(ag.ones(2, requires_grad=True), ctx.depth - 1).sum().backward()
            return g, None

    side = ag.cuda.Stream()
    with ag.cuda.stream(side):
        Nested.apply(ag.ones(2, requires_grad=True), 40).sum().backward()
    side.synchronize()
    assert seen == [side.ptr] * 41


@pytest.mark.cuda
def test_streams_compare_by_handle(xp):
    stream, other = ag.cuda.Stream(), ag.cuda.Stream()
    assert stream != other
    for same in (stream.cupy_stream, ag.cuda.ExternalStream(stream.cuda_stream)):
        assert stream == same
        assert hash(stream) == hash(same)
        assert other != same
    assert stream.__cuda_stream__() == (0, stream.ptr) == (0, stream.cuda_stream)
    assert xp.cuda.Stream.from_external(stream) == stream.cupy_stream
    assert stream != stream.ptr
    assert repr(stream) == f"<autograd_gpu.cuda.Stream device=cuda:0 cuda_stream={stream.ptr:#x}>"
    assert not hasattr(stream, "no_such_method")
    assert copy.copy(stream) == stream


@pytest.mark.cuda
def test_what_counts_as_a_stream(xp):
    class Foreign:
        def __init__(self, stream):
            self.stream = stream

        def __cuda_stream__(self):
            return self.stream.__cuda_stream__()

    stream = ag.cuda.Stream()
    for form in (stream, stream.cupy_stream, Foreign(stream), ag.cuda.ExternalStream(stream.ptr, "cuda:0")):
        with ag.cuda.stream(form):
            assert ag.cuda.current_stream() == stream
        ag.cuda.default_stream().wait_stream(form)
        event = ag.cuda.Event()
        event.record(form)
        event.wait(form)
    for wrong in (stream.ptr, "cuda:0", object()):
        with pytest.raises(TypeError, match=r"expected a stream of ag\.cuda or cupy\.cuda.*ExternalStream"):
            ag.cuda.set_stream(wrong)
    with pytest.raises(TypeError, match="needs a cudaStream_t as an integer"):
        ag.cuda.ExternalStream(stream)


@pytest.mark.cuda
@pytest.mark.parametrize("way", ["wait_stream", "wait_event", "event.wait", "cupy's event", "synchronize"])
def test_work_is_ordered_across_streams(xp, way):
    side, home = ag.cuda.Stream(), ag.cuda.current_stream()
    x = ag.randn(1000, device="cuda")
    side.wait_stream(home)
    with ag.cuda.stream(side):
        y = x * 2
    if way == "wait_stream":
        home.wait_stream(side)
    elif way == "wait_event":
        home.wait_event(side.record_event())
    elif way == "event.wait":
        event = ag.cuda.Event()
        event.wait()  # nothing recorded: does nothing
        event.record(side)
        event.wait()
    elif way == "cupy's event":
        home.wait_event(side.record_event(xp.cuda.Event()))
    else:
        side.synchronize()
        assert side.query()
    z = y + 1
    side.wait_stream(home)  # y's memory goes back to side, which must not use it before z is done
    np.testing.assert_allclose(z.cpu().numpy(), x.cpu().numpy() * 2 + 1, rtol=1e-6)


@pytest.mark.emulated
def test_work_that_is_not_ordered_is_a_race():
    from cupy._errors import HazardError

    x, side = ag.randn(1000, device="cuda"), ag.cuda.Stream()
    with pytest.raises(HazardError, match="race"), ag.cuda.stream(side):
        x * 2


@pytest.mark.cuda
def test_events(xp):
    start, end = ag.cuda.Event(enable_timing=True), ag.cuda.Event(enable_timing=True, blocking=True)
    assert start.query()
    start.synchronize()
    assert start.cuda_event == 0
    assert "not recorded" in repr(start)
    with pytest.raises(ValueError, match="must be recorded"):
        start.elapsed_time(end)
    start.record()
    y = ag.ones(1000, device="cuda") * 2
    end.record(xp.cuda.get_current_stream())
    end.synchronize()
    assert end.query()
    assert start.query()
    assert 0 <= start.elapsed_time(end) < 60_000
    assert repr(start) == f"<autograd_gpu.cuda.Event device=cuda:0 cuda_event={start.cuda_event:#x}>"
    assert ag.cuda.Event().ptr > 0
    with pytest.raises(ValueError, match="enable_timing=True"):
        start.elapsed_time(ag.cuda.Event())
    with pytest.raises(ValueError, match="leave out enable_timing or interprocess"):
        ag.cuda.Event(enable_timing=True, interprocess=True)
    assert float(y.sum()) == 2000


@pytest.mark.cuda
def test_queries_tell_running_from_failed(xp, monkeypatch):
    stream, begin = ag.cuda.Stream(), ag.cuda.Event(enable_timing=True)
    begin.record(stream)
    end = stream.record_event(ag.cuda.Event(enable_timing=True))
    stream.synchronize()
    for status, done in ((0, True), (600, False)):
        monkeypatch.setattr(xp.cuda.runtime, "eventQuery", lambda event, status=status: status)
        monkeypatch.setattr(xp.cuda.runtime, "streamQuery", lambda stream, status=status: status)
        assert end.query() is stream.query() is done
    with pytest.raises(RuntimeError, match=r"must be completed.*synchronize\(\)"):
        begin.elapsed_time(end)
    monkeypatch.setattr(xp.cuda.runtime, "eventQuery", lambda event: 700)
    monkeypatch.setattr(xp.cuda.runtime, "streamQuery", lambda stream: 700)
    for query in (end.query, stream.query):
        with pytest.raises(xp.cuda.runtime.CUDARuntimeError, match="cudaErrorIllegalAddress"):
            query()


@pytest.mark.cuda
def test_states_of_generators():
    states = ag.cuda.get_rng_state_all()
    first = ag.rand(3, device="cuda").tolist()
    for put_back in (lambda: ag.cuda.set_rng_state(states[0], 0), lambda: ag.cuda.set_rng_state_all(states)):
        put_back()
        assert ag.rand(3, device="cuda").tolist() == first
    ag.cuda.manual_seed(11)
    assert ag.cuda.initial_seed() == 11


@pytest.mark.cuda
@pytest.mark.parametrize("seed", [ag.cuda.manual_seed, ag.cuda.manual_seed_all])
def test_seeds(seed):
    on_cpu = ag.random.initial_seed()
    drawn = [(seed(7), ag.rand(5, device="cuda").cpu().numpy())[1] for _ in range(2)]
    np.testing.assert_array_equal(*drawn)
    assert ag.random.initial_seed() == on_cpu
