"""Size: the shape of a tensor."""

import copy
import pickle
from operator import add

import numpy as np
import pytest

import autograd_gpu as ag


class TestSize:
    def test_a_shape_is_a_size_and_a_tuple(self):
        x = ag.ones(2, 3, 4)
        for shape in (x.shape, x.size(), ag.Size([2, 3, 4]), ag.nn.Parameter(x).shape, copy.copy(x.shape)):
            assert type(shape) is ag.Size
            assert isinstance(shape, tuple)
            assert shape == (2, 3, 4)
            assert hash(shape) == hash((2, 3, 4))
            assert shape.numel() == 24
            assert repr(shape) == "(2, 3, 4)"
        assert ag.ones(()).shape.numel() == 1
        assert ag.zeros(0, 3).shape.numel() == 0
        assert x.size(1) == 3
        assert type(x.size(1)) is int

    @pytest.mark.parametrize("part", [
        lambda s: s[1:], lambda s: s[:-1], lambda s: add(s, (5,)), lambda s: add((5,), s), lambda s: s + s,
        lambda s: s * 2,
        lambda s: 2 * s, lambda s: s[0], lambda s: s[-1], lambda s: s.index(3), lambda s: s.count(2),
        lambda s: tuple(s),
        lambda s: s[np.int64(1)], lambda s: pickle.loads(pickle.dumps(s)), lambda s: s[::2].numel(),
    ])  # fmt: skip
    def test_parts_and_sums(self, part):
        torch = pytest.importorskip("torch")
        ours, theirs = part(ag.ones(2, 3, 4).shape), part(torch.ones(2, 3, 4).shape)
        assert ours == theirs
        assert type(ours).__name__ == type(theirs).__name__

    def test_a_size_is_made_of_integers(self):
        assert ag.Size([ag.tensor(2), np.int64(3)]) == (2, 3)
        for bad in ([1.5], ["a"], 3):
            with pytest.raises(TypeError):
                ag.Size(bad)
        with pytest.raises(TypeError):
            add(ag.ones(2).shape, [1])

    def test_a_size_is_a_shape_wherever_one_is_asked_for(self):
        x = ag.arange(6.0).reshape(2, 3)
        for y in (ag.zeros(x.shape), x.reshape(x.shape), x.view(x.shape), x[:1].expand(x.shape), ag.rand(x.shape),
                  x.new_zeros(x.shape), ag.full(x.shape, 1.0), x.broadcast_to(x.shape), ag.empty(*x.shape)):
            assert type(y.shape) is ag.Size
            assert y.shape == (2, 3)
        assert np.zeros(x.shape).shape == (2, 3)
        assert x.sum().shape == ()

    def test_what_is_known_of_shapes_does_not_grow_without_end(self):
        from autograd_gpu.core.size import KNOWN_SIZES

        row = ag.zeros(5000)
        for n in range(5000):
            assert row[:n].shape == (n,)
        assert len(KNOWN_SIZES) <= 4096
