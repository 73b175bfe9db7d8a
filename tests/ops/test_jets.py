"""Streams behind functions of single elements: Taylor coefficients, blocks of rows, shared streams, launches."""

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import backend, profiler
from autograd_gpu.autograd import grad, gradcheck, gradgradcheck
from autograd_gpu.backend import kernels
from autograd_gpu.core.declare.op import RAW
from autograd_gpu.ops import jets
from autograd_gpu.ops.jets import activation_jet, chain_stream, local_terms
from autograd_gpu.ops.nn.linear_activation import ACTIVATIONS, by_result

CASES = [
    ("relu", ()), ("tanh", ()), ("sigmoid", ()), ("silu", ()), ("leaky_relu", (0.2,)), ("elu", (0.5,)),
    ("celu", (2.0,)), ("gelu", ("none",)), ("gelu", ("tanh",)), ("softplus", (2.0, 20.0)), ("sine", (3.0,)),
]  # fmt: skip
all_activations = pytest.mark.parametrize(("activation", "parameters"), CASES, ids=lambda case: str(case))
FORMS = {
    "full": lambda d: tuple(((i, j),) for i in range(d) for j in range(i, d)),
    "diagonal": lambda d: tuple(((i, i),) for i in range(d)),
    "Laplacian": lambda d: (tuple((i, i) for i in range(d)),),
    "mixed": lambda d: (((0, d - 1), (0, 0)), ((d - 1, 0),)),
}
all_forms = pytest.mark.parametrize("form", FORMS)
SMOOTH = [case for case in CASES if ACTIVATIONS[case[0]].bends]


def plain(tensor):
    return backend.to_numpy(tensor.detach().array).astype(np.float64)


def tensor(*shape, dtype="float64", requires_grad=True):
    return ag.tensor(np.random.randn(*shape), dtype=getattr(ag, dtype), requires_grad=requires_grad)


def saved_by(activation, parameters, z):
    return ACTIVATIONS[activation].of(RAW)(z, *parameters) if by_result(activation) else z


def derivatives_at(s, activation, parameters):
    """act' and act'' computed from what is saved, and the derivative of act'' by it."""
    f1, f2, slope = jets.derivatives(RAW, s, activation, parameters)
    return f1, f2, jets.third(RAW, s, f1, slope, activation, parameters)


# ---- the derivatives of activations --------------------------------------------------------------------


@pytest.mark.parametrize(("activation", "parameters"), SMOOTH, ids=lambda case: str(case))
def test_third_derivatives(activation, parameters):
    """The derivative of act'' by what is saved, against differences; act'' is act' times that of act' by the result."""
    s, step = np.linspace(0.1, 0.9, 17) if by_result(activation) else np.linspace(-2.05, 1.85, 17), 1e-5
    before, result, after = (derivatives_at(x, activation, parameters)[1:] for x in (s - step, s, s + step))
    np.testing.assert_allclose(result[1], (after[0] - before[0]) / (2 * step), rtol=1e-6, atol=1e-7)


@all_activations
def test_the_stream_is_that_of_taylor(activation, parameters):
    """act(z + e v + e² w) for the directions v = t_i, t_i + t_j, by differences in e."""
    z = np.random.uniform(0.3, 1.2, (3, 4))
    stream, step = np.random.uniform(-1, 1, (3, 5, 4)), 1e-3
    groups = FORMS["full"](2)
    attributes = {"activation": activation, "parameters": parameters, "d": 2, "groups": groups}
    saved = ag.tensor(saved_by(activation, parameters, z))
    result = plain(activation_jet(saved, ag.tensor(stream), None, **attributes))
    t, s = stream[:, :2], stream[:, 2:]

    def value(a, b):
        moved = z + a * t[:, 0] + b * t[:, 1] + a * a / 2 * s[:, 0] + a * b * s[:, 1] + b * b / 2 * s[:, 2]
        return ACTIVATIONS[activation].of(RAW)(moved, *parameters)

    e = step
    first = [(value(e, 0) - value(-e, 0)) / (2 * e), (value(0, e) - value(0, -e)) / (2 * e)]
    across = (value(e, e) - value(e, -e) - value(-e, e) + value(-e, -e)) / (4 * e * e)
    second = [(value(e, 0) + value(-e, 0) - 2 * value(0, 0)) / e**2, across,
              (value(0, e) + value(0, -e) - 2 * value(0, 0)) / e**2]  # fmt: skip
    np.testing.assert_allclose(result, np.stack(first + second, 1), rtol=1e-4, atol=1e-4)


@pytest.mark.cpu
@all_forms
@pytest.mark.parametrize("lead", [(3,), (), (2, 2)])
@pytest.mark.parametrize("seconds", [True, False])
def test_gradients_of_a_curve(form, lead, seconds):
    """By differences, of the first and second order, also for a stream that all rows share."""
    groups = FORMS[form](3)
    z, bias, stream = tensor(*(lead or (3,)), 2), tensor(2), tensor(*lead, 3 + len(groups) * seconds, 2)

    def pushed(z, stream, bias):
        return activation_jet(z, stream, bias, activation="silu", d=3, groups=groups)

    assert gradcheck(pushed, (z, stream, bias))
    assert gradgradcheck(pushed, (z, stream, bias))


@pytest.mark.cpu
def test_tangents_alone():
    """Without groups a stream has tangents only."""
    z, stream = tensor(3, 4), tensor(3, 2, 4)
    out = activation_jet(z, stream, None, activation="sine", d=2, groups=(), parameters=(1.0,))
    np.testing.assert_allclose(plain(out), np.cos(plain(z))[:, None] * plain(stream), rtol=1e-12)
    assert gradcheck(lambda *t: activation_jet(*t, None, activation="silu", d=2, groups=()), (z, stream))
    assert gradcheck(lambda *t: chain_stream(*t, d=2, groups=()), (z, tensor(3, 4), stream))


# ---- blocks of rows ------------------------------------------------------------------------------------


def composed(z, stream, d, groups):
    """tanh's stream behind z, out of public operations."""
    h = ag.tanh(z)
    f1 = 1 - h * h
    f2 = -2 * h * f1
    t = [stream[..., i, :] for i in range(d)]
    parts = [f1 * tangent for tangent in t]
    for g, group in enumerate(groups, d):
        bent = f2 * sum(t[i] * t[j] for i, j in group)
        parts.append(bent + f1 * stream[..., g, :] if stream.shape[-2] > d else bent)
    return ag.stack(parts, -2)


@pytest.mark.cpu
@all_forms
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_blocks_of_rows(form, shared, dtype):
    """More rows than one block has, and a last block that is not full."""
    groups, lead = FORMS[form](2), () if shared else (700,)
    z, stream = tensor(700, 130, dtype=dtype), tensor(*lead, 2 + len(groups), 130, dtype=dtype)
    g = ag.tensor(np.random.randn(700, 2 + len(groups), 130) / 30, dtype=getattr(ag, dtype))
    saved = ag.tanh(z)
    out = activation_jet(saved, stream, None, activation="tanh", d=2, groups=groups)
    wide_z, wide_stream = (x.detach().to(ag.float64).requires_grad_() for x in (z, stream))
    expected = composed(wide_z, wide_stream, 2, groups)
    ours = (out, *grad(out, [z, stream], g))
    theirs = (expected, *grad(expected, [wide_z, wide_stream], g.to(ag.float64)))
    digits = {"float64": 1e-12, "float32": 1e-5, "float16": 1e-2}[dtype]
    for actual, right in zip(ours, theirs, strict=True):
        scale = np.abs(plain(right)).max()
        np.testing.assert_allclose(plain(actual), plain(right), rtol=0, atol=digits * scale)


@pytest.mark.cpu
@pytest.mark.parametrize("shape", [(700, 2, 130), (2, 130)])
def test_local_terms_in_blocks_are_symmetric(shape):
    a, f2, t = tensor(700, 3, 130, dtype="float32"), tensor(700, 130, dtype="float32"), tensor(*shape, dtype="float32")
    out = local_terms(a, f2, t)
    actual = plain(out)
    np.testing.assert_array_equal(actual, actual.swapaxes(-1, -2))
    g = ag.tensor(np.random.randn(*actual.shape), dtype=ag.float32)
    wide = [x.detach().to(ag.float64).requires_grad_() for x in (a, f2, t)]
    x, y, z = wide
    left = (x * y[:, None])[:, :, None] * (z if z.ndim == 3 else z[None])[:, None]
    expected = left @ (z if z.ndim == 3 else z[None])[:, None].mT
    theirs = (expected, *grad(expected, wide, g.to(ag.float64)))
    for actual, right in zip((out, *grad(out, [a, f2, t], g)), theirs, strict=True):
        scale = np.abs(plain(right)).max()
        np.testing.assert_allclose(plain(actual), plain(right), rtol=0, atol=2e-5 * scale)


@all_activations
def test_by_activation_and_by_its_derivatives(activation, parameters):
    """activation_jet and chain_stream of f1 and f2 have the same values and gradients for the stream."""
    groups = FORMS["full"](2)
    z, stream = np.random.randn(5, 4), tensor(5, 5, 4)
    s = saved_by(activation, parameters, z)
    f1, f2, _ = jets.derivatives(RAW, s, activation, parameters)
    f2 = np.zeros_like(s) if f2 is None else f2
    attributes = {"d": 2, "groups": groups}
    one = activation_jet(ag.tensor(s), stream, None, activation=activation, parameters=parameters, **attributes)
    other = chain_stream(ag.tensor(f1), ag.tensor(f2), stream, **attributes)
    g = ag.tensor(np.random.randn(*one.shape))
    for actual, expected in zip((one, *grad(one, stream, g)), (other, *grad(other, stream, g)), strict=True):
        np.testing.assert_allclose(plain(actual), plain(expected), rtol=1e-12, atol=1e-13)


# ---- CUDA ----------------------------------------------------------------------------------------------


@pytest.mark.cuda
@pytest.mark.parametrize("form", ["full", "diagonal", "Laplacian"])
@pytest.mark.parametrize("lead", [(6,), ()])
def test_a_pass_is_a_kernel(form, lead):
    groups = FORMS[form](2)
    z, bias, stream = (tensor(*shape, dtype="float32") for shape in ((6, 8), (8,), (*lead, 2 + len(groups), 8)))
    with profiler.count() as forward:
        out = activation_jet(z, stream, bias, activation="silu", d=2, groups=groups)
    assert forward.launches == {"pushed_silu": 1}
    with profiler.count() as backward:
        grad(out, [z, stream, bias], ag.ones_like(out))
    assert backward.launches["pushed_silu_backward"] == 1
    with profiler.count() as chained:
        out = chain_stream(z, z, stream, d=2, groups=groups)
        grad(out, [z, stream], ag.ones_like(out))
    assert (chained.launches["chain_stream"], chained.launches["chain_stream_backward"]) == (1, 1)


@pytest.mark.cuda
def test_more_tangents_than_a_thread_keeps():
    """Then the stream goes through chain_stream."""
    d = kernels.HELD_TANGENTS + 1
    z, stream = tensor(6, 8), tensor(6, d + 1, 8)
    groups = FORMS["Laplacian"](d)
    out = activation_jet(ag.tanh(z), stream, None, activation="tanh", d=d, groups=groups)
    expected = composed(z, stream, d, groups)
    ours, theirs = ((tangent, *grad(tangent, [z, stream], ag.ones_like(out))) for tangent in (out, expected))
    for actual, right in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(plain(actual), plain(right), rtol=1e-9, atol=1e-11)
