"""Rows of ops/nn/gru.py."""

from op_db import Row, normal
from recurrent_steps import Library, parts, samples, walk


def weights(rng, units):
    return (
        (normal(rng, 3 * units, units), normal(rng, 3 * units)),
        (normal(rng, 3 * units, units), None),
    )


def gru(library, x, h0, w_hh, b_hh=None, *, sizes, reverse=False):
    def step(x, h):
        x_r, x_z, x_n = parts(x, 3)
        u_r, u_z, u_n = parts(h @ w_hh.T + (0 if b_hh is None else b_hh), 3)
        r, z = library.sigmoid(x_r + u_r), library.sigmoid(x_z + u_z)
        n = library.tanh(x_n + r * u_n)
        return ((1 - z) * n + z * h,), (library.join([r, z, n, u_n], 1),)

    (out, gates), (h_n,) = walk(library, step, x, (h0,), sizes, reverse)
    return out, h_n, gates


ROWS = [
    Row(
        "gru_layer",
        samples=samples(3, 1, weights),
        reference=lambda *inputs, **attributes: gru(Library(), *inputs, **attributes),
        torch=lambda torch, *inputs, **attributes: gru(Library(torch), *inputs, **attributes),
        tol={"float16": 2e-2, "bfloat16": 0.2},
        skip={"zero_dim": "a step has rows", "integers": "floats only", "oracle_dtypes": "floats of one dtype"},
    ),
]
