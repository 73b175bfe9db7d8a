"""Rows of ops/nn/pooling.py."""

import numpy as np
from op_db import Row, Sample, normal

WINDOWS = (
    ((2, 3, 6), {"size": 2, "stride": 2, "padding": 0, "count": 3}),
    ((2, 7), {"size": 3, "stride": 1, "padding": 1, "count": 7}),
    ((2, 7), {"size": 3, "stride": 2, "padding": 0, "count": 3}),
    ((1, 8), {"size": 4, "stride": 3, "padding": 2, "count": 4}),
    ((1, 5), {"size": 2, "stride": 4, "padding": 1, "count": 2}),
    ((0, 2, 5), {"size": 2, "stride": 2, "padding": 0, "count": 2}),
)


def matrix(length, size, stride, padding, count):
    """(length, count): 1 where an element is in a window."""
    starts = np.arange(count) * stride - padding
    places = np.arange(length)[:, None]
    return ((places >= starts) & (places < starts + size)).astype(float)


def window_sum(x, size, stride, padding, count):
    return x @ matrix(x.shape[-1], size, stride, padding, count)


def window_spread(g, size, stride, padding, length):
    return g @ matrix(length, size, stride, padding, g.shape[-1]).T


def spread_samples(rng):
    samples = []
    for shape, sizes in WINDOWS:
        count, rest = sizes["count"], {key: value for key, value in sizes.items() if key != "count"}
        samples.append(Sample(normal(rng, *shape[:-1], count), length=shape[-1], **rest))
    return samples


def theirs(reference, key):
    """The product with the matrix of windows."""

    def call(torch, x, **sizes):
        length, count = (x.shape[-1], sizes["count"]) if key == "count" else (sizes["length"], x.shape[-1])
        windows = torch.tensor(matrix(length, sizes["size"], sizes["stride"], sizes["padding"], count), dtype=x.dtype)
        return x @ (windows if key == "count" else windows.T)

    return call


NO_DIMENSION = {"zero_dim": "windows need a dimension", "oracle_dtypes": "torch has no such function"}

ROWS = [
    Row(
        "window_sum",
        samples=lambda rng: [Sample(normal(rng, *shape), **sizes) for shape, sizes in WINDOWS],
        reference=window_sum,
        torch=theirs(window_sum, "count"),
        integers="int64",
        skip=NO_DIMENSION,
    ),
    Row(
        "window_spread",
        samples=spread_samples,
        reference=window_spread,
        torch=theirs(window_spread, "length"),
        integers="int64",
        skip=NO_DIMENSION,
    ),
]
