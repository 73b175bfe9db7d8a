"""Samplers: what an order holds, how often, and that a seed repeats it."""

from collections import Counter

import pytest

import autograd_gpu as ag
from autograd_gpu.utils.data import (
    BatchSampler,
    DataLoader,
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
