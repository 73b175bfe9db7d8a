"""Products of few rows: computed as their transpose where that was measured to be faster, with BLAS' values."""

import numpy as np
import pytest
from compiled_groups import count_of_calls

from autograd_gpu.backend.cpu import blas, few_rows, matmul

pytestmark = pytest.mark.cpu


def operands(m, layout, dtype="float32", k=256, n=256):
    rng = np.random.default_rng(m)
    b = rng.standard_normal((n, k) if layout == "transposed" else (k, n)).astype(dtype)
    return rng.standard_normal((m, k)).astype(dtype), b.T if layout == "transposed" else b


@pytest.mark.parametrize("layout", ["transposed", "plain"])
@pytest.mark.parametrize(("kernels", "version"), [("Haswell", "0.3.27"), ("Zen", "0.3.30"), ("Haswell", "0.3.34.237.2"),
                                                  ("SkylakeX", "0.3.27"), (None, None)])  # fmt: skip
@pytest.mark.parametrize("m", [1, 2, 24, 32, 33, 64, 65])
def test_the_bounds_are_those_that_were_measured(monkeypatch, m, kernels, version, layout):
    """And the values are those of exact arithmetic to rounding, on either way."""
    monkeypatch.setattr(few_rows, "bounds", lambda: few_rows.Bounds(kernels, version))
    wide = version in ("0.3.27", "0.3.30") and kernels != "SkylakeX"
    most = {(True, "transposed"): 64, (True, "plain"): 32, (False, "transposed"): 24, (False, "plain"): 0}[wide, layout]
    a, b = operands(m, layout)
    assert few_rows.are_few(a, b) == (1 < m <= most)
    bound = 256 * np.finfo("float32").eps * np.matmul(np.abs(a), np.abs(b))
    result = matmul.matmul(a, b)
    assert result.flags.c_contiguous
    assert (np.abs(result - np.matmul(a.astype("float64"), b.astype("float64"))) <= bound).all()


def test_others_are_computed_as_they_are():
    assert not few_rows.are_few(*operands(8, "transposed", "float64"))
    assert not few_rows.are_few(*operands(8, "transposed", k=16))
    assert not few_rows.are_few(*operands(8, "transposed", n=8, k=1 << 12))
    a, b = operands(8, "plain")
    assert not few_rows.are_few(a, b[:, ::2])


def test_the_bounds_here_are_those_of_the_blas_here():
    assert vars(few_rows.bounds()) == vars(few_rows.Bounds(blas.kernels(), blas.version()))


@pytest.mark.parametrize("layout", ["transposed", "plain"])
def test_what_a_product_costs(monkeypatch, layout):
    """The Python functions that it enters."""
    bounds = few_rows.Bounds("Haswell", "0.3.27")
    monkeypatch.setattr(few_rows, "bounds", lambda: bounds)
    a, b = operands(8, layout, k=784)
    matmul.matmul(a, b)
    count, entered = count_of_calls(matmul.matmul, a, b)
    assert count <= 10, entered
