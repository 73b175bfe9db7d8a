"""Elements of given ranks of NumPy and CuPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..cpu import numpy_ops
from .namespace import where


def order_up_to(xp: Any, x: Any, ranks: Any) -> Any:
    """Indices along the last dimension, right at `ranks`: NumPy sorts long rows in part only, as CuPy never does."""
    return x.argsort(-1) if xp is not np or x.shape[-1] <= numpy_ops.FEW else x.argpartition(ranks, -1)


def or_nan(xp: Any, x: Any, values: Any) -> Any:
    """NaN where the last dimension of x has one, else `values`."""
    if xp is np and x.ndim == 1:
        top = x[x.argmax()]
        return top if top != top else values
    top = x.max(-1)
    return where(xp, xp.isnan(top), top, values)
