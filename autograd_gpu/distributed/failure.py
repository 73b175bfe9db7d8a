"""What ends a group of processes when one of them fails: notices between ranks, and errors that name the rank.

A rank that raises tells the others, who raise in the collective where they wait for it; then it ends all. A rank that
waits too long asks the others what they do, and names those who do not answer or wait elsewhere.
"""

from __future__ import annotations

import importlib
import pickle
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, NamedTuple

from .board import Board

_TAG = 1
_PAUSE = 0.005  # seconds between looks for notices
_FOLLOWING = 0.2  # seconds between looks at the device
_FORWARDING = 0.3  # seconds in which the launcher passes on what ranks have printed, before it ends with them
GRACE = 2.0  # seconds in which other ranks answer, and in which they take note of an error before all are ended


class DistError(RuntimeError):
    """An error in a collective."""


class DistBackendError(DistError):
    """A collective that cannot complete; the text names it, and the rank that is to blame."""


class Call(NamedTuple):
    """A collective of a group: the `number`-th of it."""

    name: str
    number: int
    group: str
    ranks: Sequence[int]
    detail: str = ""

    def __str__(self) -> str:
        of = "" if self.group == "default" else f" of group {self.group}"
        return f"{self.name} #{self.number}{of}" + (f" ({self.detail})" if self.detail else "")

    def world_rank(self, rank: int) -> int:
        return self.ranks[rank]


class Watch:
    """Looks for what keeps a collective from completing; this one, of a single process, has nothing to look for."""

    def begin(self, call: Call) -> None:
        """Notes the collective that this rank begins."""

    def look(self, call: Call, waited: float, limit: float) -> None:
        """Raises DistBackendError if `call`, for which this rank has `waited`, cannot complete in `limit` seconds."""

    def follow(self, complete: Callable[[], bool], call: Call, limit: float) -> None:
        """Ends all processes if `call`, which the device does while the host goes on, takes more than `limit`."""

    def of_engine(self, call: Call, error: Exception) -> Exception:
        """The error to raise for one of the engine."""
        return DistBackendError(f"{call} failed: {error}")

    def end(self, advance: Callable[[], None]) -> None:
        """Called when the process begins no further collectives; `advance` goes on with those under way."""


class Notice(NamedTuple):
    """What a rank tells the others."""

    kind: str  # "raised", "ended", "asks" what the others do, "waits" in the collective `text`
    text: str
    question: int = 0


class MPIWatch(Watch):
    """Exchanges notices over a communicator of their own."""

    def __init__(self, comm: Any) -> None:
        self.mpi: Any = importlib.import_module("mpi4py.MPI")
        self.comm = comm
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        self.sending: list[Any] = []
        self.raised: dict[int, str] = {}
        self.ended: dict[int, str] = {}
        self.answers: dict[int, str] = {}
        self.questions = 0
        self.latest: Call | None = None
        self.queued: deque[tuple[Callable[[], bool], Call, float, float]] = deque()  # what the device is to do
        self.follower: threading.Thread | None = None
        self.listening = threading.Lock()
        self.looked = 0.0
        self.board = Board(comm, self.mpi)
        self._hook = sys.excepthook
        sys.excepthook = self.uncaught

    # ---- notices -----------------------------------------------------------------------------

    def tell(self, rank: int, notice: Notice) -> None:
        """Sends a notice, without waiting."""
        self.sending = [request for request in self.sending if not request.Test()]
        self.sending.append(self.comm.Isend([pickle.dumps(tuple(notice)), self.mpi.BYTE], rank, _TAG))

    def tell_all(self, notice: Notice) -> None:
        for rank in range(self.size):
            if rank != self.rank:
                self.tell(rank, notice)

    def listen(self, doing: str) -> None:
        """Takes the notices that have come, and answers questions by what this rank is `doing`."""
        status = self.mpi.Status()
        while self._take(status, doing):
            pass

    def _take(self, status: Any, doing: str) -> bool:
        """Takes one notice, if there is one."""
        with self.listening:  # the thread that follows the device listens, too
            if not self.comm.Iprobe(self.mpi.ANY_SOURCE, _TAG, status):
                return False
            content = bytearray(status.Get_count(self.mpi.BYTE))
            source = status.Get_source()
            self.comm.Recv([content, self.mpi.BYTE], source, _TAG)
            kind, text, question = pickle.loads(content)
            if kind == "asks":
                self.tell(source, Notice("waits", doing, question))
            elif kind == "waits":
                if question == self.questions:
                    self.answers[source] = text
            else:
                (self.raised if kind == "raised" else self.ended)[source] = text
            return True

    # ---- waiting -----------------------------------------------------------------------------

    def begin(self, call: Call) -> None:
        self.latest = call
        self.board.write(f"its last collective was {call}")

    def look(self, call: Call, waited: float, limit: float) -> None:
        now = time.monotonic()
        if now - self.looked < _PAUSE:
            return
        self.looked = now
        self.listen(str(call))
        for rank in call.ranks:
            if rank in self.raised:
                raise DistBackendError(f"{call} cannot complete: rank {rank} has failed: {self.raised[rank]}")
            if rank in self.ended and waited > 1:  # what it sent before may still be on its way
                raise DistBackendError(f"{call} cannot complete: rank {rank} has ended without it; its last "
                                       f"collective was {self.ended[rank]}")
        if waited > limit:
            raise DistBackendError(self._late(call, waited))

    def follow(self, complete: Callable[[], bool], call: Call, limit: float) -> None:
        self.queued.append((complete, call, time.monotonic(), limit))
        if self.follower is None:
            self.follower = threading.Thread(target=self._follow, name="autograd_gpu.distributed", daemon=True)
            self.follower.start()

    def _follow(self) -> None:
        """The thread that looks after the device: the host may already wait for it, where nothing can be raised."""
        while True:
            time.sleep(_FOLLOWING)
            while self.queued and self.queued[0][0]():
                self.queued.popleft()
            if self.queued:
                _, call, begun, limit = self.queued[0]
                try:
                    self.look(call, time.monotonic() - begun, limit)
                except DistBackendError as error:
                    print(f"autograd_gpu.distributed: on the device, {error}", file=sys.stderr, flush=True)
                    self.fail(str(error))

    def _late(self, call: Call, waited: float) -> str:
        """Asks the others what they do, and returns the text of the error."""
        self.questions += 1
        self.answers = {}
        others = [rank for rank in call.ranks if rank != self.rank]
        for rank in others:
            self.tell(rank, Notice("asks", str(call), self.questions))
        until = time.monotonic() + GRACE
        while len(self.answers) < len(others) and time.monotonic() < until and not self.raised:
            self.listen(str(call))
            time.sleep(_PAUSE)
        text = f"{call} did not complete within {waited:.1f} s on rank {self.rank}: "
        silent = [rank for rank in others if rank not in self.answers]
        reasons = [f"rank {rank} has failed: {reason}" for rank, reason in self.raised.items()]
        if silent and not reasons:
            reasons.append(f"rank{'s' * (len(silent) > 1)} {', '.join(map(str, silent))} did not come to it and did "
                           "not answer, so it computes something else, hangs or is gone")
        reasons += [f"rank {rank} waits in {doing}" for rank, doing in self.answers.items() if doing != str(call)]
        return text + ("; ".join(reasons) or "all ranks have begun it; the network may be down")

    # ---- the end -----------------------------------------------------------------------------

    def uncaught(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        """The hook for an exception that ends the program: tells the others and ends them all."""
        self._hook(kind, error, trace)
        text = "".join(traceback.format_exception_only(kind, error)).strip()  # also of one whose str() raises
        print(f"autograd_gpu.distributed: rank {self.rank} of {self.size} has failed, after "
              f"{self.latest or 'no collective'}: {text}", file=sys.stderr, flush=True)
        self.fail(text)

    def fail(self, text: str) -> None:
        """Tells the others that this rank has failed, gives them time to raise, and ends all processes."""
        self.board.end()
        self.tell_all(Notice("raised", text))
        until = time.monotonic() + GRACE
        while len(self.raised) + len(self.ended) < self.size - 1 and time.monotonic() < until:
            self.listen("its end")
            time.sleep(_PAUSE)
        sys.stdout.flush()
        sys.stderr.flush()
        time.sleep(_FORWARDING)
        self.mpi.COMM_WORLD.Abort(1)

    def end(self, advance: Callable[[], None]) -> None:
        """Waits, asleep, until all ranks have come to their end: MPI's own finalization would spin."""
        self.board.end()
        self.tell_all(Notice("ended", str(self.latest or "none")))
        barrier = self.comm.Ibarrier()
        try:
            while not barrier.Test():
                advance()
                self.listen("its end")
                if self.raised:
                    return
                time.sleep(_PAUSE)
        except KeyboardInterrupt:
            self.mpi.COMM_WORLD.Abort(1)


