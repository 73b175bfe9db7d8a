"""Rows of ops/indexing/index_put.py."""

import numpy as np
from op_db import Error, Row, Sample, bools, normal
from op_rows.indexing.shared import advanced, key_of, mask_of_examples


def placed(rng):
    """(x, index tensors, dims): nothing is named twice."""
    mask = np.array([True, False, True])
    return [
        (normal(rng, 4, 3), [np.array([2, 0])], (-2,)), (normal(rng, 2, 4), [np.array([[1, -1], [0, 2]])], (-1,)),
        (normal(rng, 4, 3), [np.array([1, 0]), np.array([2, -1])], (-2, -1)),
        (normal(rng, 4, 3, 4), [np.array([1, 1]), np.array([3, 0])], (-3, -1)), (normal(rng, 3, 2), [mask], (-2,)),
        (normal(rng, 2, 3, 3), [bools(rng, 2, 3)], (-3,)), (normal(rng), [np.asarray(True)], (0,)),
        (normal(rng, 3, 2), [np.zeros(0, np.int64)], (-2,)), (normal(rng, 0, 2), [np.zeros(0, np.int64)], (-2,)),
    ]  # fmt: skip


def set_samples(rng):
    results = [Sample(x, normal(rng, *advanced(x, *i, dims=dims).shape), *i, dims=dims) for x, i, dims in placed(rng)]
    index = np.array([2, 0])
    return [
        *results, Sample(normal(rng, 4, 3), 2.5, index, dims=(-2,)),
        Sample(normal(rng, 4, 3), normal(rng), index, dims=(-2,)),
        Sample(normal(rng, 4, 3), normal(rng, 2, 1), index, dims=(-2,)),
        Sample(normal(rng, 3, 2), 2.5, np.array([True, False, True]), dims=(-2,)),
        Sample(normal(rng, 2, 3, 3), normal(rng), bools(rng, 2, 3), dims=(-3,)),
    ]  # fmt: skip


def add_samples(rng):
    twice = np.array([1, 1, -1])
    return [*[s for s in set_samples(rng) if not isinstance(s.args[1], float)],
            Sample(normal(rng, 3, 2), normal(rng, 3, 2), twice, dims=(-2,)),
            Sample(normal(rng, 3, 2, 3), normal(rng, 2), twice, twice, dims=(-3, -1))]


def advanced_set(x, values, *actual, dims):
    out = x.copy()
    out[key_of(x.ndim, dims, actual)] = values
    return out


def advanced_add(x, values, *actual, dims):
    out = x.copy()
    np.add.at(out, key_of(x.ndim, dims, actual), values)
    return out


def their_put(accumulate):
    def put(torch, x, values, *actual, dims):
        values = values if isinstance(values, torch.Tensor) else torch.tensor(values, dtype=x.dtype)
        places = torch.arange(x.numel()).reshape(x.shape)[key_of(x.ndim, dims, actual)]
        values = values.broadcast_to(places.shape).reshape(-1)
        return x.reshape(-1).index_put((places.reshape(-1),), values, accumulate).reshape(x.shape)

    return put


def several_in_masks(sample, batched):
    return mask_of_examples(sample, batched) and np.ndim(sample.args[1]) > 0


STRETCHED = {"layouts": "a stretched index names a place twice"}

ROWS = [
    Row("advanced_set", samples=set_samples, reference=advanced_set, torch=their_put(False), skip=STRETCHED,
        no_batch=several_in_masks,
        integer_samples=lambda rng: set_samples(rng)[:3],
        errors=[Error("range", lambda op, x: op(x(3), 1.0, x(2, dtype="int64") * 5, dims=(-1,)), IndexError,
                      "out of", by_value=True),
                Error("shape", lambda op, x: op(x(3), x(2), x(3, dtype="int64"), dims=(-1,)), RuntimeError, "could"),
                Error("dtypes", lambda op, x: op(x(3), x(1, dtype="float64"), x(1, dtype="int64"), dims=(-1,)),
                      RuntimeError, "same dtype")]),
    Row("advanced_add", samples=add_samples, reference=advanced_add, torch=their_put(True),
        no_batch=mask_of_examples,
        tol={"float16": 1e-2, "bfloat16": 6e-2}, integer_samples=lambda rng: add_samples(rng)[:3],
        skip={"oracle_bool": "NumPy's sum of bools is a bool, PyTorch's index_put is not implemented"},
        errors=[Error("range", lambda op, x: op(x(3), x(2), x(2, dtype="int64") * 5, dims=(-1,)), IndexError,
                      "index 5 is out of bounds", by_value=True),
                Error("shape", lambda op, x: op(x(3), x(2), x(3, dtype="int64"), dims=(-1,)), RuntimeError,
                      "broadcast")]),
]
