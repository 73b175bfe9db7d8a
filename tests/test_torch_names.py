"""The names of torch_names.py exist here, as they do in PyTorch, and with them the methods of the functions."""

from __future__ import annotations

import functools

import pytest
from torch_names import NAMES

import autograd_gpu as ag

pytestmark = pytest.mark.cpu

# In-place methods that are not here: they change what a tensor is, not what it holds; float_power_ takes float64 only.
NOT_IN_PLACE = {
    "as_strided_", "float_power_", "squeeze_", "swapaxes_", "swapdims_", "t_", "transpose_", "unsqueeze_",
}  # fmt: skip


def find(module, name):
    return functools.reduce(getattr, name.split("."), module)


def missing(module, names):
    def exists(name):
        try:
            return find(module, name) is not None
        except AttributeError:
            return False

    return [name for name in names if not exists(name)]


@pytest.mark.parametrize("family", NAMES)
def test_names_exist(family):
    assert not missing(ag, NAMES[family])


@pytest.mark.parametrize("family", NAMES)
def test_they_are_pytorchs(family):
    assert not missing(pytest.importorskip("torch"), NAMES[family])


@pytest.mark.parametrize("family", NAMES)
def test_methods_exist(family):
    """Where PyTorch has a method of a function's name, or one that writes into its tensor."""
    torch = pytest.importorskip("torch")
    methods = [name + suffix for name in NAMES[family] if "." not in name for suffix in ("", "_")]
    methods = {name for name in methods if hasattr(torch.Tensor, name)} - NOT_IN_PLACE
    assert not sorted(name for name in methods if not hasattr(ag.Tensor, name))
