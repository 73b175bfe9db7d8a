"""NumPy code of programs: the text of its two forms, and their equal bits."""

import linecache
import re
import traceback
import warnings

import ml_dtypes
import numpy as np
import pytest
from formula_bits import same_bits, values
from hypothesis import given, settings
from scalar_formulas import EXPRESSIONS, FORMULAS

from autograd_gpu.backend.cpu import rows
from autograd_gpu.backend.cpu.rows import SHARED_BLOCK
from autograd_gpu.backend.formulas.expression import element, maximum, minimum, number, select, softplus
from autograd_gpu.backend.formulas.lowering import lowered
from autograd_gpu.backend.formulas.native import switch
from autograd_gpu.backend.formulas.numpy_code import BLOCK, FEW, WIDE, NumpyCode
from autograd_gpu.backend.formulas.numpy_source import source

pytestmark = pytest.mark.cpu
x, y, k = element("x"), element("y"), number("k")


@pytest.fixture(autouse=True, scope="module")
def numpy_code_alone():
    with switch.numpy_code_alone():
        yield


def code_of(outputs, inputs, dtype=np.float32):
    return NumpyCode("test", lowered(outputs, inputs, double=dtype == np.float64), dtype)


def both_forms(code, arrays, numbers):
    """By blocks, and by pieces of few elements, which have to give the same bits."""
    whole = code(arrays, numbers)
    pieces = [code([a[i : i + 700] for a in arrays], numbers) for i in range(0, arrays[0].size, 700)]
    for k, result in enumerate(whole):
        same_bits(result, np.concatenate([p[k] for p in pieces]))
    return whole


CASES = [(name, order) for name, f in FORMULAS.items() for order in range(4 if len(f.inputs) == 1 else 2)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize(("name", "order"), CASES)
def test_blocks_and_few_elements_have_equal_bits(name, order, dtype):
    formula = FORMULAS[name]
    alpha = (order,) + (0,) * (len(formula.inputs) - 1)
    code = code_of([formula.derived(alpha)], formula.inputs, np.float64 if dtype == np.float64 else np.float32)
    arrays = [values(BLOCK + FEW + 77, dtype, seed) for seed, _ in enumerate(formula.inputs)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        both_forms(code, arrays, code.numbers(**formula.numbers))


@given(EXPRESSIONS, EXPRESSIONS)
@settings(max_examples=30, deadline=None)
def test_random_programs_with_two_outputs_have_equal_bits(a, b):
    code = code_of([a + x * 0 + y * 0, b * x * y], ["x", "y"])
    both_forms(code, [values(FEW + 100), values(FEW + 100, seed=1)], code.numbers(k=1.25))


def test_outputs_that_are_each_other_and_inputs():
    code = code_of([y, x * y, x * y, x, (x * y) * (x + y)], ["x", "y"])
    both_forms(code, [values(FEW + 100), values(FEW + 100, seed=1)], code.numbers())


def test_results_that_have_to_change_places_keep_off_outputs_that_are_inputs():
    a = softplus(x)
    code = code_of([a + x * 0 + y * 0, y, -x * x * y, x, (a * x) * (-x * y)], ["x", "y"])
    both_forms(code, [values(FEW + 100), values(FEW + 100, seed=1)], code.numbers())


def test_half_types_are_converted_by_larger_blocks():
    code = code_of([FORMULAS["silu"].derived((1,))], ["x"])
    both_forms(code, [values(WIDE + BLOCK + 100, np.float16)], code.numbers())


def test_threads_have_registers_of_their_own():
    code, elements = code_of([FORMULAS["silu"].derived((2,))], ["x"]), values(1 << 20)
    before = rows._Cores.count
    try:
        results = []
        for cores in (1, 2):
            rows.set_cores(cores)
            results.append(code([elements], code.numbers())[0])
    finally:
        rows.set_cores(before)
    same_bits(*results)


@pytest.mark.parametrize("count", [5, 200])
def test_layout_broadcasting_and_shapes(count):
    code = code_of([x * y], ["x", "y"])
    base = np.random.default_rng(0).standard_normal((count, count), np.float32)
    for a, b in [(base.T, base), (base[:, ::-1], base), (base, base[0]), (base[:1], base), (base[0], base[:, :1])]:
        (result,) = code([a, b], code.numbers())
        np.testing.assert_array_equal(result, a * b)
    assert code([base.T, base.T], code.numbers())[0].strides == base.T.strides
    for shape in ((), (0, 3)):
        empty = np.ones(shape, np.float32)
        assert code([empty, empty], code.numbers())[0].shape == shape


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_an_expanded_number_is_read_as_a_number(dtype):
    code = code_of([x * y + select(y > 0, x, 0)], ["x", "y"])
    elements, two = values(FEW + 9, dtype), np.array(2, dtype)
    expected = code([np.full(elements.shape, two), elements], code.numbers())[0]
    for expanded in (two, np.broadcast_to(two, elements.shape), two.reshape(1)):
        same_bits(code([expanded, elements], code.numbers())[0], expected)


def test_an_output_that_is_an_input_is_a_copy():
    for count in (3, FEW + 1):
        elements = values(count)
        code = code_of([x, select(x <= 0, 0, x)], ["x"])
        result, _ = code([elements], code.numbers())
        same_bits(result, elements)
        assert not np.shares_memory(result, elements)


def test_a_zero_keeps_its_sign():
    for zero in (0.0, -0.0):
        code = code_of([maximum(x, zero) * 2], ["x"])
        (result,) = code([np.full(FEW + 1, -1, np.float32)], code.numbers())
        assert np.signbit(result).all() == np.signbit(zero)


def test_numbers_are_rounded_once_from_double():
    code = code_of([x * (1 - k)], ["x"])
    third = np.float32(1 - 1e-9)
    assert code([np.ones(3, np.float32)], code.numbers(k=1e-9))[0][0] == third
    assert code.numbers(k=1e-9) is code.numbers(k=1e-9)


def test_the_source_and_its_traceback():
    program = lowered([select(x <= 0, x * x, x)], ["x"])
    assert source(program) == (
        "def block(i0, c0, o0, f0, b0):\n"
        "    le(i0, c0, out=b0)\n"
        "    mul(i0, i0, out=o0)\n"
        "    o0_bits = o0.view(BITS)\n"
        "    i0_bits = i0.view(BITS)\n"
        "    f0_bits = f0.view(BITS)\n"
        "    copyto(f0_bits, b0)\n"
        "    bitwise_xor(o0_bits, i0_bits, out=o0_bits)\n"
        "    multiply(f0_bits, o0_bits, out=o0_bits)\n"
        "    bitwise_xor(o0_bits, i0_bits, out=o0_bits)\n"
        "\n"
        "def few(i0, c0):\n"
        "    t0 = le(i0, c0)\n"
        "    t1 = mul(i0, i0)\n"
        "    t2 = where(t0, t1, i0)\n"
        "    return t2,\n"
    )
    code = NumpyCode("traced", program, np.float32)
    linecache.checkcache()
    with pytest.raises(TypeError) as failure:
        code.few(None, *code.numbers())
    assert "t0 = le(i0, c0)" in "".join(traceback.format_exception(failure.value))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("count", [5, FEW + 9, SHARED_BLOCK + 9])
def test_results_are_written_where_asked(count, dtype):
    code = code_of([x * y, select(y > 0, x, y)], ["x", "y"])
    arrays, out = [values(count, dtype), values(count, dtype, 1)], [np.empty(count, dtype) for _ in range(2)]
    for a, b in (arrays, (arrays[0][::-1], arrays[1]), (arrays[0][:1].reshape(()), arrays[1])):
        results = code([a, b], code.numbers(), out)
        for written, result, expected in zip(out, results, code([a, b], code.numbers()), strict=True):
            assert written is result
            same_bits(written, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_select_between_a_value_and_its_multiple(dtype):
    for sides in ((y, y * k), (k * y, y), (y * 0.25, y), (y * x, y * x * k)):
        code = code_of([select(x > 0, *sides)], ["x", "y"], dtype)
        assert re.search(r"bitwise_xor\((n0|c1)_bits, ONE\)", source(code.program))
        both_forms(code, [values(FEW + 100, dtype), values(FEW + 100, dtype, seed=1)], code.numbers(k=-1.5))
    shared = code_of([select(x > 0, y, y * k) + y * k], ["x", "y"], dtype)
    both_forms(shared, [values(FEW + 100, dtype), values(FEW + 100, dtype, seed=1)], shared.numbers(k=-1.5))


def test_two_limits_are_one_pass():
    limited = maximum(x * 2, -1.5)
    code = code_of([minimum(limited, 0.75) * 2 + y * 0], ["x", "y"])
    assert "clip(o0, c1, c2, out=o0)" in source(code.program)
    extremes = np.resize(np.float32([np.nan, np.inf, -np.inf, 0.0, -0.0, 0.375, -0.75, 1e-42]), FEW + 100)
    both_forms(code, [extremes, values(FEW + 100)], code.numbers())
    for other in (minimum(maximum(x, 0), 6), minimum(limited, 0.75) + limited, minimum(maximum(x, k), 0.75)):
        assert "clip" not in source(lowered([other], ["x"]))
