"""pointwise and pointwise_backward against their NumPy references and the ops, on emulated threads."""

import math

import emulated
import kernel_references as references
import numpy as np
import pytest
from activation_cases import POINTWISE as CASES
from emulated import ORDERS, Placed, assert_close, quarters, unset

import autograd_gpu as ag
from autograd_gpu.backend import kernels
from autograd_gpu.backend.kernels.pointwise import FUNCTORS, WITHOUT_PULL, choose

pytestmark = [pytest.mark.cpu, pytest.mark.filterwarnings("ignore::RuntimeWarning")]
CLOSE = {"float64": 1e-13, "float32": 4e-6, "float16": 1e-3, "bfloat16": 8e-3}
EXTREMES = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, 3.0, -3.0, 0.75, -0.75, 19.0, 21.0, 90.0, -90.0, 6e4, -6e4]


@pytest.fixture(params=CASES, ids=[name for name, _ in CASES])
def case(request):
    return request.param


def has_pull(case):
    return choose(case[0], **case[1])[0] not in WITHOUT_PULL


def run(kernel, case, *arrays, offset=0, in_place=False, **how):
    """What backend/kernels/pointwise.py launches."""
    name, attributes = case
    functor, numbers = choose(name, **attributes)
    x, width = arrays[0], emulated.width_of(arrays[0], offset)
    placed = [Placed(array, offset) for array in arrays]
    out = placed[0] if in_place else unset(x.shape, x.dtype, offset)
    instance = f"{kernel}<{functor}, {kernels.C_NAMES[x.dtype]}, {width}>"
    shape = kernels.tiles(1, x.size, width, x.itemsize)
    emulated.launch(instance, shape, *placed, out, *numbers, 1, x.size, **how)
    return out.result()


def near(dtype):
    return {"rtol": CLOSE[str(dtype)], "atol": CLOSE[str(dtype)]}


def positive(case, x):
    return abs(x) + x.dtype.type(0.25) if case[0] == "rsqrt" else x


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("size", [0, 1, 7, 64, 5001])
def test_sizes_and_orders(dtype, size, offset, order):
    """Of one function: the loop is the same for all."""
    x, g, shrink = quarters((size,), dtype), quarters((size,), dtype), ("hardshrink", {"lambd": 0.75})
    out = run("pointwise", shrink, x, offset=offset, order=order)
    assert_close(out, references.pointwise("hardshrink", x, lambd=0.75), 0.0)
    dx = run("pointwise_backward", shrink, g, x, offset=offset, order=order)
    assert_close(dx, references.pointwise_backward("hardshrink", g, x, lambd=0.75), 0.0)


def test_every_function(case, dtype):
    x, g = positive(case, (3 * np.random.randn(1001)).astype(dtype)), np.random.randn(1001).astype(dtype)
    name, attributes = case
    assert_close(run("pointwise", case, x), references.pointwise(name, x, **attributes), **near(dtype))
    if has_pull(case):
        expected = references.pointwise_backward(name, g, x, **attributes)
        assert_close(run("pointwise_backward", case, g, x), expected, **near(dtype))


def test_in_place(case, dtype):
    x, g = positive(case, quarters((64,), dtype)), quarters((64,), dtype)
    assert_close(run("pointwise", case, x, in_place=True), run("pointwise", case, x), 0.0)
    if has_pull(case):
        written = run("pointwise_backward", case, g, x, in_place=True)
        assert_close(written, run("pointwise_backward", case, g, x), 0.0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_extremes_are_those_of_the_ops(case, dtype):
    """Where formulas overflow or meet a kink, the kernels do what the ops do on the CPU, and their rules."""
    (name, attributes), x = case, np.array(EXTREMES, dtype)
    function = getattr(ag.ops, name)
    tensor = ag.tensor(x, requires_grad=True)
    out = function(tensor, **attributes)
    assert_close(run("pointwise", case, x), out.detach().numpy(), **near(dtype))
    if has_pull(case):
        (dx,) = ag.autograd.grad(out, tensor, ag.full_like(out, -2.0))
        assert_close(run("pointwise_backward", case, np.full_like(x, -2.0), x), dx.numpy(), **near(dtype))


@pytest.mark.parametrize("check", ["races", "undefined"])
def test_no_race_and_no_undefined_behaviour(case, dtype, check):
    for offset in (0, 1):
        x = positive(case, quarters((517,), dtype))
        run("pointwise", case, x, offset=offset, check=check)
        if has_pull(case):
            run("pointwise_backward", case, x, x, offset=offset, check=check)


def test_every_functor_has_a_function():
    assert {choose(*case[:1], **case[1])[0] for case in CASES} == set(FUNCTORS)


def test_unknown_function():
    with pytest.raises(ValueError, match="no kernel for the function 'cosine'; there is one for selu"):
        choose("cosine")


@pytest.mark.parametrize("limit", [0.0, math.inf])
def test_limits_of_any_size(limit):
    x = np.array([-1.0, 0.0, 2.0], np.float32)
    case = ("hardshrink", {"lambd": limit})
    assert run("pointwise", case, x).tolist() == ([0.0] * 3 if limit else [-1.0, 0.0, 2.0])
