"""Tensors in page-locked host memory, from which copies to a device need not be waited for."""

from __future__ import annotations

from typing import Any

from ...backend import is_cuda
from ...backend.cuda import runtime
from ...backend.transfer import pinned_arrays
from ...core.extend import RECORD, Float8Tensor, Tensor, method, set_data, wrap, wrap_codes


@method()
def pin_memory(x: Tensor, device: Any = None) -> Tensor:
    """x in page-locked memory, or x itself if it lies there; `device` is ignored.

    `x.pin_memory().to("cuda", non_blocking=True)` does not wait for the copy. RuntimeError for a tensor on CUDA, and
    where CUDA is not available.
    """
    if x.is_cuda:
        raise RuntimeError(f"cannot pin '{x.type()}' only dense CPU tensors can be pinned")
    if not runtime.is_available():
        raise RuntimeError("Cannot access accelerator device when none is available: page-locked memory is CUDA's. "
                           "Leave pin_memory out on a machine without a GPU")
    array = pinned_arrays.pinned(x.array)
    if array is x.array:
        return x
    if isinstance(x, Float8Tensor):
        return wrap_codes(array, x.dtype)
    result: Tensor = RECORD.clone(x)
    set_data(result, wrap(array))
    return result


@method()
def is_pinned(x: Tensor, device: Any = None) -> bool:
    """Whether x lies in page-locked memory; `device` is ignored.

    >>> ag.ones(2).is_pinned()
    False
    """
    return not is_cuda(x.array) and pinned_arrays.is_pinned(x.array)
