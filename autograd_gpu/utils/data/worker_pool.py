"""One pass over a DataLoader by worker processes: tasks go out in turn, batches come back in order."""

from __future__ import annotations

import multiprocessing
import os
import selectors
import signal
import time
import warnings
import weakref
from collections.abc import Iterator
from typing import Any

from .channel import Restart, Result, Task, channel
from .iterators import LoaderIterator, base_seed
from .worker import STOP, Ended, Failure, Job, run

GRACE = 5.0  # seconds that workers have to finish their current batch before they are terminated


class _Worker:
    """A worker process as its parent sees it."""

    def __init__(self, context: Any, job: Job, number: int, ahead: int) -> None:
        self.number, self.ahead = number, ahead
        self.end, theirs = channel(context, ahead)
        self.process = context.Process(target=run, args=(job, number, theirs), daemon=True)
        try:
            with warnings.catch_warnings():  # the library's threads are made anew in a child
                warnings.filterwarnings("ignore", ".*multi-threaded, use of fork", DeprecationWarning)
                self.process.start()
        except Exception as error:
            if context.get_start_method() != "fork":
                error.add_note("A DataLoader whose workers are not forked pickles its dataset, collate_fn and "
                               "worker_init_fn: define them at the top of a module, or choose "
                               "multiprocessing_context='fork'.")
            raise
        finally:
            theirs.pipe.close()
        self.begin()

    def begin(self) -> None:
        """Sets the account of an epoch: it has no tasks yet."""
        self.active = True  # whether its stream goes on
        self.given, self.used = 0, 0  # tasks sent, and those whose batches were used

    def is_free(self) -> bool:
        """Whether it may get a task. That does not depend on how fast it is, so the order is always the same."""
        return self.active and self.given - self.used < self.ahead

    def task(self, number: int, indices: Any) -> Task:
        """Its next task; a segment is used again when the batch before is used up."""
        self.given += 1
        return Task(number, self.given % self.ahead, indices)


class WithWorkers(LoaderIterator):
    """Gets the batches from worker processes, which live as long as this object, or until the last batch."""

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        self.timeout, self.in_order, self.stays = loader.timeout, loader.in_order, loader.persistent_workers
        job = Job(self.plan, loader.num_workers, base_seed(loader), loader.worker_init_fn)
        context = loader.multiprocessing_context or multiprocessing.get_context()
        self.workers: list[_Worker] = []
        self.close = weakref.finalize(self, _shut_down, self.workers, os.getpid())
        try:
            for number in range(loader.num_workers):
                self.workers.append(_Worker(context, job, number, loader.prefetch_factor))
        except BaseException:
            self.close()
            raise
        self.selector = selectors.PollSelector()
        for worker in self.workers:
            self.selector.register(worker.end.pipe, selectors.EVENT_READ, worker)
            self.selector.register(worker.process.sentinel, selectors.EVENT_READ, worker)
        self.died: str | None = None  # what to say about a worker that is not there any more
        self.number = 0  # of the next task
        self._begin()

    def restart(self, promised: int | None) -> None:
        """Begins the next epoch with the same workers; batches that they have made already are thrown away."""
        self.count, self.promised = 0, promised
        try:
            self._forget_tasks()
            self._begin()
        except BaseException:
            self.close()
            raise

    def _forget_tasks(self) -> None:
        last = self.number
        self.number += 1
        for worker in self.workers:
            self._say(worker, Restart(last))
            worker.begin()
        waiting = len(self.workers)
        while waiting:
            waiting -= sum(result.number == last for result in self._receive())

    def _begin(self) -> None:
        self.indices: Iterator[Any] = iter(self.order)
        self.turn = 0  # of the worker that gets the next task
        self.waited_for: dict[int, _Worker] = {}  # the tasks under way, in their order
        self.results: dict[int, Result] = {}  # those of them whose answers are here
        self._send_tasks()

    def _send_tasks(self) -> None:
        """Gives every worker as many tasks as it may have."""
        while (worker := self._next_free()) is not None:
            try:
                indices = next(self.indices)
            except StopIteration:
                return
            self.waited_for[self.number] = worker
            self._say(worker, worker.task(self.number, indices))
            self.number += 1

    def _next_free(self) -> _Worker | None:
        for _ in self.workers:
            worker = self.workers[self.turn]
            self.turn = (self.turn + 1) % len(self.workers)
            if worker.is_free():
                return worker
        return None

    def too_long(self) -> str:
        return (f"{super().too_long()}For multiprocessing data-loading, this could be caused by not properly "
                "configuring the IterableDataset replica at each worker: see get_worker_info.")

    def next_batch(self) -> Any:
        try:
            while self.waited_for:
                value = self._next_value()
                if isinstance(value, Failure):
                    raise value.error()
                if not isinstance(value, Ended):
                    return value
        except BaseException as error:
            if not isinstance(error, Exception):  # an interrupt, perhaps in the middle of an answer
                self.waited_for.clear()
                self.close()
            raise
        if self.died is not None:
            raise RuntimeError(self.died)
        if not self.stays:
            self.close()
        raise StopIteration

    def _next_value(self) -> Any:
        """The answer to the first task, or to any with in_order=False; sends a further task."""
        deadline = time.monotonic() + self.timeout if self.timeout else None
        while (number := self._finished()) is None:
            for result in self._receive(deadline):
                self.results[result.number] = result
        worker, result = self.waited_for.pop(number), self.results.pop(number)
        worker.used += 1
        value = result.value()
        if isinstance(value, Ended):
            worker.active = False
        self._send_tasks()
        return value

    def _finished(self) -> int | None:
        first = next(iter(self.waited_for if self.in_order else self.results), None)
        return first if first in self.results else None

    def _receive(self, deadline: float | None = None) -> list[Result]:
        """The answers that are there; waits for at least one. RuntimeError after the deadline, or if a worker died."""
        left = None if deadline is None else max(deadline - time.monotonic(), 0)
        events = self.selector.select(left)
        if not events:
            if deadline is not None and time.monotonic() >= deadline:
                raise RuntimeError(f"DataLoader timed out after {self.timeout} seconds")
            return []
        results, dead = [], []
        for key, _ in events:
            worker: _Worker = key.data
            try:
                if key.fileobj is worker.end.pipe or worker.end.pipe.poll():
                    results.append(worker.end.receive())
                else:
                    dead.append(worker)
            except (EOFError, OSError):
                dead.append(worker)
        if dead and not results:
            self._fail(dead)
        return results

    def _say(self, worker: _Worker, message: Any) -> None:
        try:
            worker.end.pipe.send(message)
        except BrokenPipeError:
            self._fail([worker])

    def _fail(self, dead: list[_Worker]) -> None:
        """Ends the other workers, and raises the error that says how `dead` ones ended."""
        unique = {worker.number: worker for worker in dead}.values()
        for worker in unique:
            worker.process.join(GRACE)
        pids = ", ".join(str(worker.process.pid) for worker in unique)
        how = ", ".join(f"worker {worker.number} {_how_ended(worker.process.exitcode)}" for worker in unique)
        self.died = f"DataLoader worker (pid(s) {pids}) exited unexpectedly: {how}"
        self.close()
        self.waited_for.clear()
        raise RuntimeError(self.died)


def _how_ended(code: int | None) -> str:
    if code is None:
        return "closed its pipe"
    if code >= 0:
        return f"ended with exit code {code}"
    return f"was killed by {signal.Signals(-code).name}"


def _shut_down(workers: list[_Worker], owner: int) -> None:
    """Ends the processes: they finish the batch that they are making, or are terminated after a while."""
    if os.getpid() != owner:  # the child of a fork has a copy of this, and the workers are not its own
        return
    for worker in workers:
        try:
            worker.end.pipe.send(STOP)
        except OSError:  # it is dead
            continue
    deadline = time.monotonic() + GRACE
    for worker in workers:
        worker.process.join(max(deadline - time.monotonic(), 0))
        if worker.process.is_alive():
            worker.process.terminate()
            worker.process.join(1)
        if worker.process.is_alive():  # it does not listen to SIGTERM
            worker.process.kill()
            worker.process.join()
        worker.end.pipe.close()
    workers.clear()
