"""Rows of ops/shape/as_strided.py."""

import numpy as np
from numpy.lib.stride_tricks import as_strided
from op_db import Error, Row, Sample, normal
from op_rows.shape.shared import over

# (shape of x, place, origin); the origins are those of contiguous tensors
PLACES = [
    ((6,), ((2, 3), (3, 1), 0), ((1,), 0)), ((6,), ((4, 3), (1, 1), 0), ((1,), 0)),
    ((2, 3), ((3,), (2,), 1), ((3, 1), 0)), ((2, 3), ((2, 2), (0, 1), 2), ((3, 1), 0)),
    ((2, 3), ((), (), 4), ((3, 1), 0)), ((), ((2,), (0,), 0), ((), 0)), ((0, 3), ((0,), (1,), 0), ((3, 1), 0)),
]


def strided(x, place):
    size, stride, offset = place
    flat = x.reshape(-1)
    return as_strided(flat[offset:], size, [s * flat.itemsize for s in stride]).copy()


def restride_samples(rng):
    return [Sample(normal(rng, *source[0]), source=source, target=target) for target, source in [
        (((3,), (1,), 0), ((2, 2), (1, 1), 0)), (((2, 2), (2, 1), 3), ((3,), (3,), 1)),
        (((2,), (0,), 2), ((2, 2), (0, 2), 0)), (((), (), 1), ((3,), (1,), 0)), (((3,), (1,), 0), ((), (), 7)),
        (((3,), (1,), 0), ((0,), (1,), 0)), (((3,), (-1,), 2), ((3,), (1,), 0)),
    ]]  # fmt: skip


def places(size, stride, offset):
    result = np.full(size, offset)
    for d, s in enumerate(stride):
        result = result + (np.arange(size[d]) * s).reshape((-1,) + (1,) * (len(size) - 1 - d))
    return result


def restride(x, source, target):
    buffer = np.zeros(32, x.dtype)
    np.add.at(buffer, places(*source), x)
    return buffer[places(*target)]


def their_restride(torch, x, source, target):
    flat = torch.from_numpy(places(*source)).reshape(-1)
    buffer = torch.zeros(32, dtype=x.dtype).index_add(0, flat, x.reshape(-1))
    return buffer[torch.from_numpy(places(*target))]


def erase_samples(rng):
    return [Sample(normal(rng, *source[0]), source=source, target=target) for source, target in [
        (((2, 3), (3, 1), 0), ((2,), (3,), 1)), (((2, 3), (1, 2), 0), ((2, 2), (1, 2), 0)),
        (((3,), (1,), 0), ((), (), 1)),
        (((3,), (2,), 0), ((2,), (2,), 2)), (((3,), (-1,), 0), ((2,), (-1,), 0)), (((2,), (1,), 0), ((0,), (1,), 0)),
        (((0, 2), (2, 1), 0), ((0,), (2,), 0)), (((), (), 0), ((1,), (1,), 0)),
    ]]  # fmt: skip


def erase(x, source, target):
    return np.where(np.isin(places(*source), places(*target)), 0, x)


def their_erase(torch, x, source, target):
    return x.masked_fill(torch.from_numpy(np.isin(places(*source), places(*target))), 0)


ROWS = [
    Row("strided_view", reference=lambda x, place, origin: strided(x, place),
        samples=over(*[(shape, {"place": place, "origin": origin}) for shape, place, origin in PLACES]),
        torch=lambda torch, x, place, origin: torch.as_strided(x, *place),
        skip={"layouts": "it shows the storage, whatever lies there"},
        errors=[Error("reach", lambda op, x: op(x(3), ((2,), (3,), 0), ((1,), 0)), RuntimeError,
                      "reach element 3 of a storage of 3")]),
    Row("restride", samples=restride_samples, reference=restride, torch=their_restride,
        tol={"float16": 1e-2, "bfloat16": 6e-2}),
    Row("erase", samples=erase_samples, reference=erase, torch=their_erase),
]
