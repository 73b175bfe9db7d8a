"""How many kernels the real CuPy launches for what is asked of the stand-in, counted while somebody asks.

1. One place counts: Queue.push(). Who pushes says how many kernels CuPy 14.2 launches, or its name is in ONE.
2. Functions that CuPy composes of several kernels have a rule in _rules.py, read off CuPy's source.
3. What has neither is counted as one kernel and noted in `guessed`; `total` then refuses to answer.

Work for streams that are being captured counts when the graph is launched, as one.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any


class Launches:
    """Kernels by name (memcpy and memset of device memory are kernels, too), products of cuBLAS, copies to or from the
    host; requests for memory and those that went on to the device (cudaMalloc); calls in which the host waits for the
    device; and the names of functions whose kernels nobody has counted in CuPy's source."""

    def __init__(self) -> None:
        self.kernels: Counter[str] = Counter()
        self.products = self.to_device = self.to_host = 0
        self.allocations = self.device_allocations = self.waits = 0
        self.guessed: set[str] = set()

    @property
    def transfers(self) -> int:
        return self.to_device + self.to_host

    @property
    def total(self) -> int:
        """Kernels and products."""
        if self.guessed:
            raise LookupError(f"how many kernels CuPy launches for {', '.join(sorted(self.guessed))} is not known: "
                              "count them in its source and add a rule to _rules.py")
        return self.products + self.kernels.total()

    def __repr__(self) -> str:
        guessed = f", guessed: {', '.join(sorted(self.guessed))}" if self.guessed else ""
        return f"{self.products} products, {dict(self.kernels)}, {self.transfers} transfers{guessed}"


ACTIVE: list[Launches] = []
_LOCK = threading.Lock()


@contextmanager
def counted() -> Iterator[Launches]:
    """Counts what is launched inside of the block, by any thread.

    >>> with counted() as launches:
    ...     x = cupy.zeros(3) + 1
    >>> launches.kernels
    Counter({'fill': 1, 'add': 1})
    """
    found = Launches()
    with _LOCK:
        ACTIVE.append(found)
    try:
        yield found
    finally:
        with _LOCK:
            ACTIVE.remove(found)


# ---- what an operation counts as -----------------------------------------------------------------------

NOTHING = frozenset(("event", "end of the copy", "host function", "callback", "freeing"))
TRANSFERS = frozenset(("host to device copy", "device to host copy", "memcpy with the host"))
# One kernel, whatever the arguments; ufuncs add their names. The last ones copy what cannot be a view.
ONE = {"fill", "fill_diagonal", "copy", "copyto", "memcpy", "memset", "assignment", "take", "arange", "tri", "clip",
       "all", "any", "reshape", "ravel", "flatten"}  # fmt: skip


def count(what: str) -> None:
    """Counts one of `allocations`, `device_allocations` or `waits`."""
    with _LOCK:
        for found in ACTIVE:
            setattr(found, what, getattr(found, what) + 1)


def add(what: str, accesses: Sequence[Any], kernels: int | None = None) -> None:
    """Counts the operation `what`, for which CuPy launches so many kernels."""
    if what in NOTHING:
        return
    written = [access[0] for access in accesses if access[4]]
    if written and all(block is None for block in written):
        return  # no elements
    with _LOCK:
        for found in ACTIVE:
            if what in TRANSFERS:
                to_device = any(access[4] and not getattr(access[0], "pinned", False) for access in accesses)
                found.to_device += to_device
                found.to_host += not to_device
                if what == "device to host copy" and not accesses[0][3].flags.forc:
                    found.kernels["copy"] += 1  # made contiguous first
            elif what == "gemm":
                found.products += 1
            elif kernels is None and what not in ONE:
                found.kernels[what] += 1
                found.guessed.add(what)
            elif kernels != 0:
                found.kernels[what] += 1 if kernels is None else kernels
