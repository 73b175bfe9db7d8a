"""Samplers: what an order holds, how often, and that a seed repeats it."""

from collections import Counter

import pytest

import autograd_gpu as ag
from autograd_gpu.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    RandomSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

pytestmark = pytest.mark.cpu


def twice(make):
    """What two samplers give in two epochs each, from generators with the same seed."""
    return [[list(sampler) for _ in range(2)] for sampler in (make(ag.Generator().manual_seed(3)) for _ in range(2))]


@pytest.mark.parametrize("make", [
    lambda generator: RandomSampler(range(50), generator=generator),
    lambda generator: RandomSampler(range(50), replacement=True, generator=generator),
    lambda generator: SubsetRandomSampler(range(50), generator=generator),
    lambda generator: WeightedRandomSampler([1.0] * 50, 50, generator=generator),
    lambda generator: WeightedRandomSampler([1.0] * 50, 50, False, generator=generator),
])  # fmt: skip
def test_a_generator_repeats_the_orders(make):
    one, two = twice(make)
    assert one == two
    assert one[0] != one[1]
    assert all(type(index) is int for index in one[0])


def test_random_sampler_without_replacement():
    """Each index comes once in every round; the last round is cut short."""
    order = list(RandomSampler(range(5), num_samples=13))
    assert [sorted(order[i : i + 5]) for i in (0, 5)] == [[0, 1, 2, 3, 4]] * 2
    assert len(set(order[10:])) == 3 == len(order) - 10
    assert len(set(RandomSampler(range(5), num_samples=3))) == 3


def test_random_sampler_with_replacement():
    order = list(RandomSampler(range(4), replacement=True, num_samples=4000, generator=ag.Generator().manual_seed(0)))
    counts = Counter(order)
    assert sorted(counts) == [0, 1, 2, 3]
    assert all(850 < n < 1150 for n in counts.values())  # 1000, and five standard deviations are 137
    assert len(list(RandomSampler(range(4), replacement=True))) == 4


def test_weights_are_probabilities():
    sampler = WeightedRandomSampler([1.0, 0.0, 3.0], 4000, generator=ag.Generator().manual_seed(0))
    counts = Counter(sampler)
    assert counts[1] == 0
    assert 2800 < counts[2] < 3200  # 3000, and five standard deviations are 137
    assert len(sampler) == 4000


def test_subset_random_sampler_takes_a_tensor():
    assert sorted(map(int, SubsetRandomSampler(ag.tensor([4, 2, 9])))) == [2, 4, 9]
    loader = DataLoader(TensorDataset(ag.arange(10)), 3, sampler=SubsetRandomSampler(ag.tensor([4, 2, 9])))
    assert sorted(next(iter(loader))[0].tolist()) == [2, 4, 9]


def test_batches_of_a_sampler_that_has_no_length():
    assert list(BatchSampler(iter("abcde"), 2, True)) == [["a", "b"], ["c", "d"]]


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("count", [1, 2, 7])
def test_processes_share_an_order_that_set_epoch_changes(count, drop_last):
    def order(epoch):
        samplers = [DistributedSampler(range(20), count, rank, seed=3, drop_last=drop_last) for rank in range(count)]
        for sampler in samplers:
            sampler.set_epoch(epoch)
        assert len({len(sampler) for sampler in samplers}) == 1
        parts = [list(sampler) for sampler in samplers]
        assert [len(part) for part in parts] == [len(sampler) for sampler in samplers]
        return [index for row in zip(*parts, strict=True) for index in row]

    assert order(0) == order(0) != order(1)
    twice = {index for index, times in Counter(order(0)).items() if times > 1}
    assert twice == set() if drop_last or 20 % count == 0 else twice <= set(order(0)[:count])
    assert set(order(0)) <= set(range(20))
    assert len(set(order(0))) == (20 // count * count if drop_last else 20)


def test_ranks_of_a_distributed_sampler():
    with pytest.raises(ValueError, match="Invalid rank 2, rank should be in the interval"):
        DistributedSampler(range(3), 2, 2)
    with pytest.raises(ValueError, match="call init_process_group"):
        DistributedSampler(range(3))
    assert list(DistributedSampler("ab", 5, 4, shuffle=False)) == [0]  # the order comes again as often as needed
