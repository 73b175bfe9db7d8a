"""One pass over a DataLoader in the process that calls."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...random import default_generator
from .collate import default_collate
from .fetch import END, Plan, reads_rows, row_batches, rows_behind
from .pin import pin_batch, pins
from .sampler import BatchSampler, OrderSampler


class LoaderIterator:
    """Base of the iterators of a DataLoader: pins batches and compares their number with what len() has promised.

    It does not refer to its DataLoader, which may keep it for the next epoch.
    """

    def __init__(self, loader: Any) -> None:
        self.plan = loader._ag_plan()
        self.order: Any = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
        self.pin = pins(loader.pin_memory)
        self.count = 0  # batches given out
        self.promised: int | None = loader._ag_promised

    def __iter__(self) -> Iterator[Any]:
        return self

    def __len__(self) -> int:
        return len(self.order)

    def __next__(self) -> Any:
        batch = self.next_batch()
        self.count += 1
        if self.promised is not None and self.count > self.promised:
            warnings.warn(self.too_long(), stacklevel=2)
        return pin_batch(batch) if self.pin else batch

    def next_batch(self) -> Any:
        """The next batch; StopIteration after the last one."""
        raise NotImplementedError(f"{type(self).__name__} does not define next_batch")

    def too_long(self) -> str:
        """The warning about an IterableDataset that gives more than its `__len__` says."""
        return (f"Length of IterableDataset {self.plan.dataset} was reported to be {self.promised} (when accessing "
                f"len(dataloader)), but {self.count} samples have been fetched. ")


class InProcess(LoaderIterator):
    """Makes the batches when they are asked for."""

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        if loader.seed is None:
            base_seed(loader)  # drawn although unused: what comes after does not depend on num_workers
        self.next_batch = _batches(self.plan, self.order).__next__  # type: ignore[method-assign]


def _batches(plan: Plan, order: Any) -> Iterator[Any]:
    """The batches of an epoch. The order is drawn now, so that it does not depend on other iterators."""
    by_rows = plan.collate_fn is default_collate and reads_rows(plan.dataset)
    if by_rows and type(order) is BatchSampler and _has_order(order.sampler):
        rows = rows_behind(plan.dataset, order.sampler._ag_order())  # type: ignore[union-attr]
        if rows is not None:
            return row_batches(*rows, order.batch_size, order.drop_last)
    return _fetched(plan.fetcher(), iter(order))


def _has_order(sampler: Any) -> bool:
    """Whether the sampler's whole order is known: it is one of ours, and no subclass says something else."""
    return isinstance(sampler, OrderSampler) and type(sampler).__module__ == OrderSampler.__module__


def _fetched(fetch: Callable[[Any], Any], indices: Iterator[Any]) -> Iterator[Any]:
    for index in indices:
        batch = fetch(index)
        if batch is END:
            return
        yield batch


def base_seed(loader: Any) -> int:
    """The seed of an epoch's worker 0; the others add their number."""
    if loader.seed is not None:
        return int(np.random.SeedSequence((loader.seed, loader._ag_epoch)).generate_state(1, np.uint64)[0] >> 1)
    generator = loader.generator or default_generator()
    return int(generator.draw("integers", 0, 2**63 - 1, ()))
