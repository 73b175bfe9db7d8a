"""LevelTensor tensors: what they answer from their outline, and what they refuse."""

import copy
import pickle

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.core.interpret.batched import Batching, batched
from autograd_gpu.core.interpret.interpreters import entered
from autograd_gpu.core.interpret.level_tensor import LevelTensor, Outline, belongs
from autograd_gpu.core.interpret.recorded import Recording


@pytest.fixture
def level():
    with entered(Batching(2)) as level:
        yield level


@pytest.fixture
def x(level, device):
    return batched(level, ag.arange(24, dtype=ag.float64, device=device).reshape(2, 3, 4).transpose(1, 2))


def test_an_outline_answers_for_shape_and_dtype_only():
    outline = Outline((2, 3), ag.ones(4, 2, 3))
    assert (outline.ndim, outline.size, outline.itemsize, outline.nbytes) == (2, 6, 4, 24)
    with pytest.raises(RuntimeError, match=r"values of a tensor are read \(sum\)"):
        outline.sum()
    with pytest.raises(RuntimeError, match="cannot be converted to an array"):
        np.asarray(outline)


def test_metadata_is_that_of_one_example(x, device):
    assert (x.shape, x.dtype, x.ndim, x.numel(), x.nbytes) == ((4, 3), ag.float64, 2, 12, 96)
    assert (x.device.type, x.is_cuda) == (device, device == "cuda")
    assert (x.stride(), x.is_contiguous(), x.mT.is_contiguous()) == ((1, 4), False, True)
    assert (len(x), x.is_leaf, x.grad_fn, x.requires_grad, x.is_floating_point()) == (4, True, None, False, True)
    assert isinstance(x, ag.Tensor)


def test_version_and_storage_are_those_of_what_it_stands_for(x):
    assert x._version == x._value._version == 0
    x.add_(1.0)
    assert x._version == x._value._version == 1


def test_belongs(level, x):
    assert belongs(x, level)
    assert not belongs(x._value, level)
    inner = Recording().lift(x)
    assert not belongs(inner, level)
    assert isinstance(inner, LevelTensor)


@pytest.mark.cpu
def test_what_has_no_meaning_inside_is_refused(x):
    with pytest.raises(RuntimeError, match="cannot be copied by deepcopy; use clone"):
        copy.deepcopy(x)
    with pytest.raises(RuntimeError, match="cannot be pickled; return it"):
        pickle.dumps(x)
    with pytest.raises(RuntimeError, match="data of a tensor inside of a function transform cannot be set"):
        x.data = ag.zeros(3)
    assert x.data.shape == x.shape
    with pytest.raises(RuntimeError, match=r"requires_grad_\(\).* inside of a function being transformed"):
        x.requires_grad_()
