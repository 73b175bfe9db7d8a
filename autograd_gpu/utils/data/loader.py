"""DataLoader: iteration over a dataset in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic

import numpy as np

from ...backend import to_device
from ...random import Generator
from .dataset import Dataset, Item, default_collate, permutation


class DataLoader(Generic[Item]):
    """Iterates over `dataset` in batches of `batch_size`, the last one smaller unless `drop_last`.

    With `shuffle` each epoch has a new order, determined by `seed`, or drawn from `generator` or the default generator.
    Batches of tensors are copies on the tensors' device. `collate_fn(samples)` makes a batch of a list of samples.

    >>> dataset = ag.utils.data.TensorDataset(ag.arange(5))
    >>> loader = ag.utils.data.DataLoader(dataset, batch_size=2, shuffle=True, seed=0)
    >>> len(loader), sorted(i for (rows,) in loader for i in rows.tolist())
    (3, [0, 1, 2, 3, 4])
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1,
        shuffle: bool = False,
        *,
        drop_last: bool = False,
        seed: int | None = None,
        generator: Generator | None = None,
        collate_fn: Callable[[list[Any]], Any] | None = None,
    ) -> None:
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size <= 0:
            raise ValueError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")
        if not shuffle and (seed is not None or generator is not None):
            raise ValueError("DataLoader: a seed or generator is given, but shuffle is False")
        if seed is not None and (generator is not None or seed < 0):
            raise ValueError("DataLoader: seed has to be positive or 0, and stands alone, without a generator")
        self.dataset = dataset
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.seed = seed
        self.generator = generator
        self.collate_fn = collate_fn
        self._epoch = 0  # epochs begun

    def __len__(self) -> int:
        whole, rest = divmod(len(self.dataset), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)

    def __iter__(self) -> Iterator[Any]:
        # Drawn here, not at the first batch, so that the order does not depend on other iterators.
        return self._ag_batches(self._ag_order(), len(self))

    def _ag_order(self) -> np.ndarray:
        size = len(self.dataset)
        if not self.shuffle:
            return np.arange(size)
        seed = None if self.seed is None else (self.seed, self._epoch)
        self._epoch += 1
        return permutation(size, self.generator, seed)

    def _ag_batches(self, order: np.ndarray, count: int) -> Iterator[Any]:
        indices = to_device(order, self.dataset.device) if isinstance(self.dataset, Dataset) else order
        for i in range(count):
            yield self._ag_batch(indices[i * self.batch_size : (i + 1) * self.batch_size])

    def _ag_batch(self, indices: Any) -> Any:
        if self.collate_fn is None and isinstance(self.dataset, Dataset):
            return self.dataset.batch(indices)
        samples = [self.dataset[int(i)] for i in indices]
        return default_collate(samples) if self.collate_fn is None else self.collate_fn(samples)
