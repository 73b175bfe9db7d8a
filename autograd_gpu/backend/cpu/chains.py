"""Works on blocks of the same rows, put off until each block goes through all of them on one core.

Cores then wait for each other once, not after each work, and a block stays in the cache of its core. Meanwhile the
arrays that are to be written hold nothing: until `Chain.run` the thread may make views of them, and nothing else.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from ..formulas.native.eager_layers import Described, compute
from . import blas, rows

MOST_BYTES = 1 << 25  # of the arrays of works that are put off: what is freed in between is freed late

_OPEN: dict[int, Chain] = {}  # by thread


class PutOff(NamedTuple):
    """A work, in blocks of `step` rows. `part` is what it does, for native code."""

    step: int
    work: rows.Work
    part: Described | None


class Chain:
    """The works on `count` rows that have been put off."""

    def __init__(self) -> None:
        self.count = self.nbytes = 0
        self.works: list[PutOff] = []

    def put_off(self, count: int, nbytes: int, work: PutOff) -> None:
        """Lets a work run behind the others; at once if its rows are others, or if the arrays are large."""
        if count != self.count:
            self.run()
            self.count = count
        self.works.append(work)
        self.nbytes += nbytes
        if self.nbytes > MOST_BYTES:
            self.run()

    def run(self) -> None:
        """Runs what was put off: native code in one, or each part of it that has blocks of the same size."""
        works, self.works, self.nbytes = self.works, [], 0
        if works and not (by_native_code := _computed(works)):
            for step, group in itertools.groupby(works, lambda work: work.step):
                some = [*group]
                if by_native_code is None or len(some) == len(works) or not _computed(some):
                    _run(self.count, step, [work.work for work in some])


def _computed(works: Sequence[PutOff]) -> bool | None:
    """Whether native code has computed works; None if there may be some later."""
    parts = [work.part for work in works if work.part is not None]
    return compute(parts, [work.step for work in works]) if len(parts) == len(works) else False


def _run(count: int, step: int, works: Sequence[rows.Work]) -> None:
    def block(start: int, stop: int) -> None:
        for work in works:
            work(start, stop)

    blas.on_one_thread(rows.in_blocks, count, step, block)


def run(count: int, step: int, nbytes: int, work: rows.Work, part: Described | None = None) -> None:
    """Calls work(start, stop) for blocks of rows, on all cores; put off if this thread has a chain.

    `part` says what the work does, for native code that takes its place.
    """
    chain = _OPEN.get(threading.get_ident())
    if chain is None:
        _run(count, step, [work])
    else:
        chain.put_off(count, nbytes, PutOff(step, work, part))


def puts_off() -> bool:
    """Whether this thread has a chain."""
    return threading.get_ident() in _OPEN


def run_all() -> None:
    """Runs what this thread has put off."""
    if (chain := _OPEN.get(threading.get_ident())) is not None:
        chain.run()


@contextmanager  # whose generator ends also where a signal keeps __exit__ from running
def chained(puts_off: bool) -> Iterator[Chain]:
    """A chain of this thread, whose works have run when the block ends; those of a block that fails never run.

    Without `puts_off` works run at once.
    """
    chain, thread = Chain(), threading.get_ident()
    before = _OPEN.pop(thread, None)  # of what a signal handler has interrupted
    if puts_off:
        _OPEN[thread] = chain
    try:
        yield chain
        chain.run()
    finally:
        _OPEN.pop(thread, None)
        if before is not None:
            _OPEN[thread] = before
