"""scatter of tensors, arrays and numbers."""

from __future__ import annotations

import numpy as np
import pytest

import autograd_gpu as ag


def test_scatter_of_a_tensor_and_a_number():
    with pytest.raises(TypeError, match="not both"):
        ag.zeros(3).scatter(0, ag.tensor([1]), ag.ones(1), value=5.0)


def test_scatter_takes_an_array_as_a_tensor():
    index, values = ag.tensor([[1, 0, 1]]), ag.backend.to_device(np.float32([[1, 2, 3]]), ag.zeros(1).device)
    x = ag.zeros(2, 3)
    assert x.scatter(0, index, values).tolist() == [[0, 2, 0], [1, 0, 3]]
    assert x.scatter_add(0, index, values).tolist() == [[0, 2, 0], [1, 0, 3]]
    assert x.scatter(0, index, values, reduce="add").tolist() == [[0, 2, 0], [1, 0, 3]]
