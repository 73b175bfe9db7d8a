"""How a tensor prints: as in PyTorch, by NumPy's formatting."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..backend import dtypes

if TYPE_CHECKING:
    from .tensor import Tensor

_IMPLIED = (dtypes.int64, dtypes.bool_)  # not printed, like the default float dtype


def tensor_repr(tensor: Tensor) -> str:
    values = tensor.numpy(force=True)
    if values.dtype in dtypes.STORAGE or values.dtype == dtypes.bfloat16:
        values = values.astype(np.float32)
    text = np.array2string(values, separator=", ", prefix="tensor(", precision=4, suppress_small=_moderate(values))
    notes = []
    if tensor.numel() == 0 and tensor.shape != (0,):
        notes.append(f"size={tensor.shape}")
    if tensor.is_cuda:
        notes.append(f"device='{tensor.device}'")
    if tensor.dtype not in (*_IMPLIED, dtypes.get_default_dtype()):
        notes.append(f"dtype={tensor.dtype}")
    if tensor.grad_fn is not None:
        notes.append(f"grad_fn=<{tensor.grad_fn.name()}>")
    elif tensor.requires_grad:
        notes.append("requires_grad=True")
    joint = ", ".join([text, *notes])
    name = "tensor" if type(tensor).__name__ != "Parameter" else "Parameter containing:\ntensor"
    return f"{name}({joint})"


def _moderate(values: np.ndarray) -> bool:
    """Whether fixed-point notation loses nothing a reader would miss."""
    if values.dtype.kind != "f" or values.size == 0:
        return True
    magnitudes = np.abs(values[np.isfinite(values) & (values != 0)].astype(np.float64))  # 1e8 overflows float16
    return magnitudes.size == 0 or bool(magnitudes.min() >= 1e-4 and magnitudes.max() < 1e8)
