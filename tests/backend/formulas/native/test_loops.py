"""Steps of loops: operands of all strides have the results of the ufunc; what has no steps says so."""

import numpy as np
import pytest
from formula_bits import same_bits, values

from autograd_gpu.backend.formulas.native import loops, runs
from autograd_gpu.backend.formulas.native.runs import MOST_ARRAYS, Place

pytest.importorskip("llvmlite", reason="runs need the extra [native]")
pytestmark = pytest.mark.cpu


@pytest.fixture(autouse=True)
def _openblas():
    if not runs.are_there():
        pytest.skip("NumPy uses another BLAS")


def added(a, b):
    """a + b by a run, and the number of its steps."""
    out, memory = np.empty(np.broadcast_shapes(a.shape, b.shape), a.dtype), []

    def new(elements, dtype):
        memory.append(np.empty(elements, dtype))
        return Place(MOST_ARRAYS + len(memory) - 1)

    listed = [(Place(k), loops.strides_of(x, out.shape), x.itemsize) for k, x in enumerate((a, b, out))]
    steps = loops.over(loops.loop_of("add", a.dtype), listed, out.shape, new)
    runs.function_of(steps)(runs.places(*memory), a, b, out)
    return out, len(steps)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_operands_of_all_strides(dtype):
    x = values(60 * 34, np.dtype(dtype)).reshape(60, 34)
    row, column, number = (values(n, np.dtype(dtype), n) for n in (34, 60, 1))
    cases = [(x, x[::-1].copy(), 1), (x, number, 1), (x, row, 2), (x[:59], row, 2), (x, column[:, None], 1),
             (x[:, ::2], row[::2], 1), (x.T, x.T, 1), (row, row, 1), (row[::2], row[:17], 1)]  # fmt: skip
    for a, b, least in cases:
        out, steps = added(a, b)
        with np.errstate(all="ignore"):
            same_bits(out, a + b)
        assert steps >= least


def test_what_has_no_steps():
    x = np.ones((2, 3, 4), "f4")
    listed = [(Place(0), x.transpose(2, 1, 0).strides, 4)] * 3
    with pytest.raises(loops.Unfit):
        loops.over((0, 0), listed, (4, 3, 2), None)
    with pytest.raises(loops.Unfit):
        loops.over((0, 0), [(Place(0), (4,), 4)] * (runs.MOST_OPERANDS + 1), (4,), None)


def test_an_unavailable_loop_is_said(monkeypatch):
    def unavailable(name, dtype):
        raise loops.Unavailable("no such loop here")

    monkeypatch.setattr(loops, "inner_loop", unavailable)
    with pytest.warns(UserWarning, match="no such loop here"), pytest.raises(loops.Unfit):
        loops.loop_of("add", np.dtype("f4"))
