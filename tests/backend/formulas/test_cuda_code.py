"""The CUDA code of formulas: the text of every functor of an op, and how expressions are written."""

import formula_functors
import numpy as np
import pytest
from cuda_emu import build
from scalar_formulas import FORMULAS

from autograd_gpu.backend import kernels
from autograd_gpu.backend.formulas.cuda_code import activation, elementwise
from autograd_gpu.backend.formulas.expression import (
    absolute,
    as_expression,
    cos,
    element,
    equal,
    exp,
    expm1,
    log,
    log1p,
    maximum,
    minimum,
    normal_cdf,
    number,
    root,
    select,
    sigmoid,
    sign,
    sin,
    softplus,
    sqrt,
    tanh,
)
from autograd_gpu.backend.formulas.lowering import lowered
from autograd_gpu.backend.formulas.numpy_code import NumpyCode

pytestmark = pytest.mark.cpu
x, y, k = element("x"), element("y"), number("k")


def lines(outputs, inputs=("x",)):
    """What the functor does with an element."""
    text = elementwise("Test", [as_expression(o) for o in outputs], inputs).text
    body = text.partition("const {\n")[2].partition("    }\n")[0]
    return [line.strip() for line in body.splitlines()]


def test_text_of_every_functor():
    """Whoever reads a change of a formula sees the device code that it makes."""
    assert formula_functors.text() == formula_functors.TEXT.read_text(), (
        f"the CUDA code of a formula has changed; if that is meant, write it anew: {formula_functors.COMMAND}"
    )


@pytest.mark.parametrize(("expression", "written"), [
    (x - (x - 1), "x[0] - (x[0] - W(1))"),
    (x / (x * 2) / 3, "x[0] / (x[0] * W(2)) / W(3)"),
    ((x + 1) * -x, "(x[0] + W(1)) * -x[0]"),
    (1 - -x, "W(1) - -x[0]"),
    (-(x * 0.1), "-(x[0] * W(0.1))"),
    (x * -0.5, "x[0] * W(-0.5)"),
    (select((x > 0) & (x < 2) | equal(x, 5), 1, 0), "x[0] > W(0) && x[0] < W(2) || x[0] == W(5) ? W(1) : W(0)"),
    (select(x > 0, select(x > 1, x, 0), 1), "x[0] > W(0) ? (x[0] > W(1) ? x[0] : W(0)) : W(1)"),
    (minimum(x, maximum(x * k, 1)), "minimum(x[0], maximum(x[0] * n0, W(1)))"),
    (sign(sin(absolute(x))), "sign(sinpi(half_turns(fabs(x[0]))))"),
    (x**k, "pow(x[0], n0)"),
    (x * float("inf"), "x[0] * W(__int_as_float(0x7f800000))"),
    (x * -float("inf"), "x[0] * W(-__int_as_float(0x7f800000))"),
    (maximum(x, float("nan")), "maximum(x[0], W(__int_as_float(0x7fc00000)))"),
    (x / exp(x), "quotient(x[0], exp(x[0]))"),
    (x / (2 + exp(x)), "x[0] / (W(2) + exp(x[0]))"),
    (sigmoid(x), "reciprocal(exp(-x[0]) + W(1))"),
])  # fmt: skip
def test_operators_bind_as_in_the_expression(expression, written):
    assert lines([expression]) == [f"y[0] = {written};"]


def test_equal_parts_are_computed_once():
    e = exp(x * y)
    both = lines([e * e, select(e > k, e, x)], ["x", "y"])
    assert both == ["const W t1 = exp(x[0] * x[1]);", "y[0] = t1 * t1;", "y[1] = t1 > n0 ? t1 : x[0];"]


def test_a_condition_that_is_used_twice_is_a_bool():
    assert lines([select(x > 0, x, 1) * select(x > 0, 2, x)])[0] == "const bool t0 = x[0] > W(0);"


def test_an_output_may_be_an_input_a_number_or_a_constant():
    assert lines([x, k + 1, 2]) == ["y[0] = x[0];", "y[1] = n0;", "y[2] = W(2);"]


def test_numbers_are_computed_by_the_host_in_double():
    functor = elementwise("Test", [x * (1 - k) + k], ["x"])
    assert "// n0 = 1 - k, n1 = k\n" in functor.text
    assert functor.values(k=1e-9) == (1 - 1e-9, 1e-9)


def test_members_of_an_activation_share_their_numbers():
    formula = FORMULAS["softplus"]
    functor = activation("Softplus", formula.traced()["out"], formula.derived((1,)))
    assert "// n0 = beta, n1 = threshold, n2 = beta * beta\n" in functor.text
    assert functor.values(beta=2.0, threshold=20.0) == (2.0, 20.0, 4.0)
    assert (functor.from_result, functor.flat) == (False, False)


def test_second_derivatives_by_the_result():
    """bend is the derivative of f' by y, and twist that of f'' = bend * f'."""
    functor = activation("Exp", exp(x), y, "y")
    assert (functor.from_result, functor.flat) == (True, False)
    for member in ("pull(W g, W y) const { return g * y; }", "bend(W y) const { return W(1); }",
                   "twist(W y) const { return W(1); }"):  # fmt: skip
        assert f"    __device__ W {member}\n" in functor.text


def test_a_flat_activation_has_no_second_derivative():
    functor = activation("Relu", maximum(x, 0), select(y <= 0, 0, 1), "y")
    assert functor.flat
    assert "bend" not in functor.text


# ---- what it computes ----------------------------------------------------------------------------------

PRIMITIVES = [
    x + y, x - y, x * y, x / y, -x, absolute(x), sign(x), sqrt(absolute(x)), root(absolute(x)), exp(x), expm1(x),
    log(absolute(x)), log1p(absolute(x)), sin(x), cos(x), tanh(x), sigmoid(x), sigmoid(-x) * sigmoid(x), softplus(x),
    normal_cdf(x), minimum(x, y), maximum(x, y), absolute(x) ** k, x**3, select(x < y, x, k), select(x <= y, x, k),
    select(x > y, x, k), select((x >= y) | equal(x, 1), x, k), select((x > -1) & (y > 0), x, k),
]  # fmt: skip
FORMULAS_OF_X = [FORMULAS[name].derived((order,)) for name in ("silu", "gelu", "tanh", "mish") for order in range(4)]
EXPRESSIONS = [*PRIMITIVES, *FORMULAS_OF_X]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.0, 19.0, 21.0, -30.0, 80.0, -80.0, np.inf, -np.inf, np.nan]


@pytest.fixture(scope="module")
def module():
    """A functor of each two expressions."""
    functors = [elementwise(f"Test{i}", EXPRESSIONS[i : i + 2], ["x", "y"]) for i in range(0, len(EXPRESSIONS), 2)]
    include = '#line 1 "formulas/elementwise.cuh"\n'
    text = kernels.source("elementwise.cu").replace(include, include + "\n".join([f.text for f in functors]))
    names = [f"elementwise<{f.name}, {c_type}, 1>" for f in functors for c_type in ("float", "double")]
    return build.compile(text, kernels.OPTIONS, names), functors


@pytest.mark.parametrize(("dtype", "close"), [("float32", 1e-6), ("float64", 1e-14)])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_every_primitive_is_that_of_the_numpy_code(module, dtype, close):
    compiled, functors = module
    rng = np.random.default_rng(0)
    arrays = [np.concatenate([np.repeat(SPECIAL, len(SPECIAL)), rng.standard_normal(99) * 3]).astype(dtype),
              np.concatenate([np.tile(SPECIAL, len(SPECIAL)), rng.standard_normal(99)]).astype(dtype)]  # fmt: skip
    size, c_type = arrays[0].size, {"float32": "float", "float64": "double"}[dtype]
    for i, functor in zip(range(0, len(EXPRESSIONS), 2), functors, strict=True):
        outs = [np.zeros(size, dtype) for _ in range(functor.outputs)]
        places = [np.uint64(a.ctypes.data).tobytes() for a in (*arrays, *outs)]
        members = np.array(functor.values(k=1.5) or [0.0], dtype)
        arguments = [*places[:2], bytes(8), *places[2:], *[bytes(8)] * (2 - len(outs)), members.tobytes()]
        arguments += [np.int64(1).tobytes(), np.int64(size).tobytes()]
        compiled.kernels[f"elementwise<{functor.name}, {c_type}, 1>"].launch((2, 1, 1), (256, 1, 1), arguments)
        code = NumpyCode("test", lowered(EXPRESSIONS[i : i + 2], ["x", "y"], dtype == "float64"), np.dtype(dtype))
        for result, expected, e in zip(outs, code(arrays, code.numbers(k=1.5)), EXPRESSIONS[i : i + 2], strict=True):
            np.testing.assert_allclose(result, expected, rtol=8 * close, atol=close, err_msg=str(e))
