"""Rows of ops/nn/lstm.py."""

from op_db import Row, normal
from recurrent_steps import Library, parts, samples, walk


def weights(rng, units):
    return (
        (normal(rng, 4 * units, units), None),
        # a projection to as many columns as there are units, so that h0 fits both
        (normal(rng, 4 * units, units), normal(rng, units, units)),
    )


def lstm(library, x, h0, c0, w_hh, w_hr=None, *, sizes, reverse=False):
    def step(x, h, c):
        i, f, g, o = parts(x + h @ w_hh.T, 4)
        i, f, g, o = library.sigmoid(i), library.sigmoid(f), library.tanh(g), library.sigmoid(o)
        c = f * c + i * g
        h = o * library.tanh(c)
        return (h if w_hr is None else h @ w_hr.T, c), (library.join([i, f, g, o], 1),)

    (out, cells, gates), (h_n, c_n) = walk(library, step, x, (h0, c0), sizes, reverse)
    return out, h_n, cells, c_n, gates


ROWS = [
    Row(
        "lstm_layer",
        samples=samples(4, 2, weights),
        reference=lambda *inputs, **attributes: lstm(Library(), *inputs, **attributes),
        torch=lambda torch, *inputs, **attributes: lstm(Library(torch), *inputs, **attributes),
        tol={"float16": 2e-2, "bfloat16": 0.2},
        skip={"zero_dim": "a step has rows", "integers": "floats only", "oracle_dtypes": "floats of one dtype"},
    ),
]
