"""Samples, references and errors that rows of several modules of ops/indexing/ share."""

import numpy as np


def key_of(ndim, dims, indices):
    """The key that has indices[k] at dims[k], a mask there taking as many dimensions as it has."""
    key, at = [], -ndim
    for dim, index in zip(dims, indices, strict=True):
        key += [slice(None)] * (dim - at) + [index]
        at = dim + (index.ndim if "bool" in str(index.dtype) else 1)
    return tuple(key)


def mask_of_examples(sample, batched):
    return any(b and arg.dtype == bool for arg, b in zip(sample.args, batched, strict=True))


def advanced(x, *actual, dims):
    return x[key_of(x.ndim, dims, actual)]


ALONG = (
    ((3, 4), (2, 4), -2), ((3, 4), (3, 6), -1), ((2, 3, 4), (1, 2, 3), -2), ((3,), (5,), -1), ((2, 3), (0, 3), -2),
    ((0, 3), (0, 2), -1),
)  # fmt: skip
BLOCK_0D = {"zero_dim": "the public functions make 0-d tensors 1-d"}


def grid(index, dim):
    key = list(np.ogrid[tuple(slice(n) for n in index.shape)])
    key[dim] = index
    return tuple(key)


NO_BATCH = {"batch": "the shape of the result depends on the values"}
