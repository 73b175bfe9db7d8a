"""The kernels of second_order.cu against their NumPy references, on emulated threads."""

import re

import emulated
import kernel_references as references
import numpy as np
import pytest
from activation_cases import CASES, IDS, applied, from_result, has_second_derivative
from activation_cases import numbers as members
from checkout import ROOT
from emulated import Placed, assert_close, unset, width_of

from autograd_gpu.backend import kernels
from autograd_gpu.backend.kernels import constants, second_order

pytestmark = pytest.mark.cpu
FULL, DIAGONAL, LAPLACIAN = constants.FULL_HESSIAN, constants.DIAGONAL, constants.LAPLACIAN
FORMS = {"full": FULL, "diagonal": DIAGONAL, "Laplacian": LAPLACIAN}
CLOSE = {"float64": 1e-13, "float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}
SINE = ("sine", {"frequency": 3.0})  # of 30 float16 does not hold the third derivatives
SMOOTH = [(c, name) for c, name in zip(CASES, IDS, strict=True) if has_second_derivative(c) and c[0] != "sine"]
SHAPES = [(1, 1), (2, 3), (5, 16), (37, 24), (0, 8), (4, 0)]


@pytest.fixture(params=[case for case, _ in SMOOTH] + [SINE], ids=[name for _, name in SMOOTH] + ["sine-3.0"])
def case(request):
    return request.param


@pytest.fixture(params=FORMS.values(), ids=FORMS)
def form(request):
    return request.param


def normal(shape, dtype):
    return np.random.randn(*shape).astype(dtype)


def streams(rows, cols, d, form, dtype, seconds=True, shared=False):
    """A stream behind which there is another one, and the gradient of that."""
    made = d + len(kernels.stream_groups(d, form))
    lead = () if shared else (rows,)
    return normal((*lead, made if seconds else d, cols), dtype), normal((rows, made, cols), dtype)


def near(actual, expected, dtype, scale=1.0):
    close = CLOSE[str(dtype)]
    for array, reference in zip(actual, expected, strict=True):
        if array is not None:
            assert_close(array, reference, rtol=close, atol=4 * scale * close)


# ---- as backend/kernels/second_order.py launches them ----------------------------------------------------


def numbers(values, stream, d, form):
    return d, form, stream.shape[-2] > d, stream.ndim == 2, *values.shape


def chained(f1, f2, stream, d, form, offset=0, held=None, **how):
    width, held = width_of(f1, offset), second_order._held(d) if held is None else held
    out = unset((len(f1), d + len(kernels.stream_groups(d, form)), f1.shape[1]), f1.dtype, offset)
    shape = kernels.tiles(*f1.shape, width, f1.itemsize)
    arrays = [*(Placed(array, offset) for array in (f1, f2, stream)), out]
    name = f"chain_stream<{kernels.C_NAMES[f1.dtype]}, {held}, {width}>"
    emulated.launch(name, shape, *arrays, *numbers(f1, stream, d, form), **how)
    return out.result()


def chained_back(g, f1, f2, stream, d, form, offset=0, held=None, need=(True, True, True), **how):
    width, held = width_of(f1, offset), second_order._held(d) if held is None else held
    own = (len(f1), *stream.shape[-2:])
    shapes = f1.shape, f1.shape, own
    outs = [unset(shape, f1.dtype, offset) if n else None for shape, n in zip(shapes, need, strict=True)]
    arrays = [*(Placed(array, offset) for array in (g, f1, f2, stream)), *outs]
    name = f"chain_stream_backward<{kernels.C_NAMES[f1.dtype]}, {held}, {width}>"
    emulated.launch(name, kernels.tiles(*f1.shape, width, f1.itemsize), *arrays, *numbers(f1, stream, d, form), **how)
    return [None if out is None else out.result() for out in outs]


def pushed(case, saved, bias, stream, d, form, offset=0, **how):
    width, functor = width_of(saved, offset), applied(case).functor.name
    out = unset((len(saved), d + len(kernels.stream_groups(d, form)), saved.shape[1]), saved.dtype, offset)
    shape = kernels.tiles(*saved.shape, width, saved.itemsize)
    bias = None if bias is None else Placed(bias, offset)
    name = f"activation_jet<{functor}, {kernels.C_NAMES[saved.dtype]}, {width}>"
    arrays = Placed(saved, offset), bias, Placed(stream, offset), out
    emulated.launch(name, shape, *arrays, members(case, saved.dtype), *numbers(saved, stream, d, form), **how)
    return out.result()


def pushed_back(case, g, saved, bias, stream, d, form, offset=0, need=(True, True, True), parts=None, **how):
    width, functor = min(width_of(saved, offset), 4), applied(case).functor.name
    (rows, cols), dtype = saved.shape, saved.dtype
    (across, default), block = kernels.sum_tiles(rows, cols, width, saved.itemsize)
    parts = parts or default
    shapes = saved.shape, (cols,), (rows, *stream.shape[-2:])
    ds, dbias, dstream = [unset(array, dtype, offset) if n else None for array, n in zip(shapes, need, strict=True)]
    partials = unset((parts, cols), kernels.wide(dtype)) if parts > 1 and need[1] else None
    bias = None if bias is None else Placed(bias, offset)
    name = f"activation_jet_backward<{functor}, {kernels.C_NAMES[dtype]}, {width}>"
    arrays = Placed(g, offset), Placed(saved, offset), bias, Placed(stream, offset), ds, dbias, partials, dstream
    arguments = *arrays, members(case, dtype), *numbers(saved, stream, d, form)
    emulated.launch(name, ((across, parts), block), *arguments, **how)
    if partials is not None:
        dbias = Placed(partials.result().sum(0).astype(dtype))
    return [None if out is None else out.result() for out in (ds, dbias, dstream)]


def local(a, f2, t, offset=0, **how):
    (rows, o, cols), d, width = a.shape, t.shape[-2], width_of(f2, offset)
    out = unset((rows, o, d, d), a.dtype)
    shape = kernels.row_tiles(rows, cols, width, a.itemsize, 1)
    arrays = [Placed(array, offset) for array in (a, f2, t)]
    name = f"local_terms<{kernels.C_NAMES[a.dtype]}, {width}>"
    emulated.launch(name, shape, *arrays, out, o, d, t.ndim == 2, rows, cols, **how)
    return out.result()


# ---- behind any function ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("d", "seconds", "shared", "offset", "order"), [
    (1, True, False, 0, "forward"), (2, True, False, 0, 1), (2, False, False, 1, "reverse"), (2, True, True, 0, 1),
    (4, True, False, 0, "forward"), (5, True, False, 0, "reverse"), (6, False, True, 1, 1),
])  # fmt: skip
def test_chain_stream(dtype, form, d, seconds, shared, offset, order):
    for rows, cols in SHAPES:
        f1, f2 = normal((rows, cols), dtype), normal((rows, cols), dtype)
        stream, g = streams(rows, cols, d, form, dtype, seconds, shared)
        result = chained(f1, f2, stream, d, form, offset, order=order)
        near([result], [references.chain_stream(f1, f2, stream, d, form)], dtype, d)
        expected = references.chain_stream_backward(g, f1, f2, stream, d, form)
        near(chained_back(g, f1, f2, stream, d, form, offset, order=order), expected, dtype, 4 * d)


def test_rereading_gives_the_same(dtype, form):
    f1, f2 = normal((5, 16), dtype), normal((5, 16), dtype)
    stream, g = streams(5, 16, 3, form, dtype)
    near([chained(f1, f2, stream, 3, form, held=0)], [chained(f1, f2, stream, 3, form, held=4)], dtype)
    near(chained_back(g, f1, f2, stream, 3, form, held=0), chained_back(g, f1, f2, stream, 3, form), dtype, 4)


@pytest.mark.parametrize("alone", range(3))
def test_each_gradient_alone(dtype, form, alone):
    f1, f2 = normal((5, 16), dtype), normal((5, 16), dtype)
    stream, g = streams(5, 16, 2, form, dtype)
    need = tuple(i == alone for i in range(3))
    results, every = (chained_back(g, f1, f2, stream, 2, form, need=n) for n in (need, (True, True, True)))
    assert [array is not None for array in results] == list(need)
    np.testing.assert_array_equal(results[alone], every[alone])


# ---- behind an activation --------------------------------------------------------------------------------


def arrays_of(case, shape, dtype):
    """What the activation saves, and its bias."""
    if from_result(case):
        return np.random.uniform(0.1, 0.9, shape).astype(dtype), None
    return normal(shape, dtype) / dtype.type(case[1].get("frequency", 1)), normal(shape[1:], dtype) / dtype.type(8)


def scale(case):
    return case[1].get("frequency", 1) ** 3 * 4


@pytest.mark.parametrize(("shape", "d", "seconds", "shared", "order"), [
    ((37, 24), 2, True, False, "forward"), ((5, 7), 3, True, False, "reverse"), ((6, 16), 2, False, True, 1),
])  # fmt: skip
def test_pushed_curve(case, dtype, form, shape, d, seconds, shared, order):
    saved, bias = arrays_of(case, shape, dtype)
    stream, g = streams(*shape, d, form, dtype, seconds, shared)
    result = pushed(case, saved, bias, stream, d, form, order=order)
    expected = references.activation_jet(case[0], saved, bias, stream, d, form, **case[1])
    near([result], [expected], dtype, scale(case))
    expected = references.activation_jet_backward(case[0], g, saved, bias, stream, d, form, **case[1])
    result = pushed_back(case, g, saved, bias, stream, d, form, order=order)
    near((result[0], None, result[2]), expected, dtype, scale(case))
    near(result[1:2], expected[1:2], dtype, scale(case) * 10)


@pytest.mark.parametrize("parts", [2, 3])
def test_sums_in_parts_and_without_bias(dtype, parts):
    case = ("silu", {})
    saved, _ = arrays_of(case, (70, 24), dtype)
    stream, g = streams(70, 24, 2, FULL, dtype)
    expected = references.activation_jet_backward("silu", g, saved, None, stream, 2, FULL)
    near(pushed_back(case, g, saved, None, stream, 2, FULL, parts=parts)[1:2], expected[1:2], dtype, 40)


@pytest.mark.parametrize("alone", range(3))
def test_each_gradient_of_a_curve_alone(dtype, alone):
    case, need = ("gelu", {}), tuple(i == alone for i in range(3))
    saved, bias = arrays_of(case, (6, 16), dtype)
    stream, g = streams(6, 16, 2, FULL, dtype)
    every = pushed_back(case, g, saved, bias, stream, 2, FULL)
    result = pushed_back(case, g, saved, bias, stream, 2, FULL, need=need)
    assert [array is not None for array in result] == list(need)
    np.testing.assert_array_equal(result[alone], every[alone])


def test_references_are_the_third_derivatives(case):
    """third is the derivative of the second derivative by what is saved."""
    act, a, b = references.choose(case[0], **case[1])
    s, step = np.linspace(0.1, 0.9, 9) if from_result(case) else np.linspace(-1.55, 1.35, 9), 1e-5
    slope = (act.second_derivative(s + step, a, b) - act.second_derivative(s - step, a, b)) / (2 * step)
    np.testing.assert_allclose(act.third(s, a, b), slope, rtol=1e-6, atol=1e-6 * scale(case))


# ---- local terms -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("o", "d", "shared", "offset", "order"), [
    (1, 2, False, 0, "forward"), (3, 2, True, 0, "reverse"), (5, 3, False, 1, 1), (2, 7, False, 0, "forward"),
    (1, 1, True, 1, "reverse"),
])  # fmt: skip
def test_local_terms(dtype, o, d, shared, offset, order):
    for rows, cols in [*SHAPES, (3, 520)]:
        a, f2 = normal((rows, o, cols), dtype), normal((rows, cols), dtype)
        t = normal((d, cols) if shared else (rows, d, cols), dtype)
        result = local(a, f2, t, offset, order=order)
        near([result], [references.local_terms(a, f2, t)], dtype, 20)
        np.testing.assert_array_equal(result, result.swapaxes(-1, -2))


# ---- memory ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0, 1])
def test_no_race_and_no_undefined_behaviour(dtype, form, offset):
    f1, f2 = normal((70, 24), dtype) / dtype.type(8), normal((70, 24), dtype) / dtype.type(8)
    for d in (2, 5):
        stream, g = streams(70, 24, d, form, dtype)
        chained(f1, f2, stream, d, form, offset, check="races")
        chained_back(g, f1, f2, stream, d, form, offset, check="races")
    stream, g = streams(70, 24, 3, form, dtype)
    pushed(("silu", {}), f1, f2[0], stream, 3, form, offset, check="races")
    pushed_back(("silu", {}), g, f1, f2[0], stream, 3, form, offset, parts=2, check="races")
    local(g[:, :2], f1, stream, offset, check="races")


TEXT = (ROOT / "docs" / "kernels.md").read_text().partition("## Second-order streams")[2].partition("\n## ")[0]
DOCUMENTED = dict(re.findall(r"^\| `(\w+)` \|.*\| ([^|]*) \|$", TEXT, re.MULTILINE))


COUNTED = {"chain_stream": "float, 4", "chain_stream_backward": "float, 4", "activation_jet": "Tanh, float",
           "activation_jet_backward": "Tanh, float", "local_terms": "float"}  # fmt: skip


@pytest.mark.parametrize("kernel", COUNTED)
def test_bytes_are_as_documented(kernel, monkeypatch):
    """Of float32: the difference of two launches of one grid leaves out what a thread reads once."""
    along, d, o = kernel == "local_terms", 2, 3
    grid = ((128, 1), (64, 4)) if along else ((2, 1), (8, 32))
    for tiles in ("tiles", "sum_tiles", "row_tiles"):
        monkeypatch.setattr(kernels, tiles, lambda *_: grid)

    def moved(times):
        rows, cols = (512, 256 * times) if along else (64 * times, 64)
        f1 = np.ones((rows, cols), np.float32)
        stream, g = streams(rows, cols, d, FULL, f1.dtype)
        if kernel == "chain_stream":
            chained(f1, f1, stream, d, FULL, check="races")
        elif kernel == "chain_stream_backward":
            chained_back(g, f1, f1, stream, d, FULL, check="races")
        elif kernel == "activation_jet":
            pushed(("tanh", {}), f1, None, stream, d, FULL, check="races")
        elif kernel == "activation_jet_backward":
            pushed_back(("tanh", {}), g, f1, None, stream, d, FULL, need=(True, False, True), check="races")
        else:
            local(g[:, :o].copy(), f1, stream[:, :d].copy(), check="races")
        result = emulated.compiled("second_order.cu", "races").kernels[f"{kernel}<{COUNTED[kernel]}, 4>"]
        return sum(result.traffic()) / (512 * 256 if along else 64 * 64)

    formula = re.sub(r"(\d) ([S(])", r"\1 * \2", DOCUMENTED[kernel])
    assert moved(3) - moved(1) == 2 * eval(formula, {"S": 5, "o": o, "d": d})
