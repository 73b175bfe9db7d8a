"""Rows of ops/indexing/index.py."""

import numpy as np
from op_db import Error, Row, Sample, bools, normal
from op_rows.indexing.shared import advanced, key_of, mask_of_examples


def keys(rng):
    """(shape, indices, dims): duplicates, negative ones, broadcasting, apart, masks, mixtures, empty."""
    mask = np.array([True, False, True])
    return [
        ((4, 3), [np.array([2, 0, 2])], (-2,)),
        ((2, 4), [np.array([[1, -1], [1, 3]])], (-1,)),
        ((4, 3), [np.array([1, 1, 0]), np.array([2, 2, -1])], (-2, -1)),
        ((4, 3, 2), [np.array([[1], [1]]), np.array([0, 1])], (-2, -1)),
        ((4, 3, 4), [np.array([1, 1]), np.array([3, 3])], (-3, -1)),
        ((3, 2), [mask], (-2,)),
        ((2, 3), [mask], (-1,)),
        ((2, 3, 3), [bools(rng, 2, 3)], (-3,)),
        ((3, 3), [mask, np.array([1])], (-2, -1)),
        ((3,), [np.asarray(1)], (-1,)),
        ((), [np.asarray(True)], (0,)),
        ((3, 2), [np.zeros(0, np.int64)], (-2,)),
        ((0, 2), [np.zeros(0, np.int64)], (-2,)),
        ((2, 2, 2, 2), [np.array([0, 1, 1])] * 4, (-4, -3, -2, -1)),
    ]


def advanced_samples(rng):
    return [Sample(normal(rng, *shape), *index, dims=dims) for shape, index, dims in keys(rng)]


def advanced_backward_samples(rng):
    return [Sample(normal(rng, *np.zeros(shape)[key_of(len(shape), dims, index)].shape), *index, dims=dims, shape=shape)
            for shape, index, dims in keys(rng)]


def advanced_backward(g, *index, dims, shape):
    out = np.zeros(shape, g.dtype)
    np.add.at(out, key_of(len(shape), dims, index), g)
    return out


def their_advanced_backward(torch, g, *index, dims, shape):
    size = int(np.prod(shape))
    places = torch.arange(size).reshape(shape)[key_of(len(shape), dims, index)]
    return torch.zeros(size, dtype=g.dtype).index_add(0, places.reshape(-1), g.reshape(-1)).reshape(shape)


ROWS = [
    Row("advanced_index", samples=advanced_samples, reference=advanced, no_batch=mask_of_examples,
        torch=lambda torch, x, *index, dims: x[key_of(x.ndim, dims, index)],
        errors=[Error("range", lambda op, x: op(x(3), x(2, dtype="int64") * 5, dims=(-1,)), IndexError,
                      "out of", by_value=True)]),
    Row("advanced_index_backward", samples=advanced_backward_samples, reference=advanced_backward,
        torch=their_advanced_backward, tol={"float16": 1e-2, "bfloat16": 1e-1}, no_batch=mask_of_examples,
        skip={"layouts": "a stretched mask names another number of places"},
        errors=[Error("range", lambda op, x: op(x(2), x(2, dtype="int64") * 5, dims=(-1,), shape=(3,)), IndexError,
                      "index 5 is out of bounds for dimension 0 with size 3", by_value=True)]),
]
