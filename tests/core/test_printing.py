"""How tensors print: what of them is read, and NumPy's and PyTorch's text."""

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.backend.cuda import runtime


@pytest.fixture(autouse=True)
def defaults():
    yield
    ag.set_printoptions(profile="default")


@pytest.mark.parametrize("edgeitems", [1, 2, 3, 5])
@pytest.mark.parametrize("shape", [(2000,), (6, 7), (7, 6), (3, 1, 500), (9, 9, 9), (2, 3, 4, 50), (11, 0, 40)])
@pytest.mark.parametrize("threshold", [0, 50, 1000])
def test_the_text_is_numpys_of_the_whole_array(shape, threshold, edgeitems, device):
    ag.set_printoptions(threshold=threshold, edgeitems=edgeitems)
    rng = np.random.default_rng(0)
    for array in (rng.integers(-999, 999, shape), rng.uniform(0.5, 99, shape), rng.normal(size=shape) > 0):
        expected = np.array2string(array, separator=", ", prefix="tensor(", precision=4, threshold=threshold,
                                   edgeitems=edgeitems, max_line_width=80, suppress_small=True)
        assert repr(ag.tensor(array, device=device)).startswith(f"tensor({expected}")


@pytest.mark.parametrize("size", [(10**12,), (10**6, 10**6), (10**5, 2, 10**7)])
def test_a_tensor_larger_than_memory_prints(size, device):
    x = ag.ones(1, device=device).expand(size)
    ag.set_printoptions(edgeitems=1)
    assert repr(x).count("1.") == 2 ** len(size)


def test_what_is_not_shown_does_not_choose_the_notation(device):
    """As in PyTorch."""
    x = ag.ones(5000, device=device)
    x[0], x[2500] = 0.001, 1e30
    assert repr(x).startswith("tensor([0.001, 1.   , 1.   , ..., 1.   , 1.   , 1.   ]")
    x[-1] = 1e30
    assert repr(x).startswith("tensor([1.0000e-03, 1.0000e+00, 1.0000e+00, ..., 1.0000e+00, 1.0000e+00,\n")


@pytest.mark.parametrize(("values", "text"), [
    ([1e-8, 1.0], "[1.0000e-08, 1.0000e+00]"), ([-1e-8, 1.0], "[-1.0000e-08,  1.0000e+00]"),
    ([float("nan"), 1e-9], "[       nan, 1.0000e-09]"), (1e-6, "1.0000e-06"),
])  # fmt: skip
def test_scientific_notation_has_all_digits(values, text):
    assert str(ag.tensor(values, device="cpu")) == f"tensor({text})"  # as in PyTorch


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e5m2"])
def test_only_what_is_shown_is_copied_to_the_host(dtype, monkeypatch):
    copied = []
    to_host = runtime.to_host
    monkeypatch.setattr(runtime, "to_host", lambda array: copied.append(array.size) or to_host(array))
    text = repr(ag.ones(500, 300, device="cuda").to(getattr(ag, dtype)))
    assert copied == [36]
    assert text.count("1.") == 36


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "uint8"])
def test_every_dtype_prints_its_ends(dtype, device):
    x = ag.arange(2000, device=device).remainder(8).to(ag.float32).to(getattr(ag, dtype))
    point = "" if dtype == "uint8" else "."
    assert repr(x).startswith(f"tensor([0{point}, 1{point}, 2{point}, ..., 5{point}, 6{point}, 7{point}]")
