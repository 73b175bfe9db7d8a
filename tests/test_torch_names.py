"""The names of torch_names.py exist here, as they do in PyTorch, and with them the methods of the functions."""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect

import pytest
from torch_names import NAMES

import autograd_gpu as ag

pytestmark = pytest.mark.cpu


def find(module, name):
    return functools.reduce(step, name.split("."), module)


def step(actual, name):
    """An attribute; a submodule of PyTorch may have to be imported first."""
    if inspect.ismodule(actual) and not hasattr(actual, name):
        with contextlib.suppress(ModuleNotFoundError):
            return importlib.import_module(f"{actual.__name__}.{name}")
    return getattr(actual, name)


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
    assert not [name for name in methods if hasattr(torch.Tensor, name) and not hasattr(ag.Tensor, name)]


PREFIXES = (
    "", "autograd.", "autograd.graph.", "linalg.", "nn.", "nn.functional.", "optim.", "optim.lr_scheduler.", "special.",
    "utils.checkpoint.",
)


@pytest.mark.parametrize("prefix", PREFIXES)
def test_no_name_is_left_out(prefix):
    """What is public here, and PyTorch's, stands in the list; of the ops also under a prefix."""
    torch = pytest.importorskip("torch")
    theirs, ours = find(torch, prefix[:-1]) if prefix else torch, find(ag, prefix[:-1]) if prefix else ag.ops
    listed = {name for names in NAMES.values() for name in names}
    listed |= set() if prefix else {name.rpartition(".")[2] for name in listed}
    shared = [name for name in ours.__all__ if callable(getattr(theirs, name, None))]
    assert not [name for name in shared if prefix + name not in listed and name != "LinAlgError"]
