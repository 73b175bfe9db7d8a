"""What `python -m autograd_gpu.formulas` prints, and how accurate the ops from formulas are."""

import mpmath
import numpy as np
import pytest
from mpmath import mpf

import autograd_gpu as ag
from autograd_gpu import formulas
from autograd_gpu.core.declare.op import RECORD

pytestmark = pytest.mark.cpu
FAMILIES = formulas.families()


def sigmoid(x): return 1 / (1 + mpmath.exp(-x))


def gelu(x, approximate="none"):
    if approximate == "none":
        return x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2
    return x * (1 + mpmath.tanh(mpmath.sqrt(2 / mpmath.pi) * (x + mpf(0.044715) * x**3))) / 2


def softplus(x, beta=1.0, threshold=20.0):
    return x if x * mpf(beta) > threshold else mpmath.log1p(mpmath.exp(x * mpf(beta))) / mpf(beta)


def selu(x):
    alpha, scale = mpf("1.6732632423543772848170429916717"), mpf("1.0507009873554804934193349852946")
    return scale * (alpha * mpmath.expm1(x) if x < 0 else x)


# What the ops compute, in mpmath's numbers.
EXACT = {
    "relu": lambda x: max(x, 0), "sigmoid": sigmoid, "tanh": mpmath.tanh, "silu": lambda x: x * sigmoid(x),
    "sine": lambda x, frequency=1.0: mpmath.sin(x * mpf(frequency)), "softsign": lambda x: x / (1 + abs(x)),
    "elu": lambda x, alpha=1.0: mpf(alpha) * mpmath.expm1(x) if x < 0 else x,
    "celu": lambda x, alpha=1.0: mpf(alpha) * mpmath.expm1(x / mpf(alpha)) if x < 0 else x, "selu": selu,
    "softplus": softplus, "logsigmoid": lambda x: -mpmath.log1p(mpmath.exp(-x)),
    "mish": lambda x: x * mpmath.tanh(mpmath.log1p(mpmath.exp(x))), "gelu": gelu,
    "leaky_relu": lambda x, negative_slope=0.01: x * (1 if x > 0 else mpf(negative_slope)),
    "hardtanh": lambda x: max(min(x, 1), -1), "hardsigmoid": lambda x: max(min(x + 3, 6), 0) / 6,
    "hardswish": lambda x: x * max(min(x + 3, 6), 0) / 6,
    "hardshrink": lambda x: x if abs(x) > 0.5 else mpf(0),
    "softshrink": lambda x: mpmath.sign(x) * max(abs(x) - 0.5, 0),
    "threshold": lambda x, threshold, value: x if x > threshold else mpf(value),
}  # fmt: skip

# The largest errors of the function and three derivatives at POINTS, in units in the last place of float32.
BOUNDS = {
    ("relu",): (0, 0, 0, 0), ("sigmoid",): (2, 1, 1, 1), ("tanh",): (1, 1, 1, 2), ("silu",): (2, 3, 4, 4),
    ("sine",): (1, 1, 1, 1), ("sine", 3.0): (8, 13, 9, 14), ("softsign",): (1, 3, 5, 5), ("elu",): (1, 1, 1, 1),
    ("elu", 0.7): (2, 2, 2, 2), ("celu",): (1, 1, 1, 1), ("celu", 0.7): (1, 42, 42, 42), ("selu",): (2, 2, 2, 2),
    ("softplus",): (1, 2, 3, 2), ("softplus", 2.0, 15.0): (1, 2, 2, 6), ("logsigmoid",): (1, 2, 3, 2),
    ("mish",): (2, 11, 12, 8), ("gelu",): (8, 9, 2, 2), ("gelu", "tanh"): (23, 27, 32, 50),
    ("leaky_relu",): (1, 1, 0, 0), ("leaky_relu", 1.7): (1, 1, 0, 0), ("hardtanh",): (0, 0, 0, 0),
    ("hardsigmoid",): (1, 1, 0, 0), ("hardswish",): (1, 1, 1, 0), ("hardshrink",): (0, 0, 0, 0),
    ("softshrink",): (0, 0, 0, 0), ("threshold", 0.4, 2.0): (0, 0, 0, 0),
}  # fmt: skip
# The same in float64, at the same points.
BOUNDS_OF_DOUBLES = {
    ("relu",): (0, 0, 0, 0), ("sigmoid",): (2, 1, 1, 1), ("tanh",): (1, 1, 2, 4), ("silu",): (2, 6, 8, 6),
    ("sine",): (1, 1, 1, 1), ("sine", 3.0): (1, 1, 1, 1), ("softsign",): (1, 1, 1, 2), ("elu",): (1, 1, 1, 1),
    ("elu", 0.7): (1, 1, 1, 1), ("celu",): (1, 1, 1, 1), ("celu", 0.7): (1, 18, 6, 5), ("selu",): (2, 2, 2, 2),
    ("softplus",): (1, 2, 4, 4), ("softplus", 2.0, 15.0): (1, 2, 2, 2), ("logsigmoid",): (1, 2, 4, 4),
    ("mish",): (2, 13, 3, 14), ("gelu",): (39, 2, 1, 2), ("gelu", "tanh"): (23, 28, 15, 15),
    ("leaky_relu",): (1, 0, 0, 0), ("leaky_relu", 1.7): (1, 0, 0, 0), ("hardtanh",): (0, 0, 0, 0),
    ("hardsigmoid",): (1, 1, 0, 0), ("hardswish",): (1, 1, 1, 0), ("hardshrink",): (0, 0, 0, 0),
    ("softshrink",): (0, 0, 0, 0), ("threshold", 0.4, 2.0): (0, 0, 0, 0),
}  # fmt: skip
SIZES = (1e-42, 1e-20, 1e-3, 0.3, 1.1, 2.7, 5.5, 9.0, 15.0, 19.0, 40.0, 80.0)
POINTS = np.array([sign * size for size in SIZES for sign in (1.0, -1.0)], np.float32)


def floor(name, order, x):
    """The size from which errors are relative: the smallest normal number, but more where derivatives cancel."""
    if order and name in ("sigmoid", "tanh"):  # 1 - out is as inaccurate as out
        return 1.0
    return 2.0**-126 if order < 2 else 0.125 if order > 2 and abs(x) < 0.01 else 1e-10


def nested(name, x, attributes):
    """The function and three derivatives at x by reverse mode above reverse mode."""
    results = [getattr(RECORD, name)(x, *attributes)]
    for _ in range(3):
        y = results[-1]
        results.append(ag.autograd.grad(y.sum(), x, create_graph=True)[0] if y.requires_grad else ag.zeros_like(x))
    return [r.detach().numpy() for r in results]


def error(result, exact, size, digits=23):
    """In units in the last place of float32, or of a type with so many binary digits, of numbers of this size."""
    unit = mpf(2) ** (mpmath.floor(mpmath.log(max(abs(exact), mpf(size)), 2)) - digits)
    return float(abs(mpf(float(result)) - exact) / unit)


def test_every_formula_has_a_reference():
    assert {name for name, *_ in BOUNDS} == set(EXACT) == set(FAMILIES)


@pytest.fixture(params=BOUNDS, ids=str, scope="module")
def case(request):
    """A formula, its attributes, and the exact values of the function and three derivatives at POINTS."""
    name, *attributes = request.param
    with mpmath.workdps(60):
        exact = [[mpmath.diff(lambda t: EXACT[name](t, *attributes), mpf(float(x)), order) for order in range(4)]
                 for x in POINTS]  # fmt: skip
    return request.param, exact


@pytest.mark.parametrize(("dtype", "digits", "bounds"), [("float32", 23, BOUNDS), ("float64", 52, BOUNDS_OF_DOUBLES)])
def test_accuracy(case, dtype, digits, bounds):
    (name, *attributes), exact = case
    results = nested(name, ag.tensor(POINTS.astype(dtype), requires_grad=True), attributes)
    worst = [0.0] * 4
    with mpmath.workdps(60):
        for x, values, right in zip(POINTS, np.transpose(results), exact, strict=True):
            for order, value in enumerate(values):
                worst[order] = max(worst[order], error(value, right[order], floor(name, order, x), digits))
    assert all(w <= bound + 1e-9 for w, bound in zip(worst, bounds[case[0]], strict=True)), worst


@pytest.mark.parametrize("case", BOUNDS, ids=str)
def test_results_that_are_no_normal_numbers(case):
    """Where exp(-x) overflows, results below 128 times the smallest normal number may be zeros."""
    name, *attributes = case
    points = np.float32([-89.0, -95.0, -120.0, 89.0, 95.0, 120.0])
    results = nested(name, ag.tensor(points, requires_grad=True), attributes)
    with mpmath.workdps(80):
        for x, values in zip(points, np.transpose(results), strict=True):
            for order, value in enumerate(values):
                exact = mpmath.diff(lambda t: EXACT[name](t, *attributes), mpf(float(x)), order)
                size = floor(name, order, x) if abs(exact) > 2.0**-119 else 2.0**-96
                assert error(value, exact, size) <= BOUNDS[case][order] + 1, (x, order)


# f(inf), f(-inf) and f'(inf), f'(-inf)
LIMITS = {
    "relu": (np.inf, 0, 1, 0), "sigmoid": (1, 0, 0, 0), "tanh": (1, -1, 0, 0), "silu": (np.inf, np.nan, np.nan, np.nan),
    "sine": (np.nan, np.nan, np.nan, np.nan),
    "softsign": (np.nan, np.nan, 0, 0), "elu": (np.inf, -1, 1, 0), "celu": (np.inf, -1, 1, 0),
    "selu": (np.inf, -1.7580993, 1.050701, 0), "softplus": (np.inf, 0, 1, 0), "logsigmoid": (0, -np.inf, 0, 1),
    "mish": (np.inf, np.nan, 1, np.nan), "gelu": (np.inf, np.nan, np.nan, np.nan), "hardtanh": (1, -1, 0, 0),
    "leaky_relu": (np.inf, -np.inf, 1, 0.01), "hardsigmoid": (1, 0, 0, 0), "hardswish": (np.inf, np.nan, 1, 0),
    "hardshrink": (np.inf, -np.inf, 1, 1), "softshrink": (np.inf, -np.inf, 1, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.filterwarnings("ignore:invalid value encountered in dot")  # the sum of inf and -inf, by some BLAS
def test_infinity_zero_and_nan(name):
    results = nested(name, ag.tensor([np.inf, -np.inf, np.nan, 0.0, -0.0], requires_grad=True), ())
    np.testing.assert_array_equal(np.concatenate([r[:2] for r in results[:2]]), np.float32(LIMITS[name]))
    assert np.isnan(results[0][2])
    for result in results:
        assert np.isfinite(result[3:]).all()
        assert result[3] == result[4]


def test_what_is_printed(capsys):
    assert formulas.main(["silu", "--order", "2", "--program", "--numpy", "--llvm"]) == 0
    printed = capsys.readouterr().out
    assert "# silu'(x)\nout = sigmoid(x) * (1 + x * sigmoid(-x))\n" in printed
    assert "# h * silu''(x) in float32\ni0 = input h\ni1 = input x\n" in printed
    assert "# h * silu''(x) in float32\ndeclare float @llvm.sqrt.f32(float)\n" in printed
    assert "def few(i0, c0):\n    t0 = neg(i0)\n    t1 = exp(t0)\n    t2 = add(t1, c0)\n" in printed


def test_formulas_of_several_elements_are_printed(capsys):
    flags = ["--order", "2", "--program", "--numpy", "--llvm", "--cuda"]
    for name, parts in (("lerp", 6), ("addcmul", 5), ("addcdiv", 6)):
        assert formulas.main([name, *flags]) == 0
        printed = capsys.readouterr().out
        for line in ("\ni0 = input ", "\ndef block(i0", "\ndefine void @loop(", "\ntemplate <typename W> struct "):
            assert printed.count(line) == parts, (name, line)
    assert "# addcdiv(x, a, b) by a by b\nv0 = 1 / b\nout = -(v0 * v0 * value)\n" in printed
    assert "# g * addcdiv(x, a, b) by x in float32\ni0 = input g\nreturn i0\n" in printed


@pytest.mark.parametrize("name", formulas.losses())
def test_losses_are_printed(name, capsys):
    """Each with the derivatives that are not zero for all elements."""
    assert formulas.main([name, "--numpy", "--llvm", "--cuda"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"# {name}(")
    assert printed.count("\ndef block(i0") == printed.count("\ntemplate <typename W> struct ") > 1


def test_losses_have_formulas():
    assert {"huber_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits"} < {*formulas.losses()}


@pytest.mark.parametrize("name", FAMILIES)
def test_every_formula_is_printed(name, capsys):
    assert formulas.main([name, "--order", "3", "--program", "--numpy", "--llvm", "--cuda"]) == 0
    printed = capsys.readouterr().out
    assert f"# {name}'''(" in printed
    for line in ("\ndef block(i0", "\ndefine void @loop(", "\ntemplate <typename W> struct "):
        assert printed.count(line) == 4, line
