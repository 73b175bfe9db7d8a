"""Datasets: random access by index (Dataset) or a stream of samples (IterableDataset), and combinations of them."""

from __future__ import annotations

import bisect
import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar, cast

import numpy as np

from ...core.tensor import Tensor
from ...random import Generator
from .sampler import permutation

Item = TypeVar("Item", covariant=True)


class Dataset(Generic[Item]):
    """Base class of datasets with random access: a subclass defines `__getitem__(index)`, and most also `__len__`.

    A dataset that can read many samples at once may define `__getitems__(indices)`, which returns a list of samples.

    >>> class Squares(ag.utils.data.Dataset):
    ...     def __len__(self):
    ...         return 4
    ...     def __getitem__(self, i):
    ...         return i * i
    >>> [batch.tolist() for batch in ag.utils.data.DataLoader(Squares(), batch_size=3)]
    [[0, 1, 4], [9]]
    """

    def __getitem__(self, index: Any) -> Item:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[Any]) -> ConcatDataset:
        """The samples of both, one dataset after the other."""
        return ConcatDataset([self, other])


class IterableDataset(Dataset[Item], Iterable[Item]):
    """Base class of datasets that are streams: a subclass defines `__iter__`, and `__len__` if it knows its length.

    With num_workers > 0 every worker iterates over a copy of the whole dataset; `get_worker_info` tells it which part
    to take, so that no sample comes twice.

    >>> class Count(ag.utils.data.IterableDataset):
    ...     def __iter__(self):
    ...         worker = ag.utils.data.get_worker_info()
    ...         return iter(range(5) if worker is None else range(worker.id, 5, worker.num_workers))
    >>> [batch.tolist() for batch in ag.utils.data.DataLoader(Count(), batch_size=2)]
    [[0, 1], [2, 3], [4]]
    """

    def __add__(self, other: Dataset[Any]) -> ChainDataset:  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Tensors of the same length; item i is the tuple of their i-th rows.

    A DataLoader takes a whole batch of it by one indexing of each tensor.

    >>> dataset = ag.utils.data.TensorDataset(ag.arange(6).reshape(3, 2), ag.tensor([7, 8, 9]))
    >>> dataset[1]
    (tensor([2, 3]), tensor(8))
    """

    def __init__(self, *tensors: Tensor) -> None:
        if not tensors:
            raise ValueError("TensorDataset needs at least one tensor")
        for candidate in tensors:
            if not isinstance(candidate, Tensor):
                raise TypeError(f"TensorDataset takes tensors, got {type(candidate).__name__}")
        if len({len(t) for t in tensors}) > 1:
            raise AssertionError(f"Size mismatch between tensors: their lengths are {[len(t) for t in tensors]}")
        self.tensors = tensors

    def __len__(self) -> int:
        return len(self.tensors[0])

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple([t[index] for t in self.tensors])


class StackDataset(Dataset[Any]):
    """Datasets of the same length side by side; item i is a tuple of their i-th items, or a dict of them by keyword.

    >>> ag.utils.data.StackDataset(image=range(3), label="abc")[1]
    {'image': 1, 'label': 'b'}
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError("Supported either ``tuple``- (via ``args``) or ``dict``- (via ``kwargs``) like "
                             "input/output, but both types are given.")
        self.datasets: Any = kwargs or args
        members = self._ag_members()
        if not members:
            raise ValueError("At least one dataset should be passed")
        if len({len(dataset) for dataset in members}) > 1:
            raise ValueError("Size mismatch between datasets")

    def _ag_members(self) -> list[Any]:
        return list(self.datasets.values() if isinstance(self.datasets, dict) else self.datasets)

    def __len__(self) -> int:
        return len(self._ag_members()[0])

    def __getitem__(self, index: Any) -> Any:
        return self._ag_sample([dataset[index] for dataset in self._ag_members()])

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        columns = [items_at(dataset, indices) for dataset in self._ag_members()]
        return [self._ag_sample(list(row)) for row in zip(*columns, strict=True)]

    def _ag_sample(self, items: list[Any]) -> Any:
        return dict(zip(self.datasets, items, strict=True)) if isinstance(self.datasets, dict) else tuple(items)


class ConcatDataset(Dataset[Any]):
    """Datasets one after the other; `cumulative_sizes` are the indices at which they end.

    >>> both = ag.utils.data.ConcatDataset([range(3), "ab"])
    >>> len(both), both[1], both[3], both[-1]
    (5, 1, 'a', 'b')
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = list(itertools.accumulate(len(dataset) for dataset in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Any:
        if index < 0:
            if -index > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            index += len(self)
        elif index >= len(self):
            raise IndexError(f"index {index} is out of range for a ConcatDataset of length {len(self)}")
        which = bisect.bisect_right(self.cumulative_sizes, index)
        return self.datasets[which][index - (self.cumulative_sizes[which - 1] if which else 0)]


class ChainDataset(IterableDataset[Any]):
    """Streams one after the other.

    >>> class Letters(ag.utils.data.IterableDataset):
    ...     def __iter__(self):
    ...         return iter("ab")
    >>> list(ag.utils.data.ChainDataset([Letters(), Letters()]))
    ['a', 'b', 'a', 'b']
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        for dataset in self._ag_streams():
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self._ag_streams())

    def _ag_streams(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield dataset


class Subset(Dataset[Item]):
    """The samples of `dataset` at `indices`.

    >>> whole = ag.utils.data.TensorDataset(ag.arange(5))
    >>> [int(row) for (row,) in ag.utils.data.Subset(whole, [4, 0])]
    [4, 0]
    """

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: Any) -> Item:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[Item]:
        return items_at(self.dataset, [self.indices[i] for i in indices])


def items_at(dataset: Any, indices: Sequence[Any]) -> list[Any]:
    """The samples of `dataset` at `indices`, by `__getitems__` if it has that."""
    together = getattr(dataset, "__getitems__", None)
    if not callable(together):
        return one_by_one(dataset, indices)
    samples = together(indices)
    if len(samples) != len(indices):
        raise ValueError("Nested dataset's output size mismatch. "
                         f"Expected {len(indices)}, got {len(samples)}")
    return samples


def one_by_one(dataset: Any, indices: Sequence[Any]) -> list[Any]:
    """The samples of `dataset` at `indices`. An exception of `__getitem__` gets a note that names the item."""
    index = None
    try:
        return [dataset[index := i] for i in indices]
    except StopIteration as error:  # would end the epoch without a word
        raise RuntimeError(f"item {index!r} of the {type(dataset).__name__} raised StopIteration") from error
    except Exception as error:
        error.add_note(f"This is item {index!r} of the {type(dataset).__name__}.")
        raise


def random_split(
    dataset: Any,
    lengths: Sequence[int | float],
    generator: Generator | None = None,
    *,
    seed: int | None = None,
) -> list[Subset[Any]]:
    """Splits `dataset` at random into parts of the given lengths, or fractions that sum to 1.

    The order is drawn from `generator`, or from `seed` alone (PyTorch has no `seed`), or else from the default
    generator. ValueError if the lengths do not sum to that of the dataset; a warning for a part that becomes empty.

    >>> whole = ag.utils.data.TensorDataset(ag.arange(10))
    >>> [len(part) for part in ag.utils.data.random_split(whole, [0.8, 0.2], seed=0)]
    [8, 2]
    """
    sizes = _sizes(len(dataset), lengths)
    order = permutation(len(dataset), generator, seed)
    ends = np.cumsum(sizes)
    return [Subset(dataset, order[end - size : end].tolist()) for size, end in zip(sizes, ends, strict=True)]


def _sizes(total: int, lengths: Sequence[int | float]) -> list[int]:
    if math.isclose(sum(lengths), 1):
        return _shares(total, lengths)
    if sum(lengths) != total or any(length < 0 for length in lengths):
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    return cast("list[int]", list(lengths))


def _shares(total: int, fractions: Sequence[float]) -> list[int]:
    for i, fraction in enumerate(fractions):
        if not 0 <= fraction <= 1:
            raise ValueError(f"Fraction at index {i} is not between 0 and 1")
    sizes = [math.floor(total * fraction) for fraction in fractions]
    for i in range(total - sum(sizes)):  # the remainder of rounding down, one each
        sizes[i % len(sizes)] += 1
    for i, size in enumerate(sizes):
        if size == 0:
            warnings.warn(f"Length of split at index {i} is 0. This might result in an empty dataset.", stacklevel=4)
    return sizes
