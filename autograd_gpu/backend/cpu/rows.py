"""Work by blocks of rows on the cores of this process: the calling thread and helpers that sleep in between.

A block must be plain array code: NumPy releases the GIL in products and passes, while the modes of tensors belong to
the calling thread.
"""

from __future__ import annotations

import contextvars
import functools
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from . import blas, pool

Work = Callable[[int, int], None]  # (start, stop): works on these rows


# Elements per block of a pass on several threads: they hand over the GIL between NumPy's calls, which must take longer
# than that. With blocks of 32768 elements two threads are no faster than one, with these up to 1.6 times.
SHARED_BLOCK = 1 << 17


class Blocks:
    """The blocks of rows of a matrix for a pass over it: of `block` elements, or SHARED_BLOCK if there are many.

    Where an element takes as long as `times` elements of other passes, fewer are many.
    """

    def __init__(self, rows: int, cols: int, block: int, times: int = 1) -> None:
        self.rows, many = rows, 2 * cores() * SHARED_BLOCK
        self.shared = cores() > 1 and rows * cols * times >= many
        self.step = max((SHARED_BLOCK if self.shared else block) // max(cols, 1), 1)
        if self.shared and times > 1:  # as many blocks for each core
            count = -(-2 * rows * cols * times // many) * cores()
            self.step = max(-(-rows // count), 1)

    def run(self, work: Work) -> None:
        """Calls work(start, stop) for each block; many elements are worked on by all cores."""
        (in_blocks if self.shared else _in_turn)(self.rows, self.step, work)


def of_two(ufunc: np.ufunc, a: np.ndarray, b: Any) -> Any:
    """ufunc(a, b); of large contiguous arrays of one shape and dtype in pooled memory, and by all cores."""
    if type(b) is not np.ndarray or a.shape != b.shape or a.dtype is not b.dtype or a.nbytes < pool.SMALLEST:
        return ufunc(a, b)
    if not (a.flags.c_contiguous and b.flags.c_contiguous):
        return ufunc(a, b)
    out = pool.empty(a.shape, a.dtype)
    x, y, result = a.reshape(-1), b.reshape(-1), out.reshape(-1)
    Blocks(a.size, 1, a.size).run(lambda i, j: ufunc(x[i:j], y[i:j], out=result[i:j]))
    return out


class _Job:
    """The blocks of one call that no thread has taken yet."""

    def __init__(self, rows: int, step: int, work: Work) -> None:
        self.rows, self.step, self.work = rows, step, work
        self.starts = iter(range(0, rows, step))
        self.lock = threading.Lock()
        self.over = False  # no further block is to be taken
        self.error: BaseException | None = None  # the first of a helper
        self.context = contextvars.copy_context()  # has np.errstate of the caller

    def take_blocks(self) -> None:
        """Works on block after block until none is left or a block of some thread has failed."""
        while not self.over:
            with self.lock:
                start = next(self.starts, None)
            if start is None:
                return
            self.work(start, min(start + self.step, self.rows))

    def help(self) -> None:
        """take_blocks() in a helper: with the caller's context, and an error is kept for the caller."""
        try:
            self.context.copy().run(self.take_blocks)
        except BaseException as error:
            self.over = True
            self.error = self.error or error


class _Helper:
    """A thread that sleeps until it is woken, and then takes blocks of the running job."""

    def __init__(self) -> None:
        self.asleep, self.working = threading.Lock(), threading.Lock()
        self.asleep.acquire()
        threading.Thread(target=self._run, name="autograd_gpu rows", daemon=True).start()

    def wake(self) -> None:
        if self.asleep.locked():  # else it has not answered the last call yet, and will find the new job
            self.asleep.release()

    def _run(self) -> None:
        while True:
            self.asleep.acquire()
            with self.working:
                job = _RUNNING.get(_JOB)
                if job is not None:
                    job.help()
                del job  # and with it the arrays of the caller


_JOB = "job"
_RUNNING: dict[str, _Job] = {}  # the job that has the helpers; set and removed in one step each, also if interrupted
_HELPERS: list[_Helper] = []  # changed by the thread whose job is running


def in_blocks(rows: int, step: int, work: Work) -> None:
    """Calls work(start, stop) for each block of `step` rows, on all cores unless another call has the helpers.

    Returns when all blocks are done. If a block fails, no further one is started, and the error is raised here.
    """
    if rows <= step or cores() == 1 or _RUNNING:
        return _in_turn(rows, step, work)
    job = _Job(rows, step, work)
    try:
        if _RUNNING.setdefault(_JOB, job) is not job:  # another thread was faster
            return _in_turn(rows, step, work)
        _share(job, -(-rows // step))
    finally:
        if _RUNNING.get(_JOB) is job:
            del _RUNNING[_JOB]
    if job.error is not None:
        error, job.error = job.error, None
        try:
            raise error
        finally:
            del error  # it refers to this frame


class _Cores:
    """The number of threads; 0 until somebody sets it."""

    count = 0


def cores() -> int:
    """The number of threads that work on blocks; by default those that NumPy's BLAS has at the first call.

    OpenBLAS takes one for each core of this process, or fewer by OMP_NUM_THREADS and other variables.
    """
    return _Cores.count or _default()


@functools.cache
def _default() -> int:
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(blas.limit_of("numpy").threads() or available, available)


def set_cores(count: int) -> None:
    """Sets the number of threads that work on blocks from the next call on."""
    _Cores.count = count


def asked() -> int:
    """The number that was set; 1 if none was."""
    return _Cores.count or 1


def _in_turn(rows: int, step: int, work: Work) -> None:
    for start in range(0, rows, step):
        work(start, min(start + step, rows))


def _share(job: _Job, blocks: int) -> None:
    """Works on the job with as many helpers as it has use for; returns or raises when none of them works on it."""
    try:
        helpers = _helpers()[: min(blocks, cores()) - 1]
        for helper in helpers:
            helper.wake()
        job.take_blocks()
    finally:
        job.over = True
        try:
            _wait()
        except KeyboardInterrupt:
            _wait()  # helpers write into arrays that the caller will use for something else
            raise


def _helpers() -> list[_Helper]:
    """One helper for each thread but the caller's, or more if there were more threads once.

    Fewer where the system starts no more threads.
    """
    try:
        while len(_HELPERS) < cores() - 1:
            _HELPERS.append(_Helper())
    except RuntimeError:  # out of threads, or the interpreter is shutting down: the caller does the work of the missing
        pass
    return _HELPERS


def _wait() -> None:
    """Returns when no helper works on a block. One that has yet to wake up is not waited for: its job is over."""
    for helper in _HELPERS:
        with helper.working:
            pass


def _forget_threads() -> None:
    """In the child of a fork, which has the forking thread only."""
    _HELPERS.clear()
    _RUNNING.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)
