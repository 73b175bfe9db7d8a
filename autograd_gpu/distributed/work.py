"""Work and Future: collectives under way, and what comes of them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import timedelta
from types import GenericAlias
from typing import Any

from .engines.base import Request
from .failure import Call, Watch

# Seconds of polling before the first sleep, and between two: MPI moves a large array piece by piece while it is polled.
# Polling gives way to other processes, and sleeping leaves the core to them while a rank is long in coming.
_AT_FIRST, _BETWEEN = 1e-2, 3e-4
_SHORTEST, _LONGEST = 1e-4, 2e-3  # seconds of a sleep


def seconds(timeout: timedelta | float | None, default: float) -> float:
    """`timeout` in seconds; ValueError unless it is positive."""
    if timeout is None:
        return default
    value = timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)
    if value <= 0:
        raise ValueError(f"timeout must be positive, got {timeout!r}")
    return value


class Work:
    """A collective that was begun with `async_op=True`; `wait` returns when its results are in the tensors.

    Collectives advance while a program waits for any, begins one or asks `is_completed()`.

    >>> ag.distributed.init_process_group()
    >>> work = ag.distributed.all_reduce(ag.ones(2), async_op=True)
    >>> work.wait(), work.is_success()
    (True, True)
    >>> ag.distributed.destroy_process_group()
    """

    def __init__(
        self, request: Request, call: Call, watch: Watch, timeout: float, finish: Callable[[], None] | None = None,
        result: Any = None,
    ) -> None:  # fmt: skip
        self._request, self._call, self._watch, self._timeout = request, call, watch, timeout
        self._finish, self._result = finish, result
        self._error: BaseException | None = None
        self._over = False

    def _advance(self) -> bool:
        """Goes on without waiting; returns whether the results are there."""
        if self._error is not None:
            raise self._error
        if not self._over:
            try:
                if not self._request.done():
                    return False
                self._over = True
                self._request.join()
                if self._finish is not None:
                    self._finish()
            except Exception as error:
                self._error = self._watch.of_engine(self._call, error)
                raise self._error from error
        return True

    def wait(self, timeout: timedelta | float | None = None) -> bool:
        """Waits until the results are in the tensors. RuntimeError that names the collective after `timeout` seconds.

        The default is the timeout of the group.
        """
        if not self._advance():
            began = time.monotonic()
            pause, limit, until = _SHORTEST, seconds(timeout, self._timeout), began + _AT_FIRST
            while not self._advance():
                now = time.monotonic()
                if now < until:
                    os.sched_yield()
                    continue
                try:
                    self._watch.look(self._call, now - began, limit)
                except RuntimeError as error:
                    self._error = error
                    raise
                time.sleep(pause)
                pause, until = min(pause * 1.3, _LONGEST), time.monotonic() + _BETWEEN
        return True

    def is_completed(self) -> bool:
        """Whether the results are in the tensors, or the collective has failed."""
        return self._error is not None or self._advance()

    def is_success(self) -> bool:
        """Whether the results are in the tensors."""
        return self._error is None and self._advance()

    def exception(self) -> BaseException | None:
        """The error of a collective that has failed, else None."""
        return self._error

    def source_rank(self) -> int:
        """The rank from which `irecv` has received."""
        if self._request.source is None:
            raise RuntimeError("source_rank: only a completed irecv has one")
        return self._call.world_rank(self._request.source)

    def synchronize(self) -> None:
        """Does what `wait` does."""
        self.wait()

    def result(self) -> list[Any]:
        """The tensors with the results, of a completed collective."""
        return self._result if isinstance(self._result, list) else [self._result]

    def get_future(self) -> Future:
        """A Future with the list of the tensors."""
        return Future(self.result, self)


class Future:
    """A value that is there when some work is done: `wait` gives it, `then` adds a function of it."""

    __class_getitem__: Any = classmethod(GenericAlias)  # Future[Tensor] in annotations

    def __init__(self, value: Callable[[], Any] | None = None, work: Work | Future | None = None) -> None:
        self._make, self._work = value, work
        self._value: Any = None
        self._made = False

    def set_result(self, result: Any) -> None:
        """Gives the value of a Future made without work."""
        self._value, self._made = result, True

    def done(self) -> bool:
        """Whether the value is there; goes on with the work."""
        if not self._made and self._work is not None:
            over = self._work.done() if isinstance(self._work, Future) else self._work.is_completed()
            if over:
                self.wait()
        return self._made

    def wait(self) -> Any:
        """The value, when the work is done."""
        if not self._made:
            if self._work is None or self._make is None:
                raise RuntimeError("Future.wait: nothing computes the value; call set_result first")
            self._work.wait()
            self.set_result(self._make())
        return self._value

    def value(self) -> Any:
        """The value, which is there; RuntimeError if it is not."""
        if not self.done():
            raise RuntimeError("Future.value: the work is not done; call wait()")
        return self._value

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """The Future of callback(self), called once this one is done and the new one's value is asked for."""
        return Future(lambda: callback(self), self)


def collect_all(futures: list[Future]) -> Future:
    """The Future of the list of `futures`, done when all of them are."""

    class All(Future):
        def wait(self) -> Any:
            for future in futures:
                future.wait()
            return futures

        def done(self) -> bool:
            return all(future.done() for future in futures)

        def value(self) -> Any:
            return self.wait()

    return All()


def wait_all(futures: list[Future]) -> list[Any]:
    """The values of `futures`."""
    return [future.wait() for future in futures]
