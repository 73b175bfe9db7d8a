"""elementwise.cu with the functors of the ops' formulas, against hand-written references and the ops, emulated."""

import math

import emulated
import formula_functors as functors
import kernel_references as references
import numpy as np
import pytest
from emulated import ORDERS, Placed, assert_close, quarters, unset
from formula_functors import CASES, WRITTEN, from_result

import autograd_gpu as ag
from autograd_gpu.backend import kernels
from autograd_gpu.backend.kernels.functors import members
from autograd_gpu.core.declare.op import RAW, REGISTRY

functors.declare()
pytestmark = [pytest.mark.cpu, pytest.mark.filterwarnings("ignore::RuntimeWarning")]
CLOSE = {"float64": 1e-13, "float32": 4e-6, "float16": 1e-3, "bfloat16": 8e-3}
EXTREMES = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, 3.0, -3.0, 0.75, -0.75, 19.0, 21.0, 90.0, -90.0, 6e4, -6e4]
SHRINK = {"lambd": 0.75}
ALL = CASES + WRITTEN
OF_ALL_TYPES = [case for case in ALL if case[0] in functors.ALL_TYPES]


@pytest.fixture(params=ALL, ids=lambda case: "-".join([case[0], *map(str, case[1].values())]))
def case(request):
    return request.param


def run(f, *arrays, offset=0, in_place=False, **how):
    """What backend/kernels/elementwise.py launches."""
    x, functor = arrays[0], f.functor
    width = emulated.width_of(x, offset)
    placed = [Placed(array, offset) for array in arrays]
    outs = [unset(x.shape, x.dtype, offset) for _ in range(functor.outputs)]
    if in_place:
        outs[0] = placed[0]
    instance = kernels.declare_elementwise(f, x.dtype, width)
    read, written = [*placed, None, None][:3], [*outs, None][:2]
    shape = kernels.tiles(1, x.size, width, x.itemsize)
    emulated.launch(instance, shape, *read, *written, members(f, x.dtype), 1, x.size, **how)
    return [out.result() for out in outs]


def near(dtype, case=("", {})):
    close = CLOSE[str(dtype)]
    return {"rtol": close, "atol": close * case[1].get("frequency", 1) ** 2}


def saved_by(case, x):
    """What a gradient is computed from."""
    return references.elementwise(case[0], x, **case[1]) if from_result(case[0]) else x


def positive(case, x):
    return abs(x) + x.dtype.type(0.25) if case[0] == "rsqrt" else x


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("size", [0, 1, 7, 64, 5001])
def test_sizes_and_orders(dtype, size, offset, order):
    """Of one formula and its gradient: the loop is the same for all."""
    x, g = quarters((size,), dtype), quarters((size,), dtype)
    (out,) = run(functors.value_of("mish"), x, offset=offset, order=order)
    assert_close(out, references.elementwise("mish", x), **near(dtype))
    (dx,) = run(functors.gradient_of("mish"), g, x, offset=offset, order=order)
    assert_close(dx, references.elementwise_gradient("mish", g, x), **near(dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_formula(case, dtype):
    x, g = positive(case, (3 * np.random.randn(1000)).astype(dtype)), np.random.randn(1000).astype(dtype)
    name, attributes = case
    (out,) = run(functors.value_of(name, **attributes), x)
    assert_close(out, references.elementwise(name, x, **attributes), **near(dtype, case))
    gradient = functors.gradient_of(name, **attributes)
    if gradient is not None:
        saved = saved_by(case, x)
        expected = references.elementwise_gradient(name, g, saved, **attributes)
        assert_close(run(gradient, g, saved)[0], expected, **near(dtype, case))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_both_gradients_of_a_gradient(case, dtype):
    """The first one is the gradient for another h; the second one is that by central differences."""
    name, attributes = case
    gradients = functors.gradients_of(name, **attributes)
    if gradients is not None:
        x = np.linspace(-2.7, 2.9, 1000)
        s, g, h = saved_by(case, x), np.random.randn(1000), np.random.randn(1000)
        step = 1e-6
        slopes = [references.elementwise_gradient(name, g * h, s + d, **attributes) for d in (step, -step)]
        expected = references.elementwise_gradient(name, g, s, **attributes), (slopes[0] - slopes[1]) / (2 * step)
        kink = np.abs(x) < 0.01 if name == "softsign" else abs(x * attributes.get("beta", 1) - 3) < 0.01
        for result, numbers, close in zip(run(gradients, *[a.astype(dtype) for a in (g, h, s)]), expected, (1, 400),
                                          strict=True):  # fmt: skip
            scale = close * attributes.get("frequency", 1) ** 3
            np.testing.assert_allclose(result[~kink], numbers[~kink], rtol=1e-5 * close, atol=1e-6 * scale)


@pytest.mark.parametrize("k", range(len(functors.of_several())))
def test_formulas_of_several_elements(k):
    """What the ops compute on the CPU, and with the rules, whose derivatives are tested."""
    f, family, wanted, numbers = functors.of_several()[k]
    arrays = {name: abs(np.random.randn(1001)) + 0.25 for name in (*family.inputs, "g")}
    attributes = {name: numbers[name] for name in numbers if name not in family.fixed}
    elements = {name: numbers.get(name, arrays.get(name)) for name in family.formula.inputs}
    if any(wanted):
        op = REGISTRY[family.name]
        known = {**elements, **attributes}
        expected = [op.rules[w](RAW, arrays["g"], *[known[n] for n, _, _ in op.asked(op.rules[w])]) for w in wanted]
    else:
        expected = [getattr(RAW, family.name)(*elements.values(), **attributes)]
    results = run(f, *[arrays[name] for name in family.read(wanted)])
    for result, value in zip(results, expected, strict=True):
        assert_close(result, value, **near("float64"))


@pytest.mark.parametrize("of", OF_ALL_TYPES, ids=lambda case: case[0])
def test_half_types_are_rounded_once(of, dtype):
    (name, attributes), x, g = of, quarters((1001,), dtype), quarters((1001,), dtype)
    (out,) = run(functors.value_of(name, **attributes), x)
    assert_close(out, references.elementwise(name, x, **attributes), **near(dtype))
    (dx,) = run(functors.gradient_of(name, **attributes), g, x)
    assert_close(dx, references.elementwise_gradient(name, g, x, **attributes), **near(dtype))


def test_in_place(dtype):
    x, g, h = (quarters((64,), dtype) for _ in range(3))
    for f, *arrays in ((functors.value_of("mish"), x), (functors.gradient_of("mish"), g, x),
                       (functors.gradients_of("mish"), g, h, x)):  # fmt: skip
        for written, apart in zip(run(f, *arrays, in_place=True), run(f, *arrays), strict=True):
            assert_close(written, apart, 0.0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_extremes_are_those_of_the_ops(case, dtype):
    """Where formulas overflow or meet a kink, the kernels do what the ops do on the CPU, and their rules."""
    (name, attributes), x = case, np.array(EXTREMES, dtype)
    function, tensor = getattr(ag.ops, name, None), ag.tensor(x, requires_grad=True)
    if function is None:
        assert name == "sine"  # an activation of linear_activation; sin by itself is CuPy's
        return
    out = function(tensor, **attributes)
    assert_close(run(functors.value_of(name, **attributes), x)[0], out.detach().numpy(), **near(dtype))
    gradient = functors.gradient_of(name, **attributes)
    if gradient is not None:
        (dx,) = ag.autograd.grad(out, tensor, ag.full_like(out, -2.0))
        saved = out.detach().numpy() if from_result(name) else x
        assert_close(run(gradient, np.full_like(x, -2.0), saved)[0], dx.numpy(), **near(dtype))


def test_no_race_and_no_undefined_behaviour(dtype):
    for offset in (0, 1):
        x = quarters((517,), dtype)
        run(functors.value_of("mish"), x, offset=offset, check="races")
        run(functors.gradients_of("mish"), x, x, x, offset=offset, check="races")


def test_no_undefined_behaviour_of_any_formula(case):
    name, attributes = case
    run(functors.value_of(name, **attributes), positive(case, quarters((516,), np.dtype("float32"))), check="races")


@pytest.mark.parametrize("limit", [0.0, math.inf])
def test_limits_of_any_size(limit):
    x = np.array([-1.0, 0.0, 2.0, 4.0], np.float32)
    (out,) = run(functors.value_of("hardshrink", lambd=limit), x)
    assert out.tolist() == ([0.0] * 4 if limit else x.tolist())


def test_what_no_kernel_computes_is_refused():
    f = functors.gradients_of("mish")
    with pytest.raises(ValueError, match="mish_derivative_1_gradients takes 3 arrays, not 1"):
        kernels.elementwise(f, np.ones(3, np.float32))
