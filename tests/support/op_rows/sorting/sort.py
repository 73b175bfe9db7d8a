"""Rows of ops/sorting/sort.py."""

import numpy as np
from op_db import Error, Row, Sample, distinct, normal
from op_rows.indexing.shared import BLOCK_0D, NO_BATCH

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


ROWS = [
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
