"""Layers by blocks of rows: which blocks, and that other bits are seen."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autograd_gpu.backend.cpu import rows
from autograd_gpu.backend.formulas.native import layers, runs

pytestmark = pytest.mark.cpu


@pytest.fixture(autouse=True)
def _runs():
    pytest.importorskip("llvmlite", reason="runs need the extra [native]")
    if not runs.are_there():
        pytest.skip("native code is off")


def test_sums_of_rows_are_compared(monkeypatch):
    case = 60, 33, 24, ((0, 12), (12, 60)), np.dtype("f4")
    layers.sums_are_equal.cache_clear()
    assert layers.sums_are_equal(*case)
    layers.sums_are_equal.cache_clear()
    monkeypatch.setattr(layers.runs, "row_products", lambda shape, dtype, at, vector, out: runs.copies(
        1, shape[0] * dtype.itemsize, at, out))  # fmt: skip
    assert not layers.sums_are_equal(*case)
    layers.sums_are_equal.cache_clear()


def test_products_with_other_bits_do_not_join(monkeypatch):
    layers.are_equal.cache_clear()
    windows = ((0, 12), (12, 30))
    case = 30, 7, 9, True, 0, windows, np.dtype("f4")
    assert layers.are_equal(*case)
    layers.are_equal.cache_clear()
    product = layers.matmul
    monkeypatch.setattr(layers, "matmul", lambda a, b: np.nextafter(product(a, b), np.float32(9)))
    assert not layers.are_equal(*case)
    layers.are_equal.cache_clear()
    assert not layers.are_equal(30, 7, 9, True, 0, ((0, 29), (29, 30)), np.dtype("f4"))  # dot calls gemv for one row
    layers.are_equal.cache_clear()


@given(st.integers(1, 3000), st.integers(1, 1 << 16), st.integers(1, 1 << 18), st.booleans(), st.integers(1, 5))
def test_blocks_of_rows(height, nbytes, weight, shared, cores):
    """They follow each other, but the last end at multiples of 12, and small weights have blocks for the cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "cores", lambda: cores)
        patch.setattr(layers, "BLOCK_BYTES", 1 << 19)
        parts = layers.tasks(height, nbytes, weight, shared)
    windows = [window for task in parts for window in task]
    assert windows[0][0] == 0
    assert windows[-1][1] == height
    assert all(j == k and j % layers.GRAIN == 0 for (_, j), (k, _) in itertools.pairwise(windows))
    assert all(i < j for i, j in windows)
    assert len(parts) <= (cores * layers.TASKS_PER_CORE if shared else 1)
    most = max(j - i for i, j in windows)
    if weight > layers.SMALL_WEIGHT:
        assert all(len(task) == 1 for task in parts)
    else:
        assert (most - layers.GRAIN) * nbytes <= 1 << 19
