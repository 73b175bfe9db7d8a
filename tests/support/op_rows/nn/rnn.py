"""Rows of ops/nn/rnn.py."""

from op_db import Row, Sample, normal
from recurrent_steps import Library, samples, walk


def make(rng):
    """With tanh, and with relu where no argument is near its kink: these are all positive or all negative."""
    smooth = samples(1, 1, lambda rng, units: [(normal(rng, units, units),)] * 2)(rng)
    kinked = [
        Sample(sign * (abs(x) + 0.3), sign * abs(h), abs(w), **s.kwargs, relu=True)
        for s in smooth[1:3] for sign in (1, -1) for x, h, w in [s.args]
    ]  # fmt: skip
    return smooth + kinked


def rnn(library, x, h0, w_hh, *, sizes, reverse=False, relu=False):
    def step(x, h):
        a = x + h @ w_hh.T
        return (library.relu(a) if relu else library.tanh(a),), ()

    (out,), (h_n,) = walk(library, step, x, (h0,), sizes, reverse)
    return out, h_n


ROWS = [
    Row(
        "rnn_layer",
        samples=make,
        reference=lambda *inputs, **attributes: rnn(Library(), *inputs, **attributes),
        torch=lambda torch, *inputs, **attributes: rnn(Library(torch), *inputs, **attributes),
        tol={"float16": 2e-2, "bfloat16": 0.2},
        skip={"zero_dim": "a step has rows", "integers": "floats only", "oracle_dtypes": "floats of one dtype"},
    ),
]
