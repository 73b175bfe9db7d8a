"""Conversion of arrays and PyTorch tensors in state dicts."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend import is_array
from ..backend.arrays.dtypes import bfloat16
from ..core.tensor import Tensor
from ..ops.creation.from_data import as_tensor


def as_own(value: Any) -> Any:
    """A copy of an array or a PyTorch tensor as a Tensor; any other value unchanged."""
    if isinstance(value, Tensor):
        return value
    if is_array(value):
        return as_tensor(value.copy())
    if not hasattr(value, "detach"):
        return value
    host = value.detach().cpu()
    if "bfloat16" in str(host.dtype):  # unknown to NumPy
        return as_tensor(np.asarray(host.float())).to(bfloat16)
    return as_tensor(np.asarray(host).copy())
