"""Native code has the bits of NumPy code: every formula, order and dtype, all strides, in place, from threads."""

import inspect
import warnings
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest
from formula_bits import same_bits, values
from hypothesis import given, settings
from scalar_formulas import EXPRESSIONS, FORMULAS

from autograd_gpu import formulas
from autograd_gpu.backend.cpu import rows
from autograd_gpu.backend.formulas import expression as language
from autograd_gpu.backend.formulas.expression import element, number, select
from autograd_gpu.backend.formulas.formula import Formula
from autograd_gpu.backend.formulas.lowering import OPERATIONS, lowered
from autograd_gpu.backend.formulas.native import llvm_code, switch
from autograd_gpu.backend.formulas.numpy_code import BLOCK, FEW, NumpyCode

pytest.importorskip("llvmlite", reason="native code needs the extra [native]")
pytestmark = pytest.mark.cpu
OTHER_DTYPES = (np.float64, np.float16, ml_dtypes.bfloat16)
x, y, k = element("x"), element("y"), number("k")
COUNT = BLOCK + FEW + 77
FAMILIES = formulas.families()
VALUES = {inspect.Parameter.empty: 0.3}  # of attributes that have no default
# Ops, the options of which there is a trace, and the order: 3 is that of the rule of the second derivative.
OPS = [(name, (), order) for name in FAMILIES for order in range(4)] + [("gelu", (("approximate", "tanh"),), 2)]
CASES = [(name, order) for name, f in FORMULAS.items() for order in range(4 if len(f.inputs) == 1 else 2)]


def codes_of(program, dtype=np.float32):
    """The NumPy code of a program, and its native code."""
    dtype = np.dtype(dtype)
    code = NumpyCode("test", program, np.float64 if dtype == np.float64 else np.float32)
    native, code.native = code.native, None
    native.compile(dtype)
    return code, native


def check(code, native, arrays, numbers):
    """Equal bits for dense, strided, reversed, in-place and broadcast operands, and for pieces of a few elements.

    The NumPy code gets copies of reversed operands: with AVX-512 NumPy computes their exp and others by other code.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for a in (arrays, [v[::-3] for v in arrays], [np.stack([v] * 3, 1)[:, 1] for v in arrays],
                  [v[:5] for v in arrays], [arrays[0][:12].reshape(3, 4), *[v[:4] for v in arrays[1:]]],
                  [v[:0] for v in arrays], [v[7].reshape(()) for v in arrays]):  # fmt: skip
            forward = [v.copy() if min(v.strides, default=0) < 0 else v for v in a]
            for got, want in zip(native(a, numbers), code(forward, numbers), strict=True):
                same_bits(got, np.broadcast_to(want, got.shape))
        wanted = code(arrays, numbers)
        wide = [np.empty((len(arrays[0]), 2), w.dtype) for w in wanted]
        native(arrays, numbers, [w[:, 1] for w in wide])
        copies = [np.copy(a) for a in arrays]
        native(copies, numbers, [*copies, *[np.empty_like(a) for a in arrays] * len(wanted)][: len(wanted)])
        for k, want in enumerate(wanted):
            same_bits(wide[k][:, 1], want)
            if k < len(copies):
                same_bits(copies[k], want)


def check_program(program, dtype, numbers):
    if reason := llvm_code.unsupported(program):
        assert "SciPy" in reason
        assert dtype == np.float64
        return
    code, native = codes_of(program, dtype)
    check(code, native, [values(COUNT, dtype, seed) for seed, _ in enumerate(program.inputs)], code.numbers(**numbers))


@pytest.mark.parametrize("dtype", [np.float32, *OTHER_DTYPES])
@pytest.mark.parametrize(("name", "order"), CASES)
def test_formulas(name, order, dtype):
    formula = FORMULAS[name]
    output = formula.derived((order,) + (0,) * (len(formula.inputs) - 1))
    check_program(lowered([output], formula.inputs, dtype == np.float64), dtype, formula.numbers)


@pytest.mark.parametrize("dtype", [np.float32, *[pytest.param(t, marks=pytest.mark.more) for t in OTHER_DTYPES]])
@pytest.mark.parametrize(("name", "options", "order"), OPS)
def test_ops(name, options, order, dtype):
    family = FAMILIES[name]
    attributes = {n: VALUES.get(value, value) for n, value in family.attributes.items()} | dict(options)
    products = ((("g", "h"), order), (("g",), max(order - 1, 1))) if order else (((), 0),)
    options, numbers = family.chosen(attributes)
    check_program(family.program(products, options, dtype == np.float64), dtype, numbers)


def every_operation(x, y, *, k=1.5):
    """Outputs that use each of OPERATIONS but SciPy's."""
    plain = [language.sqrt(x), language.absolute(x), language.sign(x), language.exp(x), language.expm1(x),
             language.log(x), language.log1p(x), language.sin(x), language.cos(x), language.tanh(x), -x, x + y, x - y,
             x * y, x / y, language.minimum(x, y), language.maximum(x, y), language.minimum(x, k),
             language.maximum(-0.0, x), x**k, x**0.5, x**-3, language.absolute(y) ** (k + 1)]  # fmt: skip
    conditions = [x < y, x <= y, x > y, x >= y, language.equal(x, y), (x < y) & (y < 1), (x < y) | (k < y), k < 2]
    return {str(n): e for n, e in enumerate([*plain, *[select(c, x, y) for c in conditions]])}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_operation(dtype):
    outputs = [*Formula(every_operation).traced().values()]
    used = {i.op for i in lowered(outputs, ["x", "y"]).instructions}
    assert used == OPERATIONS - {*llvm_code.OF_SCIPY}
    a, b = values(COUNT, dtype), values(COUNT, dtype, seed=1)
    b[:64], a[:64] = np.resize([0.0, -0.0, 0.0, np.nan], 64), np.resize([-0.0, 0.0, 1.0], 64)
    for n in range(0, len(outputs), 6):
        code, native = codes_of(lowered(outputs[n : n + 6], ["x", "y"], double=dtype == np.float64), dtype)
        check(code, native, [a, b], code.numbers(k=1.5))


@given(EXPRESSIONS, EXPRESSIONS)
@settings(max_examples=12, deadline=None)
def test_random_programs_with_outputs_that_are_inputs_and_numbers(a, b):
    code, native = codes_of(lowered([a + x * 0 + y * 0, y, b * x * y, x, (a * x) * (b * y)], ["x", "y"]))
    check(code, native, [values(COUNT), values(COUNT, seed=1)], code.numbers(k=1.25))


def test_an_output_without_elements_is_filled():
    _, native = codes_of(lowered([k * 2, language.constant(-0.0), x], ["x"]))
    for size in (5, FEW + 5):
        twice, zero, _ = native([values(size)], [np.float32(3)])
        np.testing.assert_array_equal(twice, np.full(size, 3.0, np.float32))
        assert np.signbit(zero).all()


def test_threads_share_a_large_array_and_call_at_once():
    code, native = codes_of(lowered([FORMULAS["silu"].derived((2,)) * y], ["x", "y"]))
    numbers, before = code.numbers(), rows._Cores.count
    a, b = values(1 << 20).reshape(1 << 10, 1 << 10), values(1 << 10, seed=1)
    (want,) = code([a, b], numbers)
    try:
        rows.set_cores(2)
        same_bits(native([a, b], numbers)[0], want)
        same_bits(native([a.T, b], numbers)[0], code([a.T, b], numbers)[0])
    finally:
        rows.set_cores(before)
    with ThreadPoolExecutor(4) as pool:
        for got in pool.map(lambda _: native([a, b], numbers)[0], range(8)):
            same_bits(got, want)


def test_results_have_the_memory_order_of_the_input():
    code, native = codes_of(lowered([x * x], ["x"]))
    for size in (8, 400):
        base = np.ones((size, size), np.float32)
        for a in (base, base.T, np.ones((2, size, size), np.float32).transpose(1, 0, 2)):
            assert native([a], ())[0].strides == code([a], ())[0].strides


def test_the_text_of_a_strip():
    program = lowered([select(x <= 0, language.exp(x) * k, x)], ["x"])
    ir = llvm_code.source(program, [np.dtype(np.float32)] * 3, {})
    assert llvm_code.functions_of(program) == ["exp"]
    assert [line.split()[0] for line in ir.splitlines() if "call void" in line] == ["call", "call"]
    first, second = ir.index("call void %f0"), ir.index("fcmp ole")
    assert first < second  # the condition is computed where it is read
    assert "fast" not in ir
    assert switch.switch_of("cdf", lowered([language.normal_cdf(x)], ["x"], double=True)) is None
