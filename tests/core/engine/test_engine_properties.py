"""Random graphs: whatever the shape of the graph, the engine's ways of asking for a gradient agree."""

from __future__ import annotations

import numpy as np
import pytest
from effort import fewer

import autograd_gpu as ag
from autograd_gpu.autograd import grad

hypothesis = pytest.importorskip("hypothesis")
given, settings, st = hypothesis.given, hypothesis.settings, pytest.importorskip("hypothesis.strategies")

N_LEAVES = 3
UNARY = {
    "sin": ag.sin,
    "tanh": ag.tanh,
    "neg": lambda x: -x,
    "transpose": lambda x: x.mT,
    "row sums": lambda x: x.sum(1, keepdim=True),
    "column": lambda x: x[:, 0],
    "halves": lambda x: x.chunk(2, 1)[1] * 2.0,
    "relu": ag.relu,
    "sign": ag.sign,
    "reshape": lambda x: x.reshape(x.numel()).reshape(*x.shape),
}
BINARY = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "sub": lambda a, b: a - b,
    "matmul": lambda a, b: a @ b * 0.3,
    "maximum": ag.maximum,
    "linear": lambda a, b: ag.nn.functional.linear(a, b) * 0.3,
    "cat": lambda a, b: ag.cat([a, b], 0)[:4] + a,
}

steps = st.lists(
    st.tuples(st.sampled_from([*UNARY, *BINARY]), st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=14
)
subsets = st.sets(st.integers(0, N_LEAVES - 1), min_size=1)


def leaves(seed):
    rng = np.random.default_rng(seed)
    return [ag.tensor(rng.uniform(0.2, 1.2, (4, 4))).requires_grad_() for _ in range(N_LEAVES)]


def build(program, inputs):
    """The value of a random program: each step applies an op to earlier 4x4 values; the loss uses them all."""
    values = list(inputs)
    for name, i, j in program:
        a, b = values[i % len(values)], values[j % len(values)]
        out = UNARY[name](a) if name in UNARY else BINARY[name](a, b)
        if out.ndim < 2 or 1 in out.shape:
            out = out + ag.zeros(4, 4, dtype=ag.float64)
        values.append(out if out.shape == (4, 4) else ag.cat([out, out], 1))
    return sum((v.sin().sum() for v in values[N_LEAVES:]), ag.tensor(0.0, dtype=ag.float64))


@settings(max_examples=fewer(80), deadline=None)
@given(steps, subsets, st.integers(0, 5))
def test_a_subset_gets_what_everything_gets(program, subset, seed):
    xs = leaves(seed)
    full = grad(build(program, xs), xs, materialize_grads=True)
    some = grad(build(program, xs), [xs[i] for i in subset], materialize_grads=True)
    for i, g in zip(subset, some, strict=True):
        np.testing.assert_allclose(g.numpy(force=True), full[i].numpy(force=True), rtol=1e-12, atol=1e-12)


@settings(max_examples=fewer(60), deadline=None)
@given(steps, st.integers(0, 5))
def test_raw_recorded_and_accumulated_agree(program, seed):
    xs = leaves(seed)
    raw = grad(build(program, xs), xs, materialize_grads=True)
    recorded = grad(build(program, xs), xs, create_graph=True, materialize_grads=True)
    build(program, xs).backward()
    for x, r, c in zip(xs, raw, recorded, strict=True):
        np.testing.assert_allclose(c.detach().numpy(force=True), r.numpy(force=True), rtol=1e-12, atol=1e-12)
        accumulated = np.zeros((4, 4)) if x.grad is None else x.grad.numpy(force=True)
        np.testing.assert_allclose(accumulated, r.numpy(force=True), rtol=1e-12, atol=1e-12)


@settings(max_examples=fewer(60), deadline=None)
@given(steps, st.integers(0, 5))
def test_directional_derivative(program, seed):
    """First and second derivative along one direction, against differences. Kinks of this program are rare but real."""
    smooth = [s for s in program if s[0] not in ("relu", "sign", "maximum")]
    xs = leaves(seed)
    rng = np.random.default_rng(seed + 100)
    vs = [ag.tensor(rng.standard_normal((4, 4))) for _ in xs]

    def value_and_slope(t):
        moved = [(x.detach() + v * t).requires_grad_() for x, v in zip(xs, vs, strict=True)]
        loss = build(smooth, moved)
        if not loss.requires_grad:
            return loss.item(), None, moved
        gs = grad(loss, moved, create_graph=True, materialize_grads=True)
        return loss.item(), sum((g * v).sum() for g, v in zip(gs, vs, strict=True)), moved

    _, first, moved = value_and_slope(0.0)
    if first is None:
        return
    eps = 1e-6  # a composition of sines has third derivatives of 1e5
    (right, slope_right, _), (left, slope_left, _) = value_and_slope(eps), value_and_slope(-eps)
    np.testing.assert_allclose(first.item(), (right - left) / (2 * eps), rtol=1e-4, atol=1e-5)
    if first.requires_grad:
        hs = grad(first, moved, materialize_grads=True)
        second = sum((h * v).sum() for h, v in zip(hs, vs, strict=True)).item()
        numeric = (slope_right.item() - slope_left.item()) / (2 * eps)
        np.testing.assert_allclose(second, numeric, rtol=1e-4, atol=1e-4 * (1 + abs(numeric)))


@settings(max_examples=fewer(40), deadline=None)
@given(steps, st.integers(0, 5))
def test_intermediate_gradients_chain(program, seed):
    """grad(y, x) equals grad(y, u) followed by grad(u, x) where u is the only way from x to y."""
    xs = leaves(seed)
    us = [ag.tanh(x) for x in xs]
    y = build(program, us)
    gus = grad(y, us, retain_graph=True, materialize_grads=True)
    direct = grad(y, xs, retain_graph=True, materialize_grads=True)
    chained = grad(us, xs, gus)
    for a, b in zip(direct, chained, strict=True):
        np.testing.assert_allclose(a.numpy(force=True), b.numpy(force=True), rtol=1e-12, atol=1e-12)
