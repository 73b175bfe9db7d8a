"""A worker process of a DataLoader: it answers tasks until it is told to stop or its parent has died."""

from __future__ import annotations

import gc
import multiprocessing
import multiprocessing.connection
import pickle
import random
import signal
import traceback
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...backend.arrays.device import CPU
from ...backend.cpu import blas, rows
from ...backend.cuda import diagnostics
from ...modes import restore_modes
from ...random import manual_seed
from .channel import Restart, Task, WorkerEnd
from .fetch import END, Plan
from .worker_info import Here, WorkerInfo

STOP = None  # the message that ends a worker


class Job(NamedTuple):
    """What all workers of a loader get."""

    plan: Plan
    num_workers: int
    base_seed: int
    worker_init_fn: Callable[[int], None] | None


class Ended(NamedTuple):
    """The answer of a worker whose stream has ended."""


class Failure(NamedTuple):
    """The answer of a worker in which an exception was raised: its class, and a text with the traceback."""

    kind: type[BaseException]
    text: str

    def error(self) -> BaseException:
        """The exception to raise in the parent: of the same class, if that can be made of a text."""
        if issubclass(self.kind, StopIteration):
            return RuntimeError(self.text)
        try:
            return self.kind(_Text(self.text))
        except Exception:
            return RuntimeError(self.text)


class _Text(str):
    """A text that a KeyError shows with its line breaks, since it shows the repr of its argument."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def run(job: Job, number: int, end: WorkerEnd) -> None:
    """The body of worker `number`."""
    try:
        with CPU:
            _prepare(job, number)
            _serve(_Server(job, number, end))
    except KeyboardInterrupt:  # Ctrl-C reaches every process of the terminal; the parent raises it
        return


def _prepare(job: Job, number: int) -> None:
    """Gives the process one thread, seeds, and none of the state that a fork has copied."""
    gc.freeze()  # the parent's objects are not ours to finalize
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    restore_modes({})
    rows.set_cores(1)
    blas.limit_of("numpy").put(1)
    seed = job.base_seed + number
    random.seed(seed)
    np.random.seed(np.random.SeedSequence(seed).generate_state(4))
    manual_seed(seed)
    Here.info = WorkerInfo(number, job.num_workers, seed, job.plan.dataset)


class _Server:
    """Answers tasks."""

    def __init__(self, job: Job, number: int, end: WorkerEnd) -> None:
        self.job, self.number, self.end = job, number, end
        self.failed: Failure | None = None  # what has made fetching impossible
        self.attempt(self.begin, initialize=True)

    def begin(self, initialize: bool) -> None:
        """Makes what fetches batches, for a new epoch."""
        if initialize and self.job.worker_init_fn is not None:
            self.job.worker_init_fn(self.number)
        self.fetch, self.ended = self.job.plan.fetcher(), False

    def attempt(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """What `function` returns, or a Failure, which is kept if it was `begin` that failed."""
        try:
            return function(*args, **kwargs)
        except Exception as error:
            failure = _failure(error, self.number)
            if function == self.begin:
                self.failed = failure
            return failure

    def answer(self, task: Task) -> None:
        """Sends the batch, or why there is none."""
        value = self.failed or (Ended() if self.ended else self.attempt(self.fetch, task.indices))
        if value is END:
            self.ended, value = True, Ended()
        sent = self.attempt(self.end.answer, task.number, task.segment, value)
        if isinstance(sent, Failure):  # the batch cannot be pickled
            self.end.answer(task.number, task.segment, sent)

    def restart(self, message: Restart) -> None:
        """Begins an epoch."""
        if self.failed is None:
            self.attempt(self.begin, initialize=False)
        self.end.answer(message.number, 0, None)


def _serve(server: _Server) -> None:
    """Answers tasks in their order. A Restart or STOP behind them makes the waiting ones void."""
    pipe, waiting = server.end.pipe, deque[Task]()
    parent: Any = multiprocessing.parent_process()
    while True:
        while not waiting or pipe.poll():
            if not waiting:
                ready = multiprocessing.connection.wait([pipe, parent.sentinel])
                if pipe not in ready:  # the parent has died
                    return
            message = pipe.recv()
            if message is STOP:
                return
            if isinstance(message, Restart):
                waiting.clear()
                server.restart(message)
            else:
                waiting.append(message)
        server.answer(waiting.popleft())


def _failure(error: Exception, number: int) -> Failure:
    if diagnostics.is_fork_error(error):
        error = _cuda_in_fork(error)
    kind, trace = type(error), "".join(traceback.format_exception(error))
    text = f"Caught {kind.__name__} in DataLoader worker process {number}.\nOriginal {trace}"
    try:
        pickle.dumps(kind)
    except Exception:  # a class that the parent cannot find
        kind = RuntimeError
    return Failure(kind, text)


def _cuda_in_fork(error: Exception) -> Exception:
    refusal = RuntimeError("Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must "
                         "use the 'spawn' start method: DataLoader(..., multiprocessing_context='spawn')")
    refusal.__cause__ = error
    return refusal
