"""DistributedSampler: each process of a group visits its own part of a dataset."""

from __future__ import annotations

from collections.abc import Sized

import numpy as np

from ...distributed import get_rank, get_world_size
from .sampler import OrderSampler

_UNSIGNED = 1 << 32


class DistributedSampler(OrderSampler):
    """The indices of this process: every `num_replicas`-th one of an order that is the same in all processes.

    The order is that of PyTorch's sampler for the same `seed` and epoch, index by index. Call `set_epoch` before each
    epoch, or all epochs have one order. So that all processes get equally many indices, the first ones of the order
    come again at its end, or with `drop_last` those at its end are left out. `num_replicas` and `rank` are those of the
    default group if left out. ValueError for a rank outside of 0 ... num_replicas - 1.

    >>> sampler = ag.utils.data.DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False)
    >>> list(sampler), len(sampler)
    ([1, 3, 0], 3)
    """

    def __init__(
        self, dataset: Sized, num_replicas: int | None = None, rank: int | None = None, shuffle: bool = True,
        seed: int = 0, drop_last: bool = False,
    ) -> None:  # fmt: skip
        self.num_replicas = get_world_size() if num_replicas is None else num_replicas
        self.rank = get_rank() if rank is None else rank
        if not 0 <= self.rank < self.num_replicas:
            raise ValueError(f"Invalid rank {self.rank}, rank should be in the interval [0, {self.num_replicas - 1}]")
        self.dataset, self.shuffle, self.seed, self.drop_last = dataset, shuffle, seed, drop_last
        self.epoch = 0
        whole, rest = divmod(len(dataset), self.num_replicas)
        self.num_samples = whole + (rest > 0 and not drop_last)
        self.total_size = self.num_samples * self.num_replicas

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Sets the number of the epoch, which with the seed determines the order."""
        self.epoch = epoch

    def _ag_order(self) -> np.ndarray:
        size = len(self.dataset)
        order = _torch_permutation(size, self.seed + self.epoch) if self.shuffle else np.arange(size)
        return np.resize(order, self.total_size)[self.rank :: self.num_replicas]


def _torch_permutation(size: int, seed: int) -> np.ndarray:
    """torch.randperm(size) with a generator of that seed: swaps by 32 bits each of the Mersenne Twister."""
    generator = np.random.RandomState(seed % _UNSIGNED)
    drawn = generator.randint(0, _UNSIGNED, max(size - 1, 0), np.int64)
    order = list(range(size))
    for i, place in enumerate((drawn % np.arange(size, 1, -1)).tolist()):
        order[i], order[i + place] = order[i + place], order[i]
    return np.array(order, np.int64)
