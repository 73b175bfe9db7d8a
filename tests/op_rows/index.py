"""Rows of ops/indexing/ (basic_index, index, masked, gather), sorting/sort.py, nn/embedding.py and nn/one_hot.py."""

import numpy as np
from op_db import Error, Row, Sample, bools, distinct, indices, normal

# ---- slicing -------------------------------------------------------------------------------------------

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
    found = [Sample(normal(rng, *shape), normal(rng, *np.zeros(shape)[key].shape), key=key) for shape, key in KEYS]
    more_dims = Sample(normal(rng, 3), normal(rng, 1, 2), key=slice(1, 3))
    return [*found, Sample(normal(rng, 3, 4), normal(rng, 4), key=slice(1, 3)), Sample(normal(rng, 3), 2.5, key=1),
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


SLICING = [
    Row("basic_index", samples=basic_samples, reference=lambda x, key: x[key], torch=lambda torch, x, key: x[key]),
    Row("basic_index_backward", samples=basic_backward_samples, reference=basic_backward, torch=their_basic_backward),
    Row("basic_set", samples=basic_set_samples, reference=basic_set, torch=their_basic_set,
        integer_samples=lambda rng: basic_set_samples(rng)[:3],
        errors=[Error("shape", lambda op, x: op(x(2, 3), x(2), 0), RuntimeError, "could not broadcast"),
                Error("dtypes", lambda op, x: op(x(3), x(3, dtype="float64"), 0), RuntimeError, "same dtype")]),
]

# ---- indexing with tensors -----------------------------------------------------------------------------


def key_of(ndim, dims, indices):
    """The key that has indices[k] at dims[k], a mask there taking as many dimensions as it has."""
    key, at = [], -ndim
    for dim, index in zip(dims, indices, strict=True):
        key += [slice(None)] * (dim - at) + [index]
        at = dim + (index.ndim if "bool" in str(index.dtype) else 1)
    return tuple(key)


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
    return [Sample(normal(rng, *shape), *found, dims=dims) for shape, found, dims in keys(rng)]


def advanced_backward_samples(rng):
    return [Sample(normal(rng, *np.zeros(shape)[key_of(len(shape), dims, found)].shape), *found, dims=dims, shape=shape)
            for shape, found, dims in keys(rng)]


def mask_of_examples(sample, batched):
    return any(b and arg.dtype == bool for arg, b in zip(sample.args, batched, strict=True))


def advanced(x, *found, dims):
    return x[key_of(x.ndim, dims, found)]


def advanced_backward(g, *found, dims, shape):
    out = np.zeros(shape, g.dtype)
    np.add.at(out, key_of(len(shape), dims, found), g)
    return out


def their_advanced_backward(torch, g, *found, dims, shape):
    size = int(np.prod(shape))
    places = torch.arange(size).reshape(shape)[key_of(len(shape), dims, found)]
    return torch.zeros(size, dtype=g.dtype).index_add(0, places.reshape(-1), g.reshape(-1)).reshape(shape)


def fill_samples(rng):
    cases = [((2, 3), (2, 3)), ((2, 3), (3,)), ((3,), (2, 1)), ((), ()), ((0, 3), (3,))]
    found = [Sample(normal(rng, *shape), bools(rng, *mask), 1.5) for shape, mask in cases]
    return [*found, Sample(normal(rng, 2, 3), bools(rng, 2, 3), normal(rng))]


def embedding_samples(rng):
    weight = normal(rng, 4, 3)
    return [
        Sample(indices(rng, 4, 2, 5), weight), Sample(np.asarray(2), weight), Sample(indices(rng, 4, 2), weight[:, :0]),
        Sample(np.array([1, 3, 1]), weight, padding_idx=1), Sample(np.array([3, 0, 3]), weight, padding_idx=-1),
    ]  # fmt: skip


ONE_HOT = [((2, 2), 4), ((), 2), ((0,), 3), ((5,), -1)]

INDEX = [
    Row("advanced_index", samples=advanced_samples, reference=advanced, no_batch=mask_of_examples,
        torch=lambda torch, x, *found, dims: x[key_of(x.ndim, dims, found)],
        errors=[Error("range", lambda op, x: op(x(3), x(2, dtype="int64") * 5, dims=(-1,)), IndexError,
                      "out of", by_value=True)]),
    Row("advanced_index_backward", samples=advanced_backward_samples, reference=advanced_backward,
        torch=their_advanced_backward, tol={"float16": 1e-2, "bfloat16": 1e-1}, no_batch=mask_of_examples,
        skip={"layouts": "a stretched mask names another number of places"},
        errors=[Error("range", lambda op, x: op(x(2), x(2, dtype="int64") * 5, dims=(-1,), shape=(3,)), IndexError,
                      "index 5 is out of bounds for dimension 0 with size 3", by_value=True)]),
    Row("masked_fill", samples=fill_samples, reference=lambda x, mask, value: np.where(mask, value, x),
        integer_samples=lambda rng: [Sample(normal(rng, 3), bools(rng, 3), 2)],
        errors=[Error("mask", lambda op, x: op(x(3), x(3, dtype="int64"), 0.0), RuntimeError, "boolean masks"),
                Error("value", lambda op, x: op(x(3), x(3, dtype="bool"), x(3)), RuntimeError, "0-dimensional value")]),
    Row("embedding", samples=embedding_samples, reference=lambda x, weight, padding_idx=None: weight[x],
        torch="torch.nn.functional.embedding",
        errors=[Error("float", lambda op, x: op(x(2), x(4, 3)), RuntimeError, "scalar types: Long, Int"),
                Error("range", lambda op, x: op(x(2, dtype="int64") * 4, x(4, 3)), IndexError,
                      "index out of range", by_value=True),
                Error("1-d", lambda op, x: op(x(2, dtype="int64"), x(4)), RuntimeError, "'weight' must be 2-D")],
        skip={"gradcheck": "row padding_idx has no gradient by definition", "gradgradcheck": "as gradcheck"}),
    Row("one_hot", samples=lambda rng: [
            Sample(indices(rng, n if n > 0 else 4, *shape), num_classes=n) for shape, n in ONE_HOT],
        reference=lambda x, num_classes: np.eye(num_classes if num_classes > 0 else x.max() + 1, dtype=np.int64)[x],
        torch="torch.nn.functional.one_hot", integers="int64",
        no_batch=lambda sample, batched: sample.kwargs["num_classes"] == -1,
        errors=[Error("dtype", lambda op, x: op(x(2)), RuntimeError, "only applicable to index tensor"),
                Error("range", lambda op, x: op(x(2, dtype="int64"), 1), RuntimeError,
                      "smaller than num_classes", by_value=True),
                Error("empty", lambda op, x: op(x(0, dtype="int64")), RuntimeError, "Can not infer")]),
]

# ---- gather and scatter --------------------------------------------------------------------------------

ALONG = (
    ((3, 4), (2, 4), -2), ((3, 4), (3, 6), -1), ((2, 3, 4), (1, 2, 3), -2), ((3,), (5,), -1), ((2, 3), (0, 3), -2),
    ((0, 3), (0, 2), -1),
)  # fmt: skip
BLOCK_0D = {"zero_dim": "the public functions make 0-d tensors 1-d"}


def grid(index, dim):
    key = list(np.ogrid[tuple(slice(n) for n in index.shape)])
    key[dim] = index
    return tuple(key)


def gather_samples(rng):
    return [Sample(normal(rng, *shape), indices(rng, max(shape[dim], 1), *size), dim=dim) for shape, size, dim in ALONG]


def gather_backward_samples(rng):
    return [Sample(normal(rng, *size), indices(rng, max(shape[dim], 1), *size), dim=dim, shape=shape)
            for shape, size, dim in ALONG]


def gather_backward(g, index, dim, shape):
    out = np.zeros(shape, g.dtype)
    np.add.at(out, grid(index, dim), g)
    return out


def their_gather_backward(torch, g, index, dim, shape):
    return torch.zeros(shape, dtype=g.dtype).scatter_add(dim, index, g)


GATHER = [
    Row("gather_along", samples=gather_samples, reference=lambda x, index, dim: x[grid(index, dim)], skip=BLOCK_0D,
        torch=lambda torch, x, index, dim: torch.gather(x, dim, index)),
    Row("gather_along_backward", samples=gather_backward_samples, reference=gather_backward, skip=BLOCK_0D,
        torch=their_gather_backward, tol={"float16": 1e-2, "bfloat16": 1e-1}),
]

# ---- order ---------------------------------------------------------------------------------------------

SORTED = (
    ((5,), {}), ((3, 4), {"dim": 0}), ((3, 4), {"dim": -1, "descending": True}), ((), {}), ((0, 2), {"dim": 1}),
    ((2, 3, 2), {"dim": 1}),
)  # fmt: skip
TOPK = (
    ((5,), {"k": 2}), ((3, 4), {"k": 2, "dim": 0}), ((3, 4), {"k": 3, "largest": False}), ((), {"k": 1}),
    ((2, 0), {"k": 0}), ((20, 2), {"k": 2, "dim": 0}), ((2, 20), {"k": 1, "largest": False}), ((20,), {"k": 0}),
)  # fmt: skip


def order(x, dim, descending):
    """Stable, by Python's sort of each line."""
    if not x.ndim or not x.size:
        return np.zeros(x.shape, np.int64)
    return np.apply_along_axis(lambda v: sorted(range(len(v)), key=lambda i: -v[i] if descending else v[i]), dim, x)


def sort(x, dim=-1, descending=False, stable=True):
    places = order(x, dim, descending)
    return (np.take_along_axis(x, places, dim) if x.ndim else x), places


def topk(x, k, dim=-1, largest=True, sorted=True):
    values, places = sort(x, dim, largest)
    first = np.arange(k)
    return (np.take(values, first, dim), np.take(places, first, dim)) if x.ndim else (values, places)


def samples_of(cases):
    return lambda rng: [Sample(distinct(rng, *shape), **attributes) for shape, attributes in cases]


def isin_samples(rng):
    return [
        Sample(np.round(normal(rng, 3, 4)), np.round(normal(rng, 2))), Sample(np.round(normal(rng, 5)), 1.0),
        Sample(np.round(normal(rng, 5)), np.round(normal(rng, 2, 2)), invert=True),
        Sample(1.0, np.round(normal(rng, 4))), Sample(normal(rng), normal(rng, 0)),
        Sample(normal(rng, 0, 2), normal(rng, 3)),
    ]  # fmt: skip


NO_BATCH = {"batch": "the shape of the result depends on the values"}
SORTING = [
    Row("sort", samples=samples_of(SORTED), reference=sort,
        torch=lambda torch, x, dim=-1, descending=False: torch.sort(x, dim=dim, descending=descending, stable=True),
        errors=[Error("dim", lambda op, x: op(x(2), 1), IndexError, "Dimension out of range")]),
    Row("topk", samples=samples_of(TOPK), reference=topk,
        errors=[Error("k", lambda op, x: op(x(2), 3), RuntimeError, "selected index k out of range")]),
    Row("argsort", samples=samples_of(SORTED), reference=lambda x, **attributes: sort(x, **attributes)[1],
        torch=lambda torch, x, dim=-1, descending=False: torch.argsort(x, dim=dim, descending=descending, stable=True)),
    Row("argwhere", samples=lambda rng: [Sample(np.round(normal(rng, *shape))) for shape in ((3, 4), (5,), (), (0, 2))],
        reference=np.argwhere, skip=NO_BATCH),
    Row("nonzero_places", reference=np.nonzero, torch=lambda torch, x: torch.nonzero(x, as_tuple=True),
        skip={**BLOCK_0D, **NO_BATCH},
        samples=lambda rng: [Sample(np.round(normal(rng, *shape))) for shape in ((3, 4), (5,), (2, 2, 3), (0, 2))]),
    Row("isin", samples=isin_samples, reference=lambda a, b, invert=False: np.isin(a, b, invert=invert),
        skip={"oracle_bool": "PyTorch does not take bool"}),
]

ROWS = [*SLICING, *INDEX, *GATHER, *SORTING]
