"""count: machine-independent counts of matrix products, kernel launches and derivative rules."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..backend.counters import ACTIVE, LOCK, Counts, Observer


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
    observe(counts)
    try:
        yield counts
    finally:
        forget(counts)


def observe(observer: Observer) -> None:
    """Lets an observer hear of what runs, until `forget`."""
    with LOCK:
        ACTIVE.append(observer)


def forget(observer: Observer) -> None:
    """Ends what `observe` began."""
    with LOCK:
        ACTIVE[:] = [other for other in ACTIVE if other is not observer]
