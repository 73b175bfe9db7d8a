"""PyTorch's names of tensor types, such as "torch.cuda.FloatTensor": a dtype and a device in one name."""

from __future__ import annotations

import warnings
from typing import Any

from . import dtypes
from .device import set_default_device

TYPE_NAMES = {
    dtypes.float16: "HalfTensor", dtypes.bfloat16: "BFloat16Tensor", dtypes.float32: "FloatTensor",
    dtypes.float64: "DoubleTensor", dtypes.uint8: "ByteTensor", dtypes.int8: "CharTensor",
    dtypes.int16: "ShortTensor", dtypes.int32: "IntTensor", dtypes.int64: "LongTensor", dtypes.bool_: "BoolTensor",
}  # fmt: skip
_DTYPES = {name: dtype for dtype, name in TYPE_NAMES.items()} | {"Tensor": dtypes.float32}


def set_default_tensor_type(t: Any) -> None:
    """Sets the default dtype and device by PyTorch's name of a tensor type, or the default dtype by a dtype.

    Deprecated in PyTorch, so it warns as PyTorch does; use `ag.set_default_dtype` and `ag.set_default_device`.
    TypeError for anything but a floating-point type.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", UserWarning)
    ...     ag.set_default_tensor_type("torch.FloatTensor")
    """
    warnings.warn("set_default_tensor_type() is deprecated, as in PyTorch; use set_default_dtype() and "
                  "set_default_device()", UserWarning, stacklevel=2)
    kind, dtype = "", t
    if isinstance(t, str):
        kind, _, name = t.removeprefix("torch.").rpartition(".")
        dtype = _DTYPES.get(name)
    if dtype is None or kind not in ("", "cuda") or dtypes.as_dtype(dtype) not in dtypes.FLOATS:
        raise TypeError("only floating-point types are supported as the default type, by their names, "
                        f"'torch.DoubleTensor' or 'torch.cuda.FloatTensor'; got {t!r}")
    dtypes.set_default_dtype(dtype)
    if isinstance(t, str):
        set_default_device(kind or "cpu")
