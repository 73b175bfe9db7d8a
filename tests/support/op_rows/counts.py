"""Rows of ops that count, search and measure distances."""

import numpy as np
from op_db import Error, Row, Sample, indices, normal

from .arithmetic import few
from .index import NO_BATCH
from .reduce import RANGE, TWICE

# ---- bincount, histc -----------------------------------------------------------------------------------


def bincount_samples(rng):
    x = indices(rng, 5, 7)
    return [Sample(x), Sample(x, minlength=9), Sample(x, normal(rng, 7)), Sample(x[:0], normal(rng, 0), minlength=2),
            Sample(x[:0])]  # fmt: skip


def bincount(x, weights=None, minlength=0):
    return np.bincount(x, weights, minlength).astype(np.int64 if weights is None else np.float64)


def their_bincount(torch, x, weights=None, minlength=0):
    """PyTorch's sums of weights are integers where there are none to sum."""
    counts = torch.bincount(x, weights, minlength)
    if weights is None or x.numel():
        return counts
    return counts.to(torch.float32 if weights.dtype == torch.float32 else torch.float64)


def histc_samples(rng):
    x = normal(rng, 3, 7)
    nan = np.array([0.5, np.nan, 1.0, -3.0])
    return [Sample(x), Sample(x, bins=4), Sample(x, bins=3, min=-0.5, max=0.5), Sample(nan, bins=2, min=0, max=1),
            Sample(x[0, 0], bins=3), Sample(x[:0], bins=3), Sample(np.ones(3), bins=4)]  # fmt: skip


def histc(x, bins=100, min=0, max=0):
    low, high = (min, max) if min != max else (np.min(x), np.max(x)) if x.size else (-1, 1)
    low, high = (low - 1, high + 1) if low == high else (low, high)
    return np.histogram(x.ravel(), bins, (low, high))[0].astype(np.float64)


# ---- places ----------------------------------------------------------------------------------------------


def place_samples(rng):
    rows, values = np.sort(few(rng, 2, 3, 6), -1), few(rng, 2, 3, 4)
    options = [{"right": right, "out_int32": int32} for right in (False, True) for int32 in (False, True)]
    return [*(Sample(a, b, **o) for a, b in ((rows, values), (rows[0, 0], values)) for o in options),
            Sample(rows[0, 0], values[0, 0, 0], **options[0]), Sample(rows, values[..., :0], **options[0]),
            Sample(rows[..., :0], values, **options[0]), Sample(rows[0, 0], values[:0], **options[0])]  # fmt: skip


def places(rows, values, right, out_int32):
    side, dtype = "right" if right else "left", np.int32 if out_int32 else np.int64
    if rows.ndim == 1:
        return np.asarray(np.searchsorted(rows, values, side)).astype(dtype)
    found = np.zeros(values.shape, dtype)
    for i in np.ndindex(rows.shape[:-1]):
        found[i] = np.searchsorted(rows[i], values[i], side)
    return found


def their_places(torch, rows, values, right, out_int32):
    return torch.searchsorted(rows, values, right=right, out_int32=out_int32)


# ---- unique ----------------------------------------------------------------------------------------------


def repeated(rng):
    x = few(rng, 4, 3)
    found = [Sample(x, dim=dim) for dim in (None, 0, 1, -1)]
    return [*found, Sample(x[0, 0]), Sample(x[:0]), Sample(x[:0], dim=0), Sample(few(rng, 2, 2, 3), dim=1)]


def unique(x, dim=None):
    if dim is None or not x.ndim:
        values, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
        return values, inverse.reshape(x.shape), counts
    return np.unique(x, return_inverse=True, return_counts=True, axis=dim)


def runs(x, dim=None):
    y = x.reshape(-1) if dim is None else np.moveaxis(x, dim, 0)
    starts = [i for i in range(len(y)) if not i or np.any(y[i] != y[i - 1])]
    counts = np.diff([*starts, len(y)]).astype(np.int64)
    inverse = np.repeat(np.arange(len(starts)), counts)
    values = y[np.array(starts, np.int64)]
    return (values, inverse.reshape(x.shape), counts) if dim is None else (np.moveaxis(values, 0, dim), inverse, counts)


def theirs(name):
    def call(torch, x, dim=None):
        return getattr(torch, name)(x, return_inverse=True, return_counts=True, dim=dim)

    return call


# ---- distances -------------------------------------------------------------------------------------------


def point_samples(rng):
    shapes = [((2, 3), (4, 3)), ((2, 1, 2, 3), (3, 4, 3)), ((0, 2), (3, 2)), ((1, 3), (27, 3)), ((2, 0), (3, 0))]
    return [Sample(normal(rng, *a), normal(rng, *b) + 4) for a, b in shapes]


def euclidean(x1, x2):
    return np.sqrt(((x1[..., :, None, :] - x2[..., None, :, :]) ** 2).sum(-1))


def their_euclidean(torch, x1, x2):
    """torch.cdist, which is compared by test_composites.py, has no second derivative."""
    return torch.linalg.vector_norm(x1[..., :, None, :] - x2[..., None, :, :], dim=-1)


def difference(x, dim):
    return np.diff(x, axis=dim)


NO_DERIVATIVE = "PyTorch has no derivative of it"
def difference_samples(rng):
    shapes = ((3, 2), (4, 3, 2), (3, 0))
    return [Sample(normal(rng, *shape), np.array([0, 2, 2]), np.array([1, 1, 0])) for shape in shapes]


ROWS = [
    Row("scaled", samples=lambda rng: [
            Sample(normal(rng, *shape), **numbers) for shape in ((2, 3), (), (0,))
            for numbers in ({"factor": 0.3, "divisor": 2}, {"factor": 3}, {"divisor": 0.7})
        ],
        reference=lambda x, factor=1, divisor=1: x * factor / divisor,
        torch=lambda torch, x, factor=1, divisor=1: torch.div(x * factor, divisor)),
    Row("differences", samples=lambda rng: [Sample(normal(rng, *shape), dim=dim) for shape, dim in (
            ((2, 3, 4), -1), ((2, 3, 4), -2), ((1,), -1), ((0, 2), -2))],
        reference=difference, torch=lambda torch, x, dim: torch.diff(x, dim=dim), skip={"zero_dim": "diff refuses it"}),
    Row("count_nonzero", samples=lambda rng: [Sample(few(rng, 2, 3, 4), dim=dim) for dim in (None, 0, -1, (0, 2))] + [
            Sample(few(rng)), Sample(few(rng, 0, 2), dim=0)],
        reference=lambda x, dim=None: np.asarray(np.count_nonzero(x, axis=dim), np.int64), errors=[RANGE, TWICE]),
    Row("bincount", samples=bincount_samples, reference=bincount, torch=their_bincount,
        no_batch=lambda _, batched: batched[0],
        dtypes=("float32", "float64"), skip={"oracle_grad": NO_DERIVATIVE, "oracle_gradgrad": NO_DERIVATIVE,
            "zero_dim": "vectors only", "integers": "they are promoted to float64"},
        errors=[Error("floats", lambda op, x: op(x(2)), RuntimeError, "only supports 1-d non-negative integral"),
                Error("a matrix", lambda op, x: op(x(2, 2, dtype="int64")), RuntimeError, "only supports 1-d"),
                Error("weights", lambda op, x: op(x(2, dtype="int64"), x(3)), RuntimeError, "same length as input"),
                Error("minlength", lambda op, x: op(x(2, dtype="int64"), None, -1), RuntimeError, "minlength")]),
    Row("histc", samples=histc_samples, reference=histc, integers=None,
        integer_samples=lambda rng: [Sample(few(rng, 3))],
        errors=[Error("bins", lambda op, x: op(x(2), 0), RuntimeError, "bins must be > 0"),
                Error("range", lambda op, x: op(x(2), 2, 3, 1), RuntimeError, "max must be larger than min"),
                Error("infinite", lambda op, x: op(x(2), 2, 0, float("inf")), RuntimeError, "is not finite")]),
    Row("sorted_places", samples=place_samples, reference=places, torch=their_places, integers="auto"),
    Row("unique_all", samples=repeated, reference=unique, torch=theirs("unique"), skip=NO_BATCH),
    Row("unique_values", samples=lambda rng: [Sample(s.args[0]) for s in repeated(rng)], reference=np.unique,
        torch="torch.unique", skip=NO_BATCH),
    Row("unique_runs", samples=repeated, reference=runs, torch=theirs("unique_consecutive"), skip=NO_BATCH),
    Row("row_differences", samples=difference_samples, torch=lambda torch, x, i, j: x[..., i, :] - x[..., j, :],
        reference=lambda x, i, j: x[..., i, :] - x[..., j, :], skip={"zero_dim": "there are no rows"}),
    Row("euclidean_distances", samples=point_samples, reference=euclidean, torch=their_euclidean,
        skip={"zero_dim": "matrices only"},
        tol={"float16": 2e-2, "bfloat16": 0.1}, errors=[
            Error("columns", lambda op, x: op(x(2, 3), x(2, 4)), RuntimeError, "euclidean_distances")]),
]  # fmt: skip
