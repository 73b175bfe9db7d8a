"""offload: saved tensors in host memory."""

from __future__ import annotations

from typing import Any

from ..autograd.graph import SaveInfo
from ..backend.transfer.offload import MIN_BYTES, Offloaded, pack
from ..backend.transfer.pinned_memory import DEFAULT_BYTES
from ..core.tensor import Tensor
from ..errors import check_count
from .base import MemoryHook
from .codec import Array, Codec, Condition, Stage
from .quantize import no_leaf


class Offloader(Codec):
    """Offloads arrays of at least `min_bytes` bytes to page-locked host memory."""

    def __init__(self, ahead: int, min_bytes: int, slab_bytes: int) -> None:
        self.ahead, self.min_bytes, self.slab_bytes = ahead, min_bytes, slab_bytes

    def takes(self, array: Array, info: SaveInfo) -> bool:
        return array.nbytes >= self.min_bytes

    def pack(self, array: Array) -> Offloaded:
        return pack(array, self.slab_bytes, self.ahead)

    def reader(self, handle: Offloaded) -> Any:
        return handle.source

    def unpack(self, handle: Offloaded) -> Array:
        return handle.unpack()

    def prefetch(self, handle: Offloaded) -> None:
        handle.prefetch()

    def forget(self, handle: Offloaded) -> None:
        handle.forget()


def on_device(tensor: Tensor, info: SaveInfo) -> bool:
    """Whether the tensor is on a CUDA device."""
    return tensor.is_cuda


class offload(MemoryHook):
    """Keeps saved tensors of CUDA devices in page-locked host memory; the copies overlap with computation.

    Tensors smaller than `min_bytes` and tensors on the CPU are not offloaded. Nor are parameters and other leaves
    unless skip_parameters=False, since their memory is in use anyway. Backward starts the copies to the device
    `prefetch` nodes before they are needed; the same number of copies to the host may be in flight before the forward
    waits, so a larger `prefetch` takes more device memory and less time. `slab_bytes` of host memory are page-locked at
    the first use, twice as much each time that they are full, up to eight times; they are shared by all hooks with that
    size, and freed by `ag.cuda.empty_cache()`. Tensors that do not fit are copied to pageable memory; backward then
    warns once with the size to use. MemoryError if the system cannot page-lock `slab_bytes`; ValueError for a negative
    number.

    A write to a saved tensor waits for its copy. Writes to `tensor.array` and `tensor.data` are not detected; do not
    write there before backward has run. In a CUDA graph the copies are recorded, in page-locked memory of the graph's
    own, up to eight times `slab_bytes`; forward and backward must be in the same graph, or share a pool. RuntimeError
    if that memory is full.

    >>> x = ag.ones(64, 64, requires_grad=True)
    >>> with ag.hooks.offload(min_bytes=1024) as hook:
    ...     y = (x * 2).exp().sum()
    >>> y.backward()
    >>> hook.bytes_held, hook.bytes_on_host
    (0, 0)
    """

    def __init__(
        self, prefetch: int = 2, min_bytes: int = MIN_BYTES, skip_parameters: bool = True,
        slab_bytes: int = DEFAULT_BYTES,
    ) -> None:  # fmt: skip
        counts = {"prefetch": prefetch, "min_bytes": min_bytes, "slab_bytes": slab_bytes}
        for name, value in counts.items():
            check_count("offload", name, value)
        conditions: list[Condition] = [on_device]
        if skip_parameters:
            conditions.append(no_leaf)
        super().__init__((Stage(Offloader(prefetch, min_bytes, slab_bytes), tuple(conditions)),))
