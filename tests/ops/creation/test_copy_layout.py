"""Copies of stretched tensors lie in C order, as PyTorch's, so that `view` works on them."""

import pytest

import autograd_gpu as ag

COPIES = {
    "clone": lambda x: x.clone(), "cast": lambda x: x.double(), "flip": lambda x: x.flip(0), "neg": lambda x: -x,
    "to": lambda x: x.to(x.dtype, copy=True),
}  # fmt: skip


@pytest.mark.parametrize("name", COPIES)
@pytest.mark.parametrize("columns", [False, True])
def test_of_a_stretched_tensor(name, columns, device):
    x = (ag.ones(4, 1, device=device) if columns else ag.ones(3, device=device)).expand(4, 3)
    assert COPIES[name](x).stride() == (3, 1)
    assert COPIES[name](x).view(12).shape == (12,)


@pytest.mark.parametrize("name", ["clone", "cast"])
def test_of_a_dense_tensor_they_lie_as_it_does(name, device):
    x = ag.ones(2, 3, 4, device=device).permute(2, 0, 1)
    assert COPIES[name](x).stride() == x.stride()
