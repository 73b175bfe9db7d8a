"""x[key] = value, where value has more dimensions than x[key]: ones in front do not count."""

import numpy as np
import pytest
from against_torch import both

import autograd_gpu as ag

KEYS = {
    "element": lambda m: 0, "slice": lambda m: slice(0, 1), "mask": lambda m: m.tensor([True, False, True]),
    "indices": lambda m: m.tensor([2, 0]), "index": lambda m: m.tensor(1), "ellipsis": lambda m: ...,
}  # fmt: skip


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (1, 1, 1)], ids=str)
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("recorded", [False, True])
def test_ones_in_front(key, shape, recorded):
    def program(m):
        y, value = m.zeros(3), m.full(shape, 2.0)
        value.requires_grad_(recorded)
        y[KEYS[key](m)] = value * 2
        return y, m.autograd.grad(y.sum(), value) if recorded else ()

    both(program)


@pytest.mark.parametrize("shape", [(1,), (1, 1)], ids=str)
def test_into_a_tensor_without_dimensions(shape):
    def program(m):
        y = m.zeros(())
        y[()] = m.ones(shape)
        return y

    both(program)


@pytest.mark.parametrize("shape", [(0,), (2,), (2, 1)], ids=str)
def test_other_sizes_are_refused(shape, device):
    y = ag.zeros(3, device=device)
    with pytest.raises(RuntimeError, match="cannot be broadcast to indexing result of shape"):
        y[0] = ag.ones(shape, device=device)
    assert y.tolist() == [0, 0, 0]


def test_an_array(device):
    y = ag.zeros(3, device=device)
    y[0] = np.full((1, 1), 3.0)
    assert y.tolist() == [3, 0, 0]
