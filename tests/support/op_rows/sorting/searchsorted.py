"""Rows of ops/sorting/searchsorted.py."""

import numpy as np
from op_db import Row, Sample
from op_rows.elementwise.shared import few


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
    result = np.zeros(values.shape, dtype)
    for i in np.ndindex(rows.shape[:-1]):
        result[i] = np.searchsorted(rows[i], values[i], side)
    return result


def their_places(torch, rows, values, right, out_int32):
    return torch.searchsorted(rows, values, right=right, out_int32=out_int32)


ROWS = [
    Row("sorted_places", samples=place_samples, reference=places, torch=their_places, integers="auto"),
]  # fmt: skip
