"""Rows of ops/indexing/basic_index.py."""

import numpy as np
from op_db import Error, Row, Sample, normal

KEYS = (
    ((3, 4), 1), ((3, 4), (-1, 2)), ((3, 4), (slice(None), slice(1, None, 2))), ((3, 4), (None, ..., 0)),
    ((2, 3, 4), (..., 1, None)), ((), ...), ((0, 3), slice(0, 2)), ((3,), slice(2, 1)),
)  # fmt: skip


def basic_samples(rng):
    return [Sample(normal(rng, *shape), key=key) for shape, key in KEYS]


def basic_backward_samples(rng):
    return [Sample(normal(rng, *np.zeros(shape)[key].shape), key=key, shape=shape) for shape, key in KEYS]


def basic_backward(g, key, shape):
    out = np.zeros(shape, g.dtype)
    out[key] = g
    return out


def their_basic_backward(torch, g, key, shape):
    places = torch.arange(int(np.prod(shape))).reshape(shape)[key]
    zeros = torch.zeros(int(np.prod(shape)), dtype=g.dtype)
    return zeros.index_put((places.reshape(-1),), g.reshape(-1)).reshape(shape)


def basic_set_samples(rng):
    results = [Sample(normal(rng, *shape), normal(rng, *np.zeros(shape)[key].shape), key=key) for shape, key in KEYS]
    more_dims = Sample(normal(rng, 3), normal(rng, 1, 2), key=slice(1, 3))
    return [*results, Sample(normal(rng, 3, 4), normal(rng, 4), key=slice(1, 3)), Sample(normal(rng, 3), 2.5, key=1),
            more_dims, Sample(normal(rng, 2, 3), normal(rng), key=0)]


def basic_set(x, src, key):
    out = x.copy()
    out[key] = src
    return out


def their_basic_set(torch, x, src, key):
    if isinstance(src, torch.Tensor) and src.dtype != x.dtype:
        raise TypeError("its setitem converts, the op does not")
    out = x.clone()
    out[key] = src
    return out


ROWS = [
    Row("basic_index", samples=basic_samples, reference=lambda x, key: x[key], torch=lambda torch, x, key: x[key]),
    Row("basic_index_backward", samples=basic_backward_samples, reference=basic_backward, torch=their_basic_backward),
    Row("basic_set", samples=basic_set_samples, reference=basic_set, torch=their_basic_set,
        integer_samples=lambda rng: basic_set_samples(rng)[:3],
        errors=[Error("shape", lambda op, x: op(x(2, 3), x(2), 0), RuntimeError, "could not broadcast"),
                Error("dtypes", lambda op, x: op(x(3), x(3, dtype="float64"), 0), RuntimeError, "same dtype")]),
]
