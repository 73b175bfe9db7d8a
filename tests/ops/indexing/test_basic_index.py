"""Integers, slices and index tensors in reading and assignment: positions, shapes, many rows."""

from __future__ import annotations

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.autograd import grad


def test_assignment_indexes_as_reading_does():
    x = ag.zeros(2, 3, 4)
    index = ag.tensor([1, 3])
    value = ag.arange(6.0).reshape(3, 2)
    x[0, :, index] = value
    assert x[0, :, index].tolist() == value.tolist()
    x[x > 3] = -1.0
    assert x.min().item() == -1.0
    x[1] = 7
    x[..., None, 0] = 2
    assert x[1, 0].tolist() == [2.0, 7.0, 7.0, 7.0]
    assert x._version == 4


@pytest.mark.cpu  # on CUDA positions are not read on the host; CuPy wraps them around
def test_negative_positions():
    with pytest.raises(IndexError, match="out of range"):
        ag.embedding(ag.tensor([-1]), ag.ones(3, 2))
    x, index = ag.arange(3.0), ag.tensor([-1])
    for call in (lambda: ag.gather(x, 0, index), lambda: ag.scatter_add(x, 0, index, x[:1]),
                 lambda: ag.index_select(x, 0, index)):
        with pytest.raises(IndexError, match="index -1 is out of bounds"):
            call()


def test_corner_indices_of_many_rows():
    for ours, theirs in ((ag.tril_indices, np.tril_indices), (ag.triu_indices, np.triu_indices)):
        for n, k, m in ((40, 1, 40), (4, -2, 700), (5, 1, 700), (600, 1, 500)):  # short rows, and long ones
            np.testing.assert_array_equal(ours(n, m, k).numpy(force=True), np.stack(theirs(n, k, m)))


@pytest.fixture
def x(device):
    return ag.ones(2, requires_grad=True, device=device)


def test_leading_ones_of_what_is_assigned(x):
    y = ag.ones(2, 2, device=x.device) * x
    y[y.detach() > 0] = (ag.ones(1, 4, device=x.device) * x[1]).reshape(1, 4)
    assert grad(y.sum(), x)[0].tolist() == [0.0, 4.0]
