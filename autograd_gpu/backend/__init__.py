"""Arrays and devices. This layer knows no Tensor; the rest of the package uses NumPy and CuPy through it."""

from __future__ import annotations

from .arrays.admission import admitted, is_read_only
from .arrays.device import CPU
from .arrays.namespace import (
    Array,
    constant,
    decompositions,
    empty,
    is_array,
    is_cuda,
    make,
    namespace,
    namespace_on,
    special,
    where,
)
from .arrays.placement import device_of, resolve, to_device, to_numpy
from .arrays.products import add_matmul, dot, matmul
from .arrays.reductions import sum_to, total
from .arrays.strides import broadcast_to, may_share_memory
from .cpu import floating_point

__all__ = [
    "CPU", "Array", "add_matmul", "admitted", "broadcast_to", "constant", "decompositions", "device_of", "dot", "empty",
    "is_array", "is_cuda", "is_read_only", "make", "matmul", "may_share_memory", "namespace", "namespace_on", "resolve",
    "special", "sum_to", "to_device", "to_numpy", "total", "where",
]  # fmt: skip

floating_point.hide_warnings()
