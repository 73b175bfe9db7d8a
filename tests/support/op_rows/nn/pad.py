"""Rows of ops/nn/pad.py."""

import math

import numpy as np
from op_db import Error, Row, Sample, normal
from op_rows.shape.shared import NO_0D, over

MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def constant_pad(x, pad, value=0.0):
    pairs = [(pad[i], pad[i + 1]) for i in range(len(pad) - 2, -1, -2)]
    pairs = [(0, 0)] * (x.ndim - len(pairs)) + pairs
    for at, (before, after) in enumerate(pairs):
        x = np.take(x, np.arange(max(-before, 0), x.shape[at] - max(-after, 0)), at)
    return np.pad(x, [(max(a, 0), max(b, 0)) for a, b in pairs], constant_values=value) if x.ndim else x


def border_pad(x, pad, border):
    pairs = [(pad[i], pad[i + 1]) for i in range(len(pad) - 2, -1, -2)]
    return np.pad(x, [(0, 0)] * (x.ndim - len(pairs)) + pairs, mode=MODES[border])


BORDERS = [
    ((2, 4), {"pad": (2, 1), "border": "reflect"}), ((1, 3, 4), {"pad": (3, 0, 0, 2), "border": "reflect"}),
    ((2, 4), {"pad": (2, 5), "border": "replicate"}), ((1, 3, 4), {"pad": (1, 1, 2, 0), "border": "replicate"}),
    ((2, 4), {"pad": (4, 3), "border": "circular"}), ((1, 2, 3, 2), {"pad": (0, 1, 2, 2), "border": "circular"}),
    ((1, 2, 3, 2, 2), {"pad": (0, 1, 2, 1, 1, 0), "border": "replicate"}),
    ((0, 2, 3), {"pad": (1, 1), "border": "reflect"}), ((2, 3), {"pad": (0, 0), "border": "circular"}),
]


def border_backward_samples(rng):
    return [Sample(border_pad(normal(rng, *shape), **attributes), **attributes) for shape, attributes in BORDERS]


def inner_shape(g, pad):
    shape = list(g.shape)
    for i in range(len(pad) // 2):
        shape[-1 - i] -= pad[2 * i] + pad[2 * i + 1]
    return shape


def border_backward(g, pad, border):
    """Element by element, by the numbers that a padded array of numbers shows."""
    shape = inner_shape(g, pad)
    places = border_pad(np.arange(int(np.prod(shape))).reshape(shape), pad, border)
    out = np.zeros(int(np.prod(shape)), g.dtype)
    np.add.at(out, places.reshape(-1), g.reshape(-1))
    return out.reshape(shape)


def their_border_backward(torch, g, pad, border):
    shape = inner_shape(g, pad)
    numbers = torch.arange(math.prod(shape), dtype=torch.float64).reshape(shape)
    places = torch.nn.functional.pad(numbers, pad, border).long().reshape(-1)
    return torch.zeros(math.prod(shape), dtype=g.dtype).index_add(0, places, g.reshape(-1)).reshape(shape)


ROWS = [
    Row("constant_pad", reference=constant_pad,
        samples=over(((2, 3), {"pad": (1, 2)}), ((2, 3), {"pad": (0, 1, 2, 0), "value": 1.5}), ((), {"pad": ()}),
                     ((0, 3), {"pad": (1, 0, 1, 1)}), ((3, 4), {"pad": (-1, 2, 0, -2), "value": 1.5}),
                     ((3,), {"pad": (-2, -1)})),
        integer_samples=over(((2, 3), {"pad": (1, 2)}), ((0,), {"pad": (1, 1), "value": 2})),
        errors=[Error("negative", lambda op, x: op(x(3), (-2, -2)), RuntimeError, "negative output size"),
                Error("odd", lambda op, x: op(x(3), (1,)), RuntimeError, "divisible by 2"),
                Error("many", lambda op, x: op(x(3), (1, 1, 1, 1)), RuntimeError, "length 4 and input of")]),
    Row("border_pad", samples=over(*BORDERS), reference=border_pad, skip=NO_0D,
        torch=lambda torch, x, pad, border: torch.nn.functional.pad(x, pad, border)),
    Row("border_pad_backward", samples=border_backward_samples, reference=border_backward,
        skip={**NO_0D, "oracle_bool": "there are no gradients of bools"},
        torch=their_border_backward, tol={"float16": 1e-2, "bfloat16": 6e-2}),
]
