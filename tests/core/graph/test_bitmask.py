"""Bits of an int and lists of bools are each other's inverse, of few inputs and of many."""

import pytest

from autograd_gpu.core.graph.bitmask import FEW, bits_of, mask_of

pytestmark = pytest.mark.cpu

LENGTHS = [0, 1, 5, FEW, FEW + 1, 1000]


@pytest.mark.parametrize("n", LENGTHS)
def test_there_and_back(n):
    flags = [i % 3 == 0 for i in range(n)]
    mask = mask_of(flags)
    assert mask == sum(1 << i for i in range(0, n, 3))
    assert bits_of(mask, n) == flags


@pytest.mark.parametrize("n", LENGTHS[1:])
def test_all_and_none(n):
    assert mask_of([False] * n) == 0
    assert bits_of(0, n) == [False] * n
    assert mask_of([True] * n) == (1 << n) - 1
    assert bits_of((1 << n) - 1, n) == [True] * n


def test_any_truth_value_counts():
    """`need` may hold tensors' requires_grad as well as the results of `and`."""
    assert mask_of([1, None, "x", 0]) == 0b101


def test_higher_bits_are_left_out():
    assert bits_of(0b1101, 3) == [True, False, True]
