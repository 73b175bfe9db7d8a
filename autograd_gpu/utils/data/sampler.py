"""Samplers: the order in which a DataLoader visits a dataset, as indices or lists of indices."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

import numpy as np

from ...backend import to_numpy
from ...core.tensor import Tensor
from ...ops.creation.from_data import as_tensor
from ...ops.random.sampling import multinomial
from ...random import Generator, default_generator, randperm

Index = TypeVar("Index", covariant=True)


class Sampler(Generic[Index]):
    """Base class of samplers: a subclass defines `__iter__`, and `__len__` if the number of indices is known.

    >>> class Backwards(ag.utils.data.Sampler):
    ...     def __iter__(self):
    ...         return iter([2, 1, 0])
    >>> [batch.tolist() for batch in ag.utils.data.DataLoader(range(3), batch_size=2, sampler=Backwards())]
    [[2, 1], [0]]
    """

    def __iter__(self) -> Iterator[Index]:
        raise NotImplementedError(f"{type(self).__name__} does not define __iter__")


class OrderSampler(Sampler[int]):
    """A sampler whose indices are known at once. They are drawn when the iteration begins, not at the first index."""

    def _ag_order(self) -> np.ndarray:
        """The indices of one epoch, in host memory."""
        raise NotImplementedError(f"{type(self).__name__} does not define _ag_order")

    def __iter__(self) -> Iterator[int]:
        return iter(self._ag_order().tolist())


class SequentialSampler(OrderSampler):
    """The indices 0 ... len(data_source) - 1.

    >>> list(ag.utils.data.SequentialSampler("abc"))
    [0, 1, 2]
    """

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __len__(self) -> int:
        return len(self.data_source)

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self)))

    def _ag_order(self) -> np.ndarray:
        return np.arange(len(self))


class RandomSampler(OrderSampler):
    """`num_samples` random indices of data_source, by default all of them in a new order for each epoch.

    Without `replacement` no index comes again before all have come; with it each is drawn from all.

    >>> sorted(ag.utils.data.RandomSampler("abc"))
    [0, 1, 2]
    >>> len(list(ag.utils.data.RandomSampler("abc", replacement=True, num_samples=5)))
    5
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._ag_num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        _check_count(self.num_samples)

    @property
    def num_samples(self) -> int:
        """The number of indices of an epoch."""
        return len(self.data_source) if self._ag_num_samples is None else self._ag_num_samples

    def __len__(self) -> int:
        return self.num_samples

    def _ag_order(self) -> np.ndarray:
        size, count = len(self.data_source), self.num_samples
        if self.replacement:
            generator = self.generator or default_generator()
            return np.asarray(to_numpy(generator.draw("integers", 0, size, count)), dtype=np.int64)
        rounds = [permutation(size, self.generator, None) for _ in range(-(-count // size))]
        return np.concatenate(rounds)[:count]


class EndlessSampler(Sampler[None]):
    """None for ever: how a DataLoader asks an IterableDataset for its next samples."""

    def __iter__(self) -> Iterator[None]:
        return itertools.repeat(None)


class SeededSampler(OrderSampler):
    """The indices of data_source in an order that `seed` and the number of the epoch determine."""

    def __init__(self, data_source: Sized, seed: int) -> None:
        self.data_source = data_source
        self.seed = seed
        self.epoch = 0  # epochs begun

    def __len__(self) -> int:
        return len(self.data_source)

    def _ag_order(self) -> np.ndarray:
        self.epoch += 1
        return permutation(len(self), None, (self.seed, self.epoch - 1))


class SubsetRandomSampler(Sampler[int]):
    """The given indices in a new random order for each epoch.

    >>> sorted(ag.utils.data.SubsetRandomSampler([7, 3, 5]))
    [3, 5, 7]
    """

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __len__(self) -> int:
        return len(self.indices)

    def __iter__(self) -> Iterator[int]:
        order = permutation(len(self.indices), self.generator, None).tolist()
        return iter([self.indices[i] for i in order])


class WeightedRandomSampler(Sampler[int]):
    """`num_samples` indices of `weights`, each drawn with a probability proportional to its weight.

    The weights need not sum to 1. RuntimeError if they are negative or all 0, and without `replacement` if there are
    fewer weights than samples.

    >>> list(ag.utils.data.WeightedRandomSampler([0.0, 1.0, 0.0], 4))
    [1, 1, 1, 1]
    """

    def __init__(
        self,
        weights: Sequence[float] | Tensor,
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        _check_count(num_samples)
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement should be a boolean value, but got replacement={replacement}")
        tensor = weights if isinstance(weights, Tensor) else as_tensor(weights, device="cpu")
        self.weights = tensor.detach().to("cpu", np.dtype("float64"))
        if self.weights.ndim != 1:
            raise ValueError("weights should be a 1d sequence but given weights have shape "
                             f"{tuple(self.weights.shape)}")
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __len__(self) -> int:
        return self.num_samples

    def __iter__(self) -> Iterator[int]:
        drawn = multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator)
        return iter(drawn.tolist())


class BatchSampler(Sampler[list[Any]]):
    """The indices of `sampler` in lists of `batch_size`; the last one is shorter, or left out with `drop_last`.

    >>> list(ag.utils.data.BatchSampler(range(5), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Sampler[Any] | Iterable[Any], batch_size: int, drop_last: bool) -> None:
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size <= 0:
            raise ValueError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __len__(self) -> int:
        whole, rest = divmod(len(self.sampler), self.batch_size)  # type: ignore[arg-type]
        return whole + (rest > 0 and not self.drop_last)

    def __iter__(self) -> Iterator[list[Any]]:
        return self._ag_batches(iter(self.sampler))  # the sampler draws now, not at the first batch

    def _ag_batches(self, indices: Iterator[Any]) -> Iterator[list[Any]]:
        batch: list[Any] = []
        for index in indices:
            batch.append(index)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch


def permutation(size: int, generator: Generator | None, seed: int | tuple[int, int] | None) -> np.ndarray:
    """A random permutation of 0 ... size - 1 in host memory, the same for all devices."""
    if seed is None:
        source = generator or default_generator()
        return to_numpy(randperm(size, generator=source, device=source.device).array)
    if generator is not None:
        raise ValueError("give either a seed or a generator, not both")
    return np.random.default_rng(seed).permutation(size)


def _check_count(num_samples: Any) -> None:
    if isinstance(num_samples, bool) or not isinstance(num_samples, int) or num_samples <= 0:
        raise ValueError(f"num_samples should be a positive integer value, but got num_samples={num_samples}")
