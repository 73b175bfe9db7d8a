"""What CUDA calls a stream: operations in order, run when the schedule or a wait says so.

    1. push() gives an operation its number and clock, checks its accesses against unfinished work and appends it.
    2. The schedule decides how much runs now: nothing (late), all (eager), or some operations of some queues (random).
    3. A wait is an operation too: it runs the other queue up to the number that it waits for.
    4. synchronize() runs everything and tells the host.

The legacy null queue of a device orders itself with every blocking queue: each waits for the other at every operation.
While a queue is being captured, push() goes to the capture instead (_graph.py).
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import _clock, _emulation, _errors, _launches
from ._clock import HOST, Access, Clock, Operation
from ._emulation import SETTINGS
from ._errors import CUDARuntimeError, HazardError, RaceError
from ._memory import view

LONGEST = 4096  # operations that wait in one queue, about what a driver takes before it blocks the host
LOCK = threading.RLock()

_BYTES = np.dtype(np.uint8)
_ids = itertools.count(1)


def accesses_of(block: Any) -> list:
    return block.accesses


class Queue:
    running: Operation  # the one that runs, of any queue

    def __init__(self, device: Device, handle: int, blocking: bool, priority: int = 0) -> None:
        self.device, self.handle, self.blocking, self.priority = device, handle, blocking, priority
        self.id = next(_ids)
        self.pending: deque[Operation] = deque()
        self.issued = self.finished = self.host_version = 0
        self.clock: Clock = {}
        self.epoch = HOST.epoch
        self.capture: Any = None
        self.owner: int | None = None  # the thread whose own default stream it is
        self.nothing = Operation(self, 0, {}, lambda: None, "nothing", ("", 0))  # all that is pushed, if none is run
        self.returned: deque[Any] = deque()  # blocks of the owner's that other threads have freed

    def __str__(self) -> str:
        return f"stream {self.handle:#x}" if self.handle else "the null stream"

    def push(
        self, run: Callable[[], Any], what: str, accesses: Sequence[Access] = (), kernels: int | None = None
    ) -> Operation:
        """Enqueues `run`, which touches memory as `accesses` say; CuPy would launch so many `kernels` for it."""
        if _emulation.FOUND:
            _emulation.check()
        if _launches.ACTIVE and self.capture is None:
            _launches.add(what, accesses, kernels)
        if not SETTINGS.computes:
            return self.nothing
        if self.device.releasing and not self.device.busy:
            self.device.release_all()
        while self.returned:
            self.device.release(self.returned.popleft())
        return self.enqueue(run, what, accesses)

    def enqueue(
        self, run: Callable[[], Any], what: str, accesses: Sequence[Access] = (), where: tuple[str, int] | None = None
    ) -> Operation:
        with LOCK:
            device = self.device
            device.busy += 1
            try:
                if self.capture is not None:
                    return self.capture.add(self, run, what, accesses)
                if self.host_version != HOST.version or len(device.queues) > 1:
                    self.catch_up(what)
                operation = Operation(self, self.issued + 1, self.clock, run, what, where)
                _clock.check_birth(accesses, operation)
                _clock.check(accesses, operation, accesses_of)
                _clock.record(accesses, operation, accesses_of)
                self.issued += 1
                self.pending.append(operation)
            finally:
                device.busy -= 1
            if SETTINGS.schedule != "late" or len(self.pending) > LONGEST:
                self._schedule()
            return operation

    def catch_up(self, what: str = "event") -> None:
        """Takes over what the host knows, and what the legacy null queue and the blocking ones know of each other."""
        if self.epoch != HOST.epoch:
            self.clock, self.epoch = {}, HOST.epoch
        if self.host_version != HOST.version:  # an epoch's end counts as a version
            self.clock, self.host_version = _clock.joined(self.clock, HOST.clock), HOST.version
        if not self.blocking or len(self.device.queues) == 1:
            return
        null = self.device.null
        for other in (*self.device.queues.values(), *self.device.retired) if self is null else (null,):
            if other is not self and other.blocking:
                if other.capture is not None and self is null:
                    other.capture.invalidate()
                    raise _errors.refused(_errors.CAPTURE_IMPLICIT, what)
                if other.epoch == HOST.epoch and self.clock.get(other.id, 0) < other.issued:
                    self.wait(other, other.issued, {**other.clock, other.id: other.issued})

    def follow(self, event: Operation) -> None:
        """Orders all later operations behind `event`, one of another queue."""
        with LOCK:
            self.catch_up()
            self.wait(event.queue, event.number, {**event.clock, event.queue.id: event.number})

    def wait(self, other: Queue, number: int, clock: Clock) -> None:
        """Orders all later operations behind number `number` of `other`, whose clock there was `clock`."""
        self.clock = _clock.joined(self.clock, clock)
        if other is not self and other.finished < number:
            self.issued += 1
            wait = Operation(self, self.issued, self.clock, lambda: other.run_to(number), "wait")
            self.pending.append(wait)

    def run_to(self, number: int) -> None:
        """Runs operations up to and including `number`."""
        with LOCK, np.errstate(all="ignore"):
            self.device.busy += 1  # a finalizer must not take memory away from the operation that runs
            try:
                while self.finished < number and self.pending:
                    Queue.running = operation = self.pending.popleft()
                    self.finished = operation.number
                    run, operation.run = operation.run, None  # what it holds can go, though accesses still name it
                    run()
            except Exception as error:
                error.add_note(f"in {operation}")
                raise
            finally:
                self.device.busy -= 1

    def _schedule(self) -> None:
        if SETTINGS.schedule == "eager":
            self.run_to(self.issued)
        elif SETTINGS.schedule == "random":
            chosen = SETTINGS.random.choice(list(self.device.queues.values()))
            chosen.run_to(chosen.finished + SETTINGS.random.randrange(3))
        if len(self.pending) > LONGEST:
            self.run_to(self.issued - LONGEST // 2)

    def busy(self) -> bool:
        """Whether work is left, or the host does not know that none is."""
        return bool(self.pending) or (self.epoch == HOST.epoch and HOST.clock.get(self.id, 0) < self.issued)

    def is_capturing(self) -> bool:
        """What CuPy's streamIsCapturing answers; it raises for a spoilt capture, and for the legacy null stream where
        a stream is captured that this would have to wait for."""
        if self is self.device.null:
            if any(queue.blocking and queue.capture is not None for queue in list(self.device.queues.values())):
                raise CUDARuntimeError(_errors.CAPTURE_IMPLICIT)
        elif self.capture is not None and not self.capture.valid:
            raise RuntimeError("the stream was capturing, but an error has invalidated the capture sequence")
        return self.capture is not None

    def synchronize(self) -> None:
        if _launches.ACTIVE:
            _launches.count("waits")
        self.finish()

    def finish(self) -> None:
        """Runs everything and tells the host."""
        with LOCK:
            if self.capture is not None:
                self.capture.refuse()
            self.run_to(self.issued)
            _clock.host_learns({**self.clock, self.id: self.issued} if self.epoch == HOST.epoch else {})
            _end_epoch_if_idle()
        _emulation.check()

    def query(self) -> bool:
        """Whether all is finished; asking lets one operation run, so that a loop of questions comes to an end."""
        with LOCK:
            if self.capture is not None:
                self.capture.refuse()
            self.run_to(self.finished + 1)
            if self.pending:
                return False
            self.finish()
            return True


class Device:
    """One device: its queues by handle, its memory by bytes, and blocks whose freeing came at a bad time."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.queues: dict[int, Queue] = {}
        self.retired: list[Queue] = []  # destroyed, and perhaps with work to do
        self.null = self.queues[0] = Queue(self, 0, True)
        self._own = threading.local()
        self.allocated = 0  # bytes that pools and Memory hold
        self.busy = 0
        self.releasing: deque[Any] = deque()

    def queue(self, handle: int) -> Queue:
        """The queue of a stream handle: 0 and 1 are the legacy null stream, 2 the thread's own default stream."""
        if handle in (0, 1):
            return self.null
        if handle == 2:
            if not hasattr(self._own, "stream"):
                self._own.stream = _OwnStream(self)
            return self._own.stream.queue
        if handle not in self.queues:
            raise CUDARuntimeError(_errors.INVALID_HANDLE)
        return self.queues[handle]

    def retire(self, handle: int) -> None:
        """Forgets a stream's handle. What it still has to do is done, though nobody can wait for it any more."""
        with LOCK:
            queue = self.queues.pop(handle)
            if queue.busy():
                self.retired.append(queue)

    def synchronize(self) -> None:
        if _launches.ACTIVE:
            _launches.count("waits")
        with LOCK:
            for queue in list(self.queues.values()):  # streams that end remove theirs
                if queue.capture is not None:
                    queue.capture.refuse()
            for queue in (*self.queues.values(), *self.retired):
                queue.finish()
            self.retired.clear()

    def release(self, block: Any) -> None:
        """Frees a block in the order of its home queue. Finalizers call it, so at any time: maybe inside of push()."""
        if block.freed is None:
            block.freed = _clock.caller()
        if self.busy:
            self.releasing.append(block)
            return
        home = block.home
        if home.owner not in (None, threading.get_ident()):  # its arena is that thread's, which alone takes from it
            home.returned.append(block)
            return
        if block.capture is not None or any(queue.capture is not None for queue in list(self.queues.values())):
            block.freeing = False
            return  # stays readable: a graph may use it, see Graph._check_alive
        everything = ()
        if any(access[4].queue is not home for access in block.accesses):
            raw = view(block.ptr, (block.size,), _BYTES)
            everything = [(block, block.ptr, block.ptr + block.size, raw, True)]
        try:
            block.freeing = home.enqueue(block.kill, "freeing", everything, block.freed)
        except RaceError as error:  # the block stays readable: the pending work will still be run
            _emulation.found(HazardError(f"freed while in flight: {error}"))
        except Exception as error:  # of work that the schedule ran now
            _emulation.found(error)

    def release_all(self) -> None:
        while self.releasing:
            self.release(self.releasing.popleft())


class _OwnStream:
    """A thread's own default stream on one device, from its first use there to the end of the thread."""

    def __init__(self, device: Device) -> None:
        self.queue = Queue(device, 2, True)
        self.queue.owner = threading.get_ident()
        self._key = -self.queue.id  # in the list of the device, which has named streams by their handles
        device.queues[self._key] = self.queue

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if not is_finalizing():
            self.queue.device.retire(self._key)
            self.queue.owner = None


def _end_epoch_if_idle() -> None:
    """Starts the clocks anew where nothing is unfinished anywhere and the host knows it."""
    for device in DEVICES:
        for queue in (*device.queues.values(), *device.retired):
            if queue.busy():
                return
    if HOST.clock:
        _clock.end_epoch()


DEVICES = [Device(number) for number in range(SETTINGS.devices)]
