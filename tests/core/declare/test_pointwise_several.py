"""Ops from formulas of several elements: values, what they save, gradients in one pass, numbers among the elements."""

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.backend.formulas.native import switch
from autograd_gpu.backend.formulas.numpy_code import FEW
from autograd_gpu.core.declare.op import RAW, REGISTRY

pytestmark = pytest.mark.cpu
SIZES = (5, FEW + 9)
# What the ops compute, of NumPy arrays and numbers in double precision, and the derivatives.
EXACT = {
    "lerp": lambda a, b, w: a + (b - a) * w, "addcmul": lambda x, a, b, value=1: x + value * a * b,
    "addcdiv": lambda x, a, b, value=1: x + value * a / b,
}  # fmt: skip
DERIVATIVES = {
    "lerp": lambda a, b, w: (1 - w, w, b - a), "addcmul": lambda x, a, b, value=1: (1, value * b, value * a),
    "addcdiv": lambda x, a, b, value=1: (1, value / b, -value * a / b**2),
}  # fmt: skip
CASES = [("lerp", {}), *[(name, {"value": v}) for name in ("addcmul", "addcdiv") for v in (1, -1.5)]]


def arrays(size, count=3, dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    return [(rng.uniform(0.25, 2, size) * rng.choice([-1, 1], size)).astype(dtype) for _ in range(count)]


@pytest.fixture
def native_at_once(monkeypatch):
    pytest.importorskip("llvmlite")
    for name in ("LOADS", "COMPILES"):
        monkeypatch.setattr(switch, name, 0)
    monkeypatch.setattr(switch.SETTING, "on", True)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize(("name", "words"), CASES)
def test_values(name, words, dtype, size):
    operands = arrays(size, dtype=dtype)
    result = getattr(ag, name)(*map(ag.tensor, operands), **words).numpy()
    assert result.dtype == dtype
    expected = EXACT[name](*[a.astype(np.float64) for a in operands], **words)
    rounding = np.finfo(dtype).eps
    np.testing.assert_allclose(result, expected, rtol=4 * rounding, atol=16 * rounding)


@pytest.mark.parametrize(("name", "words"), CASES)
def test_few_elements_have_the_bits_of_many(name, words):
    operands = arrays(FEW + 9)
    whole = getattr(RAW, name)(*operands, **words)
    np.testing.assert_array_equal(getattr(RAW, name)(*[a[:100] for a in operands], **words), whole[:100])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("places", [(0,), (1,), (2,), (0, 1), (1, 2)])
@pytest.mark.parametrize(("name", "words"), CASES)
def test_numbers_among_the_elements(name, words, places, size):
    operands = arrays(size, dtype=np.float64)
    for number in (0.75, -0.25, 1):
        mixed = [number if k in places else a for k, a in enumerate(operands)]
        result = getattr(RAW, name)(*mixed, **words)
        np.testing.assert_allclose(result, EXACT[name](*mixed, **words), rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("code", ["rules", "native"])
@pytest.mark.parametrize(("name", "words"), CASES)
def test_gradients_of_many_elements(name, words, code, request):
    if code == "native":
        request.getfixturevalue("native_at_once")
    operands, g = arrays(FEW + 9, dtype=np.float64), arrays(FEW + 9, 1, np.float64, 1)[0]
    expected = [np.broadcast_to(g * d, g.shape) for d in DERIVATIVES[name](*operands, **words)]
    for need in ((0, 1, 2), (1, 2), (0, 2), (1,)):
        tensors = [ag.tensor(a, requires_grad=k in need) for k, a in enumerate(operands)]
        out = getattr(ag, name)(*tensors, **words)
        grads = ag.autograd.grad(out, [tensors[k] for k in need], ag.tensor(g))
        for k, grad in zip(need, grads, strict=True):
            np.testing.assert_allclose(grad.numpy(), expected[k], rtol=1e-14, atol=1e-15)


def test_gradients_of_inputs_that_broadcast(native_at_once):
    a, b = [ag.tensor(x.reshape(3, -1), requires_grad=True) for x in arrays(3 * FEW, 2, np.float64)]
    weight = ag.tensor([[0.25], [0.75], [2.0]], dtype=ag.float64, requires_grad=True)
    grads = ag.autograd.grad(ag.lerp(a, b, weight).sum(), (a, b, weight))
    np.testing.assert_allclose(grads[0].numpy(), np.broadcast_to(1 - weight.detach().numpy(), a.shape))
    np.testing.assert_allclose(grads[2].numpy(), (b - a).detach().numpy().sum(1, keepdims=True), rtol=1e-12)


def test_an_op_saves_what_its_derivatives_read():
    def asked(name): return {k: [n for n, _, _ in REGISTRY[name].asked(r)] for k, r in REGISTRY[name].rules.items()}
    assert asked("lerp") == {"a": ["weight"], "b": ["weight"], "weight": ["a", "b"]}
    assert asked("addcmul") == {"x": ["value"], "a": ["b", "value"], "b": ["a", "value"]}
    a, b, weight = map(ag.tensor, arrays(5))
    out = ag.lerp(a.requires_grad_(), b, weight)
    with ag.no_grad():
        b.zero_()
    out.sum().backward()
    np.testing.assert_allclose(a.grad.numpy(), 1 - weight.numpy())


@pytest.mark.parametrize(("name", "words"), CASES)
def test_derivatives_of_two_orders_in_both_modes(name, words):
    tensors = [ag.tensor(a, requires_grad=True) for a in arrays(3, dtype=np.float64)]
    def function(*inputs): return getattr(ag, name)(*inputs, **words)
    assert ag.autograd.gradcheck(function, tensors, check_forward_ad=True, check_batched_grad=True)
    assert ag.autograd.gradgradcheck(function, tensors, check_fwd_over_rev=True)


def test_integers():
    x, a, b = (ag.tensor(v) for v in ([1, 2], [3, 4], [5, 6]))
    assert ag.addcmul(x, a, b, value=2).tolist() == [31, 50]
    assert ag.lerp(x, a, ag.tensor([1, 0])).tolist() == [3, 2]
    assert ag.addcdiv(x, a, b).dtype == ag.float32
