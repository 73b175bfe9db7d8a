"""Works on blocks of the same rows, put off until each block goes through all of them on one core.

Cores then wait for each other once, not after each work, and a block stays in the cache of its core. Meanwhile the
arrays that are to be written hold nothing: until `Chain.run` the thread may make views of them, and nothing else.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ..formulas.native.layers import Part, compute
from . import blas, rows

MOST_BYTES = 1 << 25  # of the arrays of works that are put off: what is freed in between is freed late

_OPEN: dict[int, Chain] = {}  # by thread


class Chain:
    """The works that have been put off, in blocks of `step` of `count` rows."""

    def __init__(self) -> None:
        self.count = self.step = self.nbytes = 0
        self.works: list[rows.Work] = []
        self.parts: list[Part | None] = []  # for each work

    def put_off(self, count: int, step: int, nbytes: int, work: rows.Work, part: Part | None) -> None:
        """Lets a work run behind the others; at once if its blocks are others, or if the arrays are large."""
        if (count, step) != (self.count, self.step):
            self.run()
            self.count, self.step = count, step
        self.works.append(work)
        self.parts.append(part)
        self.nbytes += nbytes
        if self.nbytes > MOST_BYTES:
            self.run()

    def run(self) -> None:
        """Runs what was put off."""
        works, parts = self.works, [part for part in self.parts if part is not None]
        self.works, self.parts, self.nbytes = [], [], 0
        if works and not (len(parts) == len(works) and compute(parts, self.step)):
            _run(self.count, self.step, works)


def _run(count: int, step: int, works: list[rows.Work]) -> None:
    def block(start: int, stop: int) -> None:
        for work in works:
            work(start, stop)

    blas.on_one_thread(rows.in_blocks, count, step, block)


def run(count: int, step: int, nbytes: int, work: rows.Work, part: Part | None = None) -> None:
    """Calls work(start, stop) for blocks of rows, on all cores; put off if this thread has a chain.

    `part` says what the work does, for native code that takes its place.
    """
    chain = _OPEN.get(threading.get_ident())
    if chain is None:
        _run(count, step, [work])
    else:
        chain.put_off(count, step, nbytes, work, part)


def puts_off() -> bool:
    """Whether this thread has a chain."""
    return threading.get_ident() in _OPEN


def run_all() -> None:
    """Runs what this thread has put off."""
    if (chain := _OPEN.get(threading.get_ident())) is not None:
        chain.run()


@contextmanager
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
