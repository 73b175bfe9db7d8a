"""Products behind a run by blocks of rows: what they read is there, with the bits and counts of eager code."""

import pytest
from row_run_cases import MATRIX, ROWS, STREAM, WIDTH, gradients, jet, leaves, numbers, same

from autograd_gpu.backend.cpu import large_products
from autograd_gpu.nn.functional import linear

pytestmark = [pytest.mark.cpu, pytest.mark.usefixtures("written")]


def test_a_product_of_a_product_comes_behind_it(written, monkeypatch):
    """The gradient of a weight, multiplied by itself transposed. Alone both are small, but not together."""
    monkeypatch.setattr(large_products, "PER_BLOCK", 50_000)
    first, second = numbers((WIDTH, WIDTH), (WIDTH, WIDTH))

    def f(x, stream, g, h):
        x, weight, other = leaves(x, first, second)
        dx, dw = gradients(jet(x, stream, weight), (x, weight), g)
        (product,) = gradients(linear(dw, other), (other,), h)
        return dx, dw, product, (linear(dx, second) * 2 + 1).tanh()

    same(f, *numbers(MATRIX, STREAM, (2, ROWS, WIDTH), (WIDTH, WIDTH)))
    assert sum(run.layers for run in written) == 2
