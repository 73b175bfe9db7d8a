"""Datasets, random splits, and collation of samples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar, cast

import numpy as np

from ...backend import Array, admitted, is_array, namespace, to_device, to_numpy
from ...backend.arrays.device import CPU, Device
from ...core.tensor import Tensor
from ...ops import stack
from ...ops.creation.from_data import tensor
from ...random import Generator, randperm

Item = TypeVar("Item", covariant=True)


class Dataset(Generic[Item]):
    """Base class of datasets: a subclass defines `__len__` and `__getitem__(index)`.

    A dataset that can gather a whole batch at once also defines `batch(indices)`, and `device`, the device of the
    indices.

    >>> class Squares(ag.utils.data.Dataset):
    ...     def __len__(self):
    ...         return 4
    ...     def __getitem__(self, i):
    ...         return i * i
    >>> [batch.tolist() for batch in ag.utils.data.DataLoader(Squares(), batch_size=3)]
    [[0, 1, 4], [9]]
    """

    device: Device = CPU

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} does not define __len__")

    def __getitem__(self, index: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not define __getitem__")

    def batch(self, indices: Array) -> Any:
        """The samples at `indices`, an integer array on `device`, as one batch."""
        return default_collate([self[int(i)] for i in indices])


class TensorDataset(Dataset):
    """Tensors of the same length on the same device; item i is the tuple of their i-th rows.

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
            raise ValueError(f"Size mismatch between tensors: their lengths are {[len(t) for t in tensors]}")
        if len({t.device for t in tensors}) > 1:
            raise ValueError(f"TensorDataset wants tensors on one device, got {[str(t.device) for t in tensors]}")
        self.tensors = tensors
        self.device = tensors[0].device

    def __len__(self) -> int:
        return len(self.tensors[0])

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple([t[index] for t in self.tensors])

    def batch(self, indices: Array) -> Any:
        if type(self).__getitem__ is not TensorDataset.__getitem__:
            return super().batch(indices)  # a subclass overrides __getitem__
        return [t[indices] for t in self.tensors]  # one gather per tensor: always a copy, never a view


class Subset(Dataset):
    """The samples of `dataset` at `indices`.

    >>> whole = ag.utils.data.TensorDataset(ag.arange(5))
    >>> [int(row) for (row,) in ag.utils.data.Subset(whole, [4, 0])]
    [4, 0]
    """

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices
        self.device = dataset.device if isinstance(dataset, Dataset) else CPU
        self._ag_order = to_device(np.asarray(indices, dtype=np.int64), self.device)

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: Any) -> Any:
        return self.dataset[self.indices[index]]

    def batch(self, indices: Array) -> Any:
        chosen = self._ag_order[indices]
        if isinstance(self.dataset, Dataset):
            return self.dataset.batch(chosen)
        return default_collate([self.dataset[int(i)] for i in chosen])


def random_split(
    dataset: Any,
    lengths: Sequence[int | float],
    generator: Generator | None = None,
    *,
    seed: int | None = None,
) -> list[Subset]:
    """Splits `dataset` at random into parts of the given lengths, or fractions that sum to 1.

    The order is drawn from `generator`, or from `seed` alone, or else from the default generator.

    >>> whole = ag.utils.data.TensorDataset(ag.arange(10))
    >>> [len(part) for part in ag.utils.data.random_split(whole, [0.8, 0.2], seed=0)]
    [8, 2]
    """
    sizes = _sizes(len(dataset), lengths)
    order = permutation(len(dataset), generator, seed)
    ends = np.cumsum(sizes)
    return [Subset(dataset, order[end - size : end].tolist()) for size, end in zip(sizes, ends, strict=True)]


def _sizes(total: int, lengths: Sequence[int | float]) -> list[int]:
    if any(isinstance(length, float) for length in lengths) and math.isclose(sum(lengths), 1):
        for i, fraction in enumerate(lengths):
            if not 0 <= fraction <= 1:
                raise ValueError(f"Fraction at index {i} is not between 0 and 1")
        sizes = [math.floor(total * fraction) for fraction in lengths]
        for i in range(total - sum(sizes)):  # the remainder of rounding down, one each
            sizes[i % len(sizes)] += 1
        return sizes
    if sum(lengths) != total or any(length < 0 for length in lengths):
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    return cast("list[int]", list(lengths))


def permutation(size: int, generator: Generator | None, seed: int | tuple[int, int] | None) -> np.ndarray:
    """A random permutation of 0 ... size - 1 in host memory, the same for all devices."""
    if seed is None:
        return to_numpy(randperm(size, generator=generator).array)
    if generator is not None:
        raise ValueError("give either a seed or a generator, not both")
    return np.random.default_rng(seed).permutation(size)


def default_collate(samples: list[Any]) -> Any:
    """Collates samples into a batch: stacks tensors, makes a tensor of numbers, and recurses into tuples and dicts.

    >>> ag.utils.data.default_collate([(1.0, {"a": 2}), (3.0, {"a": 4})])
    [tensor([1., 3.]), {'a': tensor([2, 4])}]
    """
    first = samples[0]
    if isinstance(first, Tensor):
        return stack(samples)
    if is_array(first):
        return tensor(namespace(first).stack([admitted(sample) for sample in samples]))
    if isinstance(first, (bool, int, float, np.generic)):
        return tensor(np.asarray(samples)) if isinstance(first, np.generic) else tensor(samples)
    if isinstance(first, (str, bytes)):
        return samples
    if isinstance(first, Mapping):
        return {key: default_collate([sample[key] for sample in samples]) for key in first}
    if isinstance(first, (tuple, list)):
        if any(len(sample) != len(first) for sample in samples):
            raise RuntimeError("each element in list of batch should be of equal size")
        return [default_collate(list(column)) for column in zip(*samples, strict=True)]
    raise TypeError(
        f"default_collate: batch must contain tensors, arrays, numbers, strings, dicts or lists; found "
        f"{type(first).__name__}; give DataLoader a collate_fn"
    )
