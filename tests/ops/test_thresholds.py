"""The paths for many elements, on the op table's small samples: every size from which one begins is set to the least.

The samples of the other tests are so small that on the CPU they take the paths for few elements alone.
"""

import sys

import numpy as np
import pytest
from op_db import Call, assert_close, values
from op_rows import ROWS

import autograd_gpu as ag
from autograd_gpu.backend.cpu import numpy_ops
from autograd_gpu.core.declare.op import REGISTRY

pytestmark = pytest.mark.cpu
LEAST = {"FEW": 0, "MASKED": 0, "MANY": 0, "MANY_CHOICES": 0, "TINY": 0, "BLOCK": 2}
KNOWN = [row for row in ROWS if row.op in REGISTRY and "forward" not in row.skip]


@pytest.fixture
def many(monkeypatch):
    """Any number of elements counts as many."""
    for name, module in list(sys.modules.items()):
        if name.startswith(("autograd_gpu.ops.", "autograd_gpu.backend.arrays.")) or module is numpy_ops:
            for threshold in LEAST.keys() & vars(module).keys():
                monkeypatch.setattr(module, threshold, LEAST[threshold])


def results(row):
    """The outputs of every sample in float32 and float64, and the gradients of those that have one."""
    seen = []
    for dtype in ("float32", "float64"):
        for sample in row.draw() if dtype in row.dtypes else []:
            call = Call(row, sample, "cpu", dtype=dtype).run()
            grads = [g if g is None else values(g) for g in call.grad()] if call.differentiable and call.inputs else []
            seen.append((sample, dtype, [values(t) for t in call.outs], grads))
    return seen


@pytest.mark.parametrize("row", KNOWN, ids=[row.op for row in KNOWN])
def test_the_paths_agree(row, request):
    expected = results(row)
    request.getfixturevalue("many")
    for (sample, dtype, outs, grads), (*_, few_outs, few_grads) in zip(results(row), expected, strict=True):
        for actual, few in zip([*outs, *grads], [*few_outs, *few_grads], strict=True):
            assert (actual is None) == (few is None)
            if actual is not None:
                assert_close(ag.tensor(actual), few, 4 * row.tolerance(dtype), f"{sample} in {dtype}")


def test_the_thresholds_are_set(many):
    assert (numpy_ops.FEW, numpy_ops.MANY_CHOICES) == (0, 0)


def test_multinomial_of_many_is_that_of_few(request):
    weights = ag.tensor(np.array([[0.0, 1.0, 3.0], [2.0, 0.0, 0.0]]))

    def drawn():
        return ag.multinomial(weights, 500, replacement=True, generator=ag.Generator().manual_seed(3)).numpy()

    few = drawn()
    request.getfixturevalue("many")
    np.testing.assert_array_equal(drawn(), few)
