"""Machine-independent counts: matrix products, kernel launches, derivative rules."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .backend.counters import ACTIVE, LOCK, Counts
from .missing_names import getattr_of


@contextmanager
def count() -> Iterator[Counts]:
    """Context that counts matrix products, kernel launches and derivative rules in all threads.

    matmuls: {(m, k, n): times}, batched products as (b, m, k, n); launches: {kernel: times};
    rules: {"linear.grad_weight": times}.

    >>> w = ag.ones(3, 2, requires_grad=True)
    >>> with ag.profiler.count() as c:
    ...     y = ag.ones(4, 3) @ w
    >>> dict(c.matmuls)
    {(4, 3, 2): 1}
    """
    counts = Counts()
    with LOCK:
        ACTIVE.append(counts)
    try:
        yield counts
    finally:
        with LOCK:
            ACTIVE[:] = [c for c in ACTIVE if c is not counts]


__all__ = ["Counts", "count"]
__getattr__ = getattr_of(__name__)
