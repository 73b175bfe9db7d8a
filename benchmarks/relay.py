"""Jobs that run one after another in a child process, which is replaced when one of them takes it along.

Imports of PyTorch, JAX and CuPy take seconds, so that jobs should share a process. But a job may hang, crash, or leave
a device that answers no more: then it alone is lost.

The parent imports none of those libraries. It sends the child a name, and waits for the answer a little longer than the
job may take; without one it kills the child, and the next job begins in a new one.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

STARTS = 20.0  # seconds that a new process may take longer: it imports what it needs
GRACE = 3.0  # seconds that any job may take longer, since it has to end by itself first
WARNING = 0.5  # seconds before a job is killed, in which its stack is printed


class Job(NamedTuple):
    """Something to do by name, for so many seconds at most."""

    name: str
    seconds: float


class Answer(NamedTuple):
    """What came of a job: its value, or why there is none."""

    job: Job
    seconds: float
    value: Any = None
    lost: str = ""
    begun: bool = True


Do = Callable[[str, float], tuple[Any, bool]]  # name, seconds -> the value, and whether the process may go on


def relay(jobs: Iterable[Job], do: Do, until: float) -> Iterator[Answer]:
    """Does each job by `do`, which can be pickled; none begins or goes on after `until` on the monotonic clock."""
    child = None
    try:
        for job in jobs:
            begin = time.monotonic()
            if begin >= until:
                yield Answer(job, 0.0, lost="not run: no time was left", begun=False)
                continue
            child = child or Child(do)
            value, healthy, lost = child.ask(job, until)
            yield Answer(job, time.monotonic() - begin, value, lost)
            if not healthy:
                child.end()
                child = None
    finally:
        if child is not None:
            child.end()


class Child:
    """A process that does jobs."""

    def __init__(self, do: Do) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, do), daemon=True)
        self.process.start()
        theirs.close()
        self.starts = STARTS

    def ask(self, job: Job, until: float) -> tuple[Any, bool, str]:
        """The value, whether the child can go on, and why there is no value."""
        most = min(job.seconds + GRACE + self.starts, until - time.monotonic())
        own = min(job.seconds, max(most - GRACE, most / 2))
        self.starts = 0.0
        try:
            self.connection.send((job.name, own, most))
            if self.connection.poll(most):
                return *self.connection.recv(), ""
            return None, False, f"hung: no answer within {most:.1f} s"
        except (EOFError, OSError):
            self.process.join()
            return None, False, f"its process ended with {self._code()}"

    def _code(self) -> str:
        code = self.process.exitcode or 0
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"

    def end(self) -> None:
        """Ends the process, by force if it is still at work."""
        self.connection.close()
        self.process.join(1.0)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


def serve(connection: Connection, do: Do) -> None:
    """What the child does, until nobody asks any more."""
    while True:
        try:
            name, seconds, most = connection.recv()
        except EOFError:
            return
        faulthandler.dump_traceback_later(max(most - WARNING, 0.01))
        answer = do(name, seconds)
        faulthandler.cancel_dump_traceback_later()
        connection.send(answer)
        if not answer[1]:  # destructors and handlers would fail one after another on a device that answers no more
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
