"""What `python -m autograd_gpu.formulas` prints, and how accurate the ops from formulas are."""

import mpmath
import numpy as np
import pytest
from scalar_formulas import exact

from autograd_gpu import formulas
from autograd_gpu.core.declare.op import RAW

pytestmark = pytest.mark.cpu
FAMILIES = formulas.families()

# The largest error of the function and three derivatives at POINTS, in units in the last place of float32.
BOUNDS = {"silu": (2, 3, 4, 4), "logsigmoid": (1, 2, 4, 3), "mish": (2, 12, 6, 8)}
SIZES = (0.0, 1e-42, 1e-20, 1e-3, 0.3, 1.1, 2.7, 5.5, 9.0, 15.0, 19.0, 40.0, 80.0)
POINTS = [sign * size for size in SIZES for sign in (1.0, -1.0)]
SMALLEST = 2.0**-126


def error(result, expected, x, order):
    """In ulp of float32, of the smallest normal number or more; at the zeros of third derivatives in ulp of 1 / 8."""
    size = max(abs(expected), mpmath.mpf(0.125 if order > 2 and abs(x) < 0.01 else SMALLEST))
    return float(abs(mpmath.mpf(float(result)) - expected) / mpmath.mpf(2) ** (mpmath.floor(mpmath.log(size, 2)) - 23))


@pytest.mark.parametrize(("name", "order"), [(name, order) for name in FAMILIES for order in range(4)])
def test_accuracy_in_float32(name, order):
    family = FAMILIES[name]
    x = np.array(POINTS, np.float32)
    function = family.at(RAW, order)
    result = function(np.ones_like(x), x) if order else function(x)
    with mpmath.workdps(60):
        expected = [exact(family.formula.derived((order,)), {"x": mpmath.mpf(float(p))}) for p in x]
    errors = [error(r, e, p, order) for r, e, p in zip(result, expected, x, strict=True)]
    worst = int(np.argmax(errors))
    assert errors[worst] <= BOUNDS[name][order], f"{errors[worst]} ulp at {x[worst]}"


@pytest.mark.parametrize("name", FAMILIES)
def test_infinity_and_nan(name):
    family = FAMILIES[name]
    limits = {"silu": [np.inf, np.nan], "mish": [np.inf, np.nan], "logsigmoid": [0.0, -np.inf]}
    x = np.array([np.inf, -np.inf, np.nan], np.float32)
    np.testing.assert_array_equal(family.at(RAW, 0)(x), np.array([*limits[name], np.nan], np.float32))
    for order in (1, 2, 3):
        assert np.isnan(family.at(RAW, order)(np.ones_like(x), x)[2])


def test_what_is_printed(capsys):
    assert formulas.main(["silu", "--order", "2", "--program", "--numpy", "--llvm"]) == 0
    printed = capsys.readouterr().out
    assert "# silu'(x)\nout = sigmoid(x) * (1 + x * sigmoid(-x))\n" in printed
    assert "# h * silu''(x) in float32\ni0 = input h\ni1 = input x\n" in printed
    assert "# h * silu''(x) in float32\ndeclare float @llvm.sqrt.f32(float)\n" in printed
    assert "def few(i0, c0):\n    t0 = neg(i0)\n    t1 = exp(t0)\n    t2 = add(t1, c0)\n" in printed
