"""Numbers that change between the replays of a CUDA graph: a block of device memory, filled before each launch.

A captured kernel keeps the arguments that it was captured with. So while a stream is captured, numbers such as a
learning rate or the first counter of a dropout mask get a place in the block, and the kernel a pointer to it. Before
each launch of the graph the functions registered with the places say what the numbers are now, and one copy from
page-locked memory fills the block. What the host has to learn from a replay is read back behind it (`read_back`).
"""

from __future__ import annotations

import itertools
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from ..arrays.dtypes import float64, uint64
from . import runtime

SLOTS = 8192  # of 8 bytes
MOST_AHEAD = 64  # replays that wait for the device before the host does
Refresh = Callable[[], Any]  # returns a tuple or list of floats, or an array in float64 or uint64
Undo = Callable[[], None]
# By device, buffers whose copies may still have to run: of all graphs, since a graph may be dropped before that.
_RINGS: defaultdict[int, deque[_Buffer]] = defaultdict(deque)
_LOCK = threading.Lock()
_NUMBERS = itertools.count(1)
_CURRENT: ContextVar[LiveNumbers | None] = ContextVar("live_numbers", default=None)


class _Buffer:
    """Page-locked memory for the numbers of a replay, as two arrays, and the event behind the copy that reads it."""

    __slots__ = ("address", "copied", "floats", "words")

    def __init__(self, module: Any) -> None:
        memory = module.PinnedMemoryPointer(module.PinnedMemory(8 * SLOTS), 0)
        self.address, self.copied = memory.ptr, module.Event(disable_timing=True)
        self.words = np.frombuffer(memory, np.uint64, SLOTS)
        self.floats = self.words.view(float64)


class LiveNumbers:
    """The numbers of one graph, and the functions that give them anew before each launch."""

    def __init__(self, device: int) -> None:
        module, self.device = runtime.cupy(), device
        with module.cuda.Device(device):
            self._block = module.cuda.MemoryPointer(module.cuda.Memory(8 * SLOTS), 0)  # freeing it waits for copies
        self._used = 0
        self.number = next(_NUMBERS)  # tells captures apart
        self._places: list[tuple[int, int, Refresh, Undo | None]] = []  # the first slot and the one behind the last
        self._effects: list[Undo] = []
        self.skip: Skip | None = None  # of the optimizer steps that are being captured
        self.held: dict[Any, Any] = {}  # what a part of the library keeps for this capture, by its owner

    def place(self, count: int, refresh: Refresh, undo: Undo | None = None) -> int:
        """The device address of `count` slots, which hold what `refresh` returns before each launch.

        `refresh` returns a tuple or list of floats, or an array in float64 or uint64, and is called in the order of the
        places. If one of them raises, so that there is no replay, `undo` takes back what `refresh` has counted.
        RuntimeError if the block is full.
        """
        begin, end = self._used, self._used + count
        if end > SLOTS:
            raise RuntimeError(f"a CUDA graph holds up to {SLOTS} numbers that change between replays (hyperparameters "
                               "of optimizers, seeds and counters of generators), and this one needs more: capture "
                               "the work in several graphs")
        self._used = end
        self._places.append((begin, end, refresh, undo))
        return int(self._block.ptr) + 8 * begin

    def array(self, refresh: Refresh, count: int, dtype: np.dtype = float64, undo: Undo | None = None) -> Any:
        """The slots of a new `place` as an array for a kernel to read."""
        address = self.place(count, refresh, undo)
        return runtime.cupy().ndarray((count,), dtype, self._block + (address - int(self._block.ptr)))

    def read_back(self, array: Any) -> Callable[[], float]:
        """What tells, in an effect `after` a replay, the float64 number that the replay has left in `array`."""
        module = runtime.cupy().cuda
        pinned, api = module.PinnedMemory(8), module.runtime
        api.memcpyAsync(pinned.ptr, array.data.ptr, 8, api.memcpyDeviceToHost, runtime.current.stream().ptr)
        word = np.frombuffer(module.PinnedMemoryPointer(pinned, 0), np.float64, 1)
        return lambda: float(word[0])

    def after(self, effect: Undo) -> None:
        """Makes each replay wait until it is complete, and then call `effect`."""
        self._effects.append(effect)

    def settle(self, stream: Any) -> None:
        """Called behind a launch on `stream`."""
        if self._effects:
            stream.synchronize()
            for effect in self._effects:
                effect()

    def fill(self, stream: Any) -> None:
        """Puts a copy of the present numbers on `stream`; the graph is to be launched on it next."""
        if not self._places:
            return
        module, ring = runtime.cupy().cuda, _RINGS[self.device]
        buffer = _free_buffer(module, ring)
        undos: list[Undo] = []
        try:
            for begin, end, refresh, undo in self._places:
                numbers = refresh()
                if undo is not None:
                    undos.append(undo)
                if len(numbers) != end - begin:
                    raise TypeError(f"{end - begin} numbers belong here, not {len(numbers)}")
                if not isinstance(numbers, np.ndarray):
                    if numbers:
                        buffer.floats[begin:end] = numbers
                elif numbers.dtype in (float64, uint64):
                    buffer.words[begin:end] = numbers.view(uint64)
                else:
                    raise TypeError(f"numbers in float64 or uint64 belong here, not in {numbers.dtype}")
        except BaseException:
            for undo in reversed(undos):
                undo()
            ring.appendleft(buffer)
            raise
        if self._used:
            api = module.runtime
            api.memcpyAsync(self._block.ptr, buffer.address, 8 * self._used, api.memcpyHostToDevice, stream.ptr)
        buffer.copied.record(stream)
        ring.append(buffer)


class Skip:
    """That optimizer steps do nothing at a replay at which `flag`, an array of a float64 number, is not 0.

    `undos` take back what the steps have counted, once the host knows.
    """

    def __init__(self, flag: Any) -> None:
        self.flag = flag
        self.undos: list[Undo] = []


def _free_buffer(module: Any, ring: deque[_Buffer]) -> _Buffer:
    """Page-locked memory that no copy reads any more; waits for the device if it is far behind."""
    with _LOCK:
        if ring and ring[0].copied.done:
            return ring.popleft()
        if len(ring) >= MOST_AHEAD:
            ring[0].copied.synchronize()
            return ring.popleft()
    return _Buffer(module)


def current() -> LiveNumbers | None:
    """The numbers of the graph that is being captured here, None outside of a capture."""
    return _CURRENT.get()


def skip() -> Skip | None:
    """That of the optimizer steps that are being captured here, None if they are never skipped."""
    live = current()
    return None if live is None else live.skip


def refuse(what: str, reason: str, instead: str) -> None:
    """Raises RuntimeError if a graph is being captured here."""
    if current() is not None:
        raise RuntimeError(f"{what} cannot be captured in a CUDA graph, {reason}: {instead}")


@contextmanager
def activate(instance: LiveNumbers) -> Iterator[None]:
    """Makes `instance` the current one inside the block."""
    token = _CURRENT.set(instance)
    try:
        yield
    finally:
        _CURRENT.reset(token)
