"""Arrays and devices. This layer knows no Tensor; the rest of the package uses NumPy and CuPy through it."""

from __future__ import annotations

from .arrays.admission import admitted, is_read_only
from .arrays.device import CPU
from .arrays.host import few, many, read, seen_any, seen_ends, seen_none, seen_outside
from .arrays.memory_format import empty_like
from .arrays.namespace import (
    Array,
    constant,
    constants,
    decompositions,
    empty,
    is_array,
    is_cuda,
    limited,
    make,
    namespace,
    namespace_on,
    special,
    where,
)
from .arrays.placement import device_of, resolve, to_device, to_numpy
from .arrays.products import add_matmul, dot, matmul
from .arrays.reductions import inner, reduce, sum_of_squares, sum_to, total, truth
from .arrays.scans import accumulate
from .arrays.strides import broadcast_to, may_share_memory
from .cpu import floating_point

__all__ = [
    "CPU", "Array", "accumulate", "add_matmul", "admitted", "broadcast_to", "constant", "constants", "decompositions",
    "device_of", "dot", "empty", "empty_like", "few", "inner", "is_array", "is_cuda", "is_read_only", "limited", "make",
    "many", "matmul", "may_share_memory", "namespace", "namespace_on", "read", "reduce", "resolve", "seen_any",
    "seen_ends", "seen_none", "seen_outside", "special", "sum_of_squares", "sum_to", "to_device", "to_numpy", "total",
    "truth", "where",
]  # fmt: skip

floating_point.hide_warnings()
