"""Views: what is one and what is a copy, and how a shape is given."""

from __future__ import annotations

import numpy as np
import pytest

import autograd_gpu as ag


def test_values_of_a_0d_max_are_a_copy():
    x = ag.tensor(3.0)
    x.max(0).values.zero_()
    assert x.item() == 3.0


def test_size_one_axes_can_be_written_to():
    assert ag.ones(3)[None].mul_(2).tolist() == [[2.0] * 3]
    assert ag.ones(3)[:, None].mul_(2).tolist() == [[2.0]] * 3


def test_view_of_a_shape_and_a_dtype():
    with pytest.raises(TypeError, match="a shape or a dtype, not both"):
        ag.ones(2, 3).view(6, dtype=ag.int32)


def test_numpy_integers_are_dimensions():
    x = ag.ones(2, 3)
    for reduce in (ag.sum, ag.mean, ag.var, ag.amax, ag.logsumexp):
        assert reduce(x, np.int64(0)).shape == (3,)
