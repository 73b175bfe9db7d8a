"""Programs with function transforms, run with PyTorch and with us: equal pytrees of results, or equal refusals.

    @compared
    def test_sum(m):
        return m.func.grad(lambda x: x.sum())(normal(m, 3))
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import autograd_gpu as ag

torch = pytest.importorskip("torch")

TOLERANCE = 1e-10


def normal(m: Any, *shape: int, seed: int = 0, dtype: str = "float64") -> Any:
    """A tensor of normal numbers, the same for both libraries."""
    return m.tensor(np.random.default_rng(seed).normal(size=shape).astype(dtype))


def array_of(x: Any) -> np.ndarray:
    result: np.ndarray = x.numpy(force=True)
    return result


def assert_equal(actual: Any, expected: Any, tolerance: float = TOLERANCE, where: str = "result") -> None:
    """Equal structures, dtypes and shapes, and equal values up to `tolerance`."""
    if isinstance(expected, (torch.Tensor, ag.Tensor)):
        assert isinstance(actual, (torch.Tensor, ag.Tensor)), f"{where}: {actual!r}"
        actual, expected = array_of(actual), array_of(expected)
        assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape), where
        np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance, err_msg=where)
    elif isinstance(expected, (tuple, list)):
        assert type(actual) is type(expected), where
        assert len(actual) == len(expected), where
        for i, (mine, other) in enumerate(zip(actual, expected, strict=True)):
            assert_equal(mine, other, tolerance, f"{where}[{i}]")
    elif isinstance(expected, dict):
        assert list(actual) == list(expected), where
        for key, other in expected.items():
            assert_equal(actual[key], other, tolerance, f"{where}[{key!r}]")
    else:
        assert actual == expected, where


def agree(program: Callable[[Any], Any], tolerance: float = TOLERANCE) -> None:
    assert_equal(program(ag), beside(program), tolerance)


def beside(program: Callable[[Any], Any]) -> Any:
    """Runs a program with PyTorch, which warns of its own parts."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return program(torch)


def compared(program: Callable[[Any], Any]) -> Callable[[], None]:
    """Makes a test of a program: it takes the library and returns a pytree that both have to agree on."""

    def test() -> None:
        agree(program)

    test.__name__, test.__doc__, test.__module__ = program.__name__, program.__doc__, program.__module__
    return test


def refused_by_both(program: Callable[[Any], Any], kind: type[Exception], text: str) -> None:
    """Either library raises an exception of this kind, whose message contains the regular expression `text`."""
    with pytest.raises(kind, match=text):
        beside(program)
    with pytest.raises(kind, match=text):
        program(ag)
