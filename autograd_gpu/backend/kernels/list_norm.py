"""Gradient clipping: the norm of all elements of a list of arrays, and scaling to a maximum norm."""

from __future__ import annotations

import math

from ..arrays.dtypes import int32, wide
from ..cuda import runtime
from .array_lists import TensorLists, lists_parameter
from .constants import THREADS
from .instances import C_NAMES, Parameter, declare
from .launcher import Array, launch

_NORMS = {1.0: "L1", 2.0: "L2", math.inf: "Largest"}
ORDERS = tuple(_NORMS)


def _declare() -> None:
    lists = lists_parameter(1)
    for dtype, name in C_NAMES.items():
        sums = Parameter("partials", "write", wide(dtype))
        limits = Parameter("norm", "read", wide(dtype)), Parameter("max_norm", "scalar", wide(dtype))
        declare(f"limit_norm<{name}>", "list_norm.cu", "limit_norm", (lists, *limits), name)
        for norm in _NORMS.values():
            declare(f"list_norm<{norm}, {name}>", "list_norm.cu", "list_norm", (lists, sums), name)
            if wide(dtype) == dtype:
                partials, out = Parameter("partials", "read", dtype), Parameter("out", "write", dtype)
                declare(f"list_norm_total<{norm}, {name}>", "list_norm.cu", "list_norm_total",
                        (partials, out, Parameter("count", "scalar", int32)), name)  # fmt: skip


_declare()


def list_norm(lists: TensorLists, order: float = 2.0) -> Array:
    """The norm of order 1, 2 or inf of all elements of one list together, ().

    Half types are summed in float32, the dtype of the result. Bitwise reproducible: the order of the additions depends
    on sizes, dtype and alignment only. ValueError for another order.
    """
    if order not in _NORMS:
        raise ValueError(f"list_norm: there are kernels for norms of order {', '.join(map(str, _NORMS))}, not {order}")
    dtype, count, begin = wide(lists.dtype), sum([part.shape[0][0] for part in lists.parts]), 0
    partials, out = runtime.cupy().empty((count,), dtype), runtime.cupy().empty((), dtype)
    for shape, packed in lists.parts:
        launch(f"list_norm<{_NORMS[order]}, {C_NAMES[lists.dtype]}>", shape, packed, partials[begin:])
        begin += shape[0][0]
    launch(f"list_norm_total<{_NORMS[order]}, {C_NAMES[dtype]}>", ((1, 1), (THREADS, 1)), partials, out, count)
    return out


def limit_norm(lists: TensorLists, norm: Array, max_norm: float) -> None:
    """Scales the arrays of one list in place by max_norm / (norm + 1e-6) if that is below 1 or NaN.

    `norm`, in the accumulation dtype, is read on the device.
    """
    lists.launch(f"limit_norm<{C_NAMES[lists.dtype]}>", norm, max_norm)
