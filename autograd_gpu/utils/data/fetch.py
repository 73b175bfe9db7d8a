"""From indices to a batch, in the process that calls: rows of tensors, items of a dataset, or the next of a stream."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...backend import to_device
from ...core.tensor import Tensor
from .collate import default_collate
from .dataset import IterableDataset, Subset, TensorDataset, items_at, one_by_one

END = object()  # what a fetch from a stream answers once it has ended


class Plan(NamedTuple):
    """What a DataLoader does to make a batch; a worker process gets a copy."""

    dataset: Any
    collate_fn: Callable[[Any], Any]
    batched: bool  # False with batch_size=None: an index, and a sample for each batch
    drop_last: bool

    def fetcher(self) -> Callable[[Any], Any]:
        """The function from indices to a batch; of a stream it answers END at last. It begins a stream now."""
        if isinstance(self.dataset, IterableDataset):
            stream = iter(self.dataset)
            return self._next_batch(stream) if self.batched else self._next_sample(stream)
        return self._batch_at if self.batched else self._sample_at

    def _batch_at(self, indices: Sequence[Any]) -> Any:
        if self.collate_fn is default_collate:
            rows = rows_behind(self.dataset, indices)
            if rows is not None:
                return take_rows(*rows)
        return self.collate_fn(items_at(self.dataset, indices))

    def _sample_at(self, index: Any) -> Any:
        return self.collate_fn(one_by_one(self.dataset, [index])[0])

    def _next_batch(self, stream: Iterator[Any]) -> Callable[[Any], Any]:
        def fetch(indices: Sequence[None]) -> Any:
            samples = list(itertools.islice(stream, len(indices)))
            short = len(samples) < len(indices)
            return END if not samples or (short and self.drop_last) else self.collate_fn(samples)

        return fetch

    def _next_sample(self, stream: Iterator[Any]) -> Callable[[Any], Any]:
        def fetch(_: None) -> Any:
            sample = next(stream, END)
            return END if sample is END else self.collate_fn(sample)

        return fetch


def rows_behind(dataset: Any, indices: Sequence[Any] | np.ndarray) -> tuple[TensorDataset, np.ndarray] | None:
    """The TensorDataset behind `dataset`, a Subset of a Subset ... of it, and the rows of it at `indices`.

    None for other datasets, for those whose classes define `__getitem__` anew, and for indices that are no integers.
    """
    if not reads_rows(dataset):
        return None
    if not isinstance(indices, np.ndarray) and not all(isinstance(i, (int, np.integer)) for i in indices):
        return None
    while isinstance(dataset, Subset):
        chosen = dataset.indices
        indices, dataset = [chosen[i] for i in indices], dataset.dataset
    rows = np.asarray(indices)
    return (dataset, rows) if rows.ndim == 1 and rows.dtype.kind == "i" else None


def reads_rows(dataset: Any) -> bool:
    """Whether every sample of `dataset` is a row of tensors, so that a batch is one indexing of each tensor."""
    while isinstance(dataset, Subset):
        own = type(dataset)
        if own.__getitem__ is not Subset.__getitem__ or own.__getitems__ is not Subset.__getitems__:
            return False
        dataset = dataset.dataset
    own = type(dataset)
    if not isinstance(dataset, TensorDataset) or hasattr(own, "__getitems__"):
        return False
    return own.__getitem__ is TensorDataset.__getitem__


def take_rows(dataset: TensorDataset, rows: np.ndarray) -> list[Tensor]:
    """The batch of these rows: copies, never views."""
    return [t[to_device(rows, t.device)] for t in dataset.tensors]


def row_batches(dataset: TensorDataset, rows: np.ndarray, batch_size: int, drop_last: bool) -> Iterator[list[Tensor]]:
    """All batches of an epoch; the rows go to the tensors' devices once."""
    columns = [(t, to_device(rows, t.device)) for t in dataset.tensors]
    end = len(rows) - len(rows) % batch_size if drop_last else len(rows)
    for start in range(0, end, batch_size):
        yield [t[at[start : start + batch_size]] for t, at in columns]

