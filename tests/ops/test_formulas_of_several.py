"""How accurate the ops from formulas of several elements are, losses among them: values and first derivatives.

Derivatives of two orders are checked in double precision, at random operands.
"""

import itertools

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mpf

import autograd_gpu as ag
from autograd_gpu import formulas
from autograd_gpu.backend.formulas.numpy_code import FEW
from autograd_gpu.core.declare.op import RECORD

pytestmark = pytest.mark.cpu
DIGITS = {"float32": 23, "float64": 52}


def softplus(x): return mpmath.log1p(mpmath.exp(x)) if x < 0 else x + mpmath.log1p(mpmath.exp(-x))
def huber(d, delta): return d * d / 2 if abs(d) < delta else delta * (abs(d) - mpf(delta) / 2)


# What the ops compute of their elements, in mpmath's numbers.
EXACT = {
    "lerp": lambda a, b, weight: a + weight * (b - a),
    "addcmul": lambda x, a, b, value=1: x + mpf(value) * a * b,
    "addcdiv": lambda x, a, b, value=1: x + mpf(value) * a / b,
    "huber_loss": lambda x, t, delta=1: huber(x - t, delta),
    "binary_cross_entropy_with_logits": lambda x, t: t * softplus(-x) + (1 - t) * softplus(x),
    "binary_cross_entropy": lambda p, t: -t * mpmath.log(p) - (1 - t) * mpmath.log(1 - p),
    "gaussian_nll": lambda x, t, v: (mpmath.log(v) + (x - t) ** 2 / v) / 2,
    "poisson_nll": lambda x, t: mpmath.exp(x) - t * x,
    "soft_margin": lambda x, t: softplus(-t * x),
}  # fmt: skip

# Sizes of terms that cancel, in the value and in the derivatives by the inputs; elsewhere errors are relative.
TERMS = {
    "lerp": (lambda a, b, w: max(abs(a), abs(b), abs(w * (b - a))), lambda a, b, w: 1 + abs(w)),
    "addcmul": (lambda x, a, b, value=1: max(abs(x), abs(mpf(value) * a * b)),),
    "addcdiv": (lambda x, a, b, value=1: max(abs(x), abs(mpf(value) * a / b)),),
    "binary_cross_entropy": (None, None, lambda p, t: -mpmath.log(p) - mpmath.log(1 - p)),
    "gaussian_nll": (
        lambda x, t, v: abs(mpmath.log(v)) + (x - t) ** 2 / v, None, None, lambda x, t, v: 1 / v + ((x - t) / v) ** 2
    ),
    "poisson_nll": (lambda x, t: mpmath.exp(x) + abs(t * x), lambda x, t: mpmath.exp(x) + t),
}  # fmt: skip
WIDE, UNIT = (1e-41, -1e-20, 0.3, -1.7, 5.5, -19.0, 40.0, -80.0), (1e-12, 0.25, 0.75, 1.0)
GRIDS = {
    "lerp": (WIDE[1:6], WIDE[1:6], (-0.3, 0.25, 0.5, 0.9, 1.0, 1.7)),
    "addcmul": (WIDE[1:], WIDE[1:], (0.3, -7.0)), "addcdiv": (WIDE[1:], WIDE[1:], (0.3, -7.0)),
    "huber_loss": (WIDE, WIDE), "binary_cross_entropy_with_logits": (WIDE, (0.0, *UNIT)),
    "binary_cross_entropy": ((1e-8, 1e-5, 0.25, 0.5, 0.75), (0.0, *UNIT)),
    "gaussian_nll": (WIDE[2:], (0.7, -3.0), (1e-3, 0.9, 30.0)), "poisson_nll": (WIDE, (0.0, 0.5, 3.0)),
    "soft_margin": (WIDE, (1.0, -1.0)),
}  # fmt: skip
# The largest errors of the value and of the derivatives by the inputs, in units in the last place.
BOUNDS = {  # in float32, and in float64
    ("lerp",): ((1, 1, 0, 1), (1, 1, 0, 1)), ("addcmul", ("value", -0.7)): ((2, 0, 1, 1), (1, 0, 1, 1)),
    ("addcdiv", ("value", -0.7)): ((2, 0, 1, 1), (1, 0, 1, 2)), ("huber_loss",): ((1, 1, 1), (1, 1, 1)),
    ("huber_loss", ("delta", 0.3)): ((2, 1, 1), (2, 1, 1)),
    ("binary_cross_entropy_with_logits",): ((1, 3, 0), (1, 3, 0)), ("binary_cross_entropy",): ((1, 3, 1), (1, 3, 1)),
    ("gaussian_nll",): ((1, 1, 1, 2), (1, 1, 1, 2)), ("poisson_nll",): ((1, 1, 0), (1, 1, 0)),
    ("soft_margin",): ((1, 2, 2), (1, 2, 2)),
}  # fmt: skip


def call(name, operands, **words):
    words |= {} if name in ("lerp", "addcmul", "addcdiv") else {"reduction": "none"}
    return getattr(RECORD, name)(*operands, **words)


def errors(name, words, dtype):
    """The largest errors at the points of the grid."""
    points = np.array([*itertools.product(*GRIDS[name])]).T.astype(dtype)
    operands = [ag.tensor(p, requires_grad=True) for p in points]
    value = call(name, operands, **words)
    results = [value, *ag.autograd.grad(value, operands, ag.ones_like(value))]
    tiny, worst = mpf(2) ** (-126 if dtype == "float32" else -1022), [0.0] * len(results)
    with mpmath.workdps(60):
        for i, point in enumerate(points.T.tolist()):
            at = [mpf(x) for x in point]
            for k, result in enumerate(results):
                order = tuple([int(k == j + 1) for j in range(len(at))])
                exact = mpmath.diff(lambda *x: EXACT[name](*x, **words), tuple(at), order)
                terms = (*TERMS.get(name, ()), *[None] * 4)[k]
                size = max(abs(exact), tiny, 0 if terms is None else terms(*at, **words))
                unit = mpf(2) ** (mpmath.floor(mpmath.log(size, 2)) - DIGITS[dtype])
                worst[k] = max(worst[k], float(abs(mpf(float(result.detach()[i])) - exact) / unit))
    return worst


def test_every_formula_has_a_reference():
    assert {name for name, *_ in BOUNDS} == set(EXACT) > set(formulas.several())


@pytest.mark.parametrize("dtype", DIGITS)
@pytest.mark.parametrize("case", BOUNDS, ids=str)
def test_accuracy(case, dtype):
    name, *words = case
    worst = errors(name, dict(words), dtype)
    assert all(w <= bound + 1e-9 for w, bound in zip(worst, BOUNDS[case][dtype == "float64"], strict=True)), worst


# ---- derivatives of two orders --------------------------------------------------------------------------

WITH_WORDS = {
    "lerp": [{}], "addcmul": [{"value": 1}, {"value": -0.7}], "addcdiv": [{"value": 1}, {"value": -0.7}],
    "huber_loss": [{"delta": 1.0}, {"delta": 0.3}], "binary_cross_entropy_with_logits": [{}],
    "binary_cross_entropy": [{}], "gaussian_nll": [{}, {"full": True}], "soft_margin": [{}],
    "poisson_nll": [{}, {"log_input": False, "full": True}],
}  # fmt: skip
SAME_SHAPES = ("binary_cross_entropy", "binary_cross_entropy_with_logits")


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize("name", EXACT)
@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_derivatives_of_two_orders(name, data):
    """By any of the inputs, of shapes that broadcast, and of losses that are reduced."""
    count = len(GRIDS[name])
    shapes = data.draw(st.lists(st.sampled_from([(), (3,), (2, 1), (2, 3)]), min_size=count, max_size=count))
    shapes = [shapes[0]] * count if name in SAME_SHAPES else shapes
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    needs = data.draw(st.lists(st.booleans(), min_size=count, max_size=count).filter(any))
    words = data.draw(st.sampled_from(WITH_WORDS[name]))
    if not name.startswith(("lerp", "addc")):
        words = words | {"reduction": data.draw(st.sampled_from(["mean", "sum", "none"]))}
    places = rng.permutation(99)[: 6 * count].reshape(count, 2, 3) / 100 + 0.003  # apart from each other
    places[0] += 0.003  # and their differences from kinks
    tensors = [ag.tensor(p[tuple([slice(n) for n in (1, 1, *shape)[-2:]])].reshape(shape), requires_grad=need)
               for p, shape, need in zip(places, shapes, needs, strict=True)]  # fmt: skip
    def function(*x): return getattr(RECORD, name)(*x, **words)
    assert ag.autograd.gradcheck(function, tensors, check_forward_ad=True)
    assert ag.autograd.gradgradcheck(function, tensors)


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("size", [5, FEW + 9])
def test_one_pass_has_the_gradients_of_the_rules(name, size):
    """A backward that records runs the rules."""
    rng, count = np.random.default_rng(0), len(GRIDS[name])
    for needs in itertools.product((False, True), repeat=count):
        tensors = [ag.tensor(rng.uniform(0.05, 0.95, size), requires_grad=need) for need in needs]
        if any(needs):
            wanted, out = [x for x in tensors if x.requires_grad], getattr(RECORD, name)(*tensors)
            g = ag.ones_like(out)
            rules = ag.autograd.grad(out, wanted, g, create_graph=True)
            for mine, theirs in zip(ag.autograd.grad(out, wanted, g), rules, strict=True):
                np.testing.assert_allclose(mine.numpy(), theirs.detach().numpy(), rtol=1e-13, atol=1e-15)


# ---- infinity, NaN and zeros of both signs --------------------------------------------------------------

ENDS = (np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0)
ENDS_OF = {
    "binary_cross_entropy": ((0.0, 1.0), (0.0, -0.0, 1.0)), "gaussian_nll": (ENDS, (1.0, np.inf), (1.0, np.inf)),
}  # fmt: skip
THEIRS = {
    "lerp": lambda t, a, b, weight: t.lerp(a, b, weight), "addcmul": lambda t, x, a, b: t.addcmul(x, a, b),
    "addcdiv": lambda t, x, a, b: t.addcdiv(x, a, b),
    "huber_loss": lambda t, x, y: t.nn.functional.huber_loss(x, y, reduction="none"),
    "binary_cross_entropy_with_logits": lambda t, x, y: (
        y * t.nn.functional.softplus(-x) + (1 - y) * t.nn.functional.softplus(x)
    ),
    "binary_cross_entropy": lambda t, x, y: t.nn.functional.binary_cross_entropy(x, y, reduction="none"),
    "gaussian_nll": lambda t, x, y, v: (t.log(v) + (x - y) ** 2 / v) / 2,
    "poisson_nll": lambda t, x, y: t.nn.functional.poisson_nll_loss(x, y, reduction="none"),
    "soft_margin": lambda t, x, y: t.nn.functional.softplus(-y * x),
}  # fmt: skip


@pytest.mark.parametrize("name", EXACT)
def test_infinity_zero_and_nan(name):
    torch = pytest.importorskip("torch")
    points = np.array([*itertools.product(*ENDS_OF.get(name, (ENDS,) * len(GRIDS[name])))], np.float32)
    results = []
    with np.errstate(all="ignore"):
        for m, function in ((ag, lambda *x: call(name, x)), (torch, lambda *x: THEIRS[name](torch, *x))):
            operands = [m.tensor(p.tolist()).requires_grad_() for p in points.T]
            value = function(*operands)
            grads = m.autograd.grad(value, operands, m.ones_like(value))
            results.append([r.detach().numpy() for r in (value, *grads)])
    for k, (mine, theirs) in enumerate(zip(*results, strict=True)):
        near = np.isclose(mine, theirs, 1e-6, 1e-7, equal_nan=True)
        assert near.all(), (k, [(points[i].tolist(), mine[i], theirs[i]) for i in np.flatnonzero(~near)])
