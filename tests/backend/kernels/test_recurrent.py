"""The kernels of recurrent.cu against their NumPy references, on emulated threads."""

import re

import emulated
import formula_functors
import kernel_references as references
import numpy as np
import pytest
from checkout import ROOT
from emulated import ORDERS, Placed, assert_close, unset, width_of

from autograd_gpu.backend import kernels
from autograd_gpu.backend.kernels.recurrent import GATES, KERNELS

pytestmark = pytest.mark.cpu
formula_functors.declare()
CLOSE = {"float64": 1e-14, "float32": 1e-6, "float16": 2e-3, "bfloat16": 2e-2}
SHAPES = [(1, 1), (2, 3), (5, 16), (37, 24), (300, 8), (0, 8)]
CASES = [(kernel, None) for kernel in KERNELS if not kernel.startswith("rnn")]
CASES += [(kernel, name) for kernel in KERNELS if kernel.startswith("rnn") for name in ("relu", "tanh")]


@pytest.fixture(params=CASES, ids=lambda case: "-".join(filter(None, case)))
def case(request):
    return request.param


def given(kernel, rows, units, dtype):
    """What the kernel reads: gates and cells as a forward makes them, any other numbers."""
    family = kernel.partition("_")[0]

    def make(name):
        cols = GATES[family].get(name, 1) * units
        result = np.random.standard_normal((cols,) if name == "bias" else (rows, cols))
        return (np.tanh(abs(result)) if name == "gates" else result).astype(dtype)

    return {name: make(name) for name in KERNELS[kernel][0]}


def run(case, arrays, offset=0, **how):
    """What backend/kernels/recurrent.py launches."""
    (kernel, activation), (reads, writes) = case, KERNELS[case[0]]
    like = arrays["before" if "before" in arrays else reads[-1]]
    (rows, units), width = like.shape, width_of(like, offset)
    gates = GATES[kernel.partition("_")[0]]
    placed = [None if arrays[name] is None else Placed(arrays[name], offset) for name in reads]
    outs = [unset((rows, gates.get(name, 1) * units), like.dtype, offset) for name in writes]
    functor = "" if activation is None else f"{activation.capitalize()}, "
    instance = f"{kernel}<{functor}{kernels.C_NAMES[like.dtype]}, {width}>"
    emulated.launch(instance, kernels.tiles(rows, units, width, like.itemsize), *placed, *outs, rows, units, **how)
    return [out.result() for out in outs]


def expected(case, arrays):
    kernel, activation = case
    reference = getattr(references, kernel)
    return reference(*arrays.values()) if activation is None else reference(activation, *arrays.values())


def near(actual, expected, dtype):
    for array, other in zip(actual, expected, strict=True):
        assert_close(array, other, CLOSE[str(dtype)], CLOSE[str(dtype)])


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("offset", [0, 1])
def test_results_are_those_of_the_reference(case, dtype, offset, order):
    for shape in SHAPES:
        arrays = given(case[0], *shape, dtype)
        near(run(case, arrays, offset, order=order), expected(case, arrays), dtype)


def test_arrays_that_may_be_missing(case, dtype):
    """The gradient of the step's own output, and the bias of a GRU: zeros."""
    arrays = given(case[0], 5, 16, dtype)
    for name in {"g", "bias"} & arrays.keys():
        without = {**arrays, name: None}
        near(run(case, without), expected(case, without), dtype)
        zeros = run(case, {**arrays, name: np.zeros_like(arrays[name])})
        near(run(case, without), zeros, dtype)


@pytest.mark.parametrize("offset", [0, 1])
def test_no_race_and_no_undefined_behaviour(case, dtype, offset):
    for shape in ((70, 24), (3, 5)):
        run(case, given(case[0], *shape, dtype), offset, check="races")


def test_nan_and_infinity_do_not_spread(dtype):
    """Into the row and unit where they are, and no other; saturated gates are 0 and 1."""
    arrays = given("lstm_step", 3, 8, dtype)
    arrays["x"][1, 2] = np.nan  # i of unit 2
    arrays["x"][2, 8:16] = np.inf  # f
    gates, cells, values = run(("lstm_step", None), arrays)
    assert np.isnan(gates.astype(np.float32)).sum() == 1
    for actual in (cells, values):
        assert np.argwhere(np.isnan(actual.astype(np.float32))).tolist() == [[1, 2]]
    assert (gates[2, 8:16] == 1).all()


SECTION = (ROOT / "docs" / "kernels.md").read_text().partition("## Recurrent layers")[2].partition("\n## ")[0]
ROWS = re.findall(r"^\| `(\w+)` \| ([^|]*) \| ([^|]*) \| (\d+) \|$", SECTION, re.MULTILINE)


@pytest.mark.parametrize(("kernel", "reads", "writes", "total"), ROWS, ids=[row[0] for row in ROWS])
def test_bytes_are_as_documented(kernel, reads, writes, total, monkeypatch):
    """Of float32 for a unit of a row: the difference of two launches of one grid leaves out the bias."""
    case = next(case for case in CASES if case[0] == kernel)
    names, gates = KERNELS[kernel], GATES[kernel.partition("_")[0]]
    for cell, known in zip((reads, writes), names, strict=True):
        result = re.findall(r"(?:(\d) )?`(\w+)`", cell)
        assert [(int(count or 1), name) for count, name in result] == [
            (gates.get(name, 1), name) for name in known if name != "bias"
        ]
    monkeypatch.setattr(kernels, "tiles", lambda *_: ((2, 1), (8, 32)))

    def moved(times):
        run(case, given(kernel, 64 * times, 64, np.dtype("float32")), check="races")
        functor = "" if case[1] is None else f"{case[1].capitalize()}, "
        instance = f"{kernel}<{functor}float, 4>"
        return sum(emulated.compiled("recurrent.cu", "races").kernels[instance].traffic()) / (64 * 64)

    bias = 2 * 3 * 4 if kernel == "gru_step" else 0  # read again for each row, from the cache
    assert moved(3) - moved(1) == 2 * int(total) + bias


def test_every_kernel_is_documented():
    assert [row[0] for row in ROWS] == list(KERNELS)
