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
    """Arrays of a device in page-locked host memory, from `min_bytes` on."""

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
    """Whether the tensor is not in host memory already."""
    return tensor.is_cuda


class offload(MemoryHook):
    """Keeps saved tensors of a CUDA device in page-locked host memory, by copies beside the computation.

    Tensors below `min_bytes`, and those on the CPU, stay where they are: on the CPU this does nothing. Parameters and
    other leaves do so unless skip_parameters=False: their memory is in use anyway. Backward starts the copies back
    `prefetch` nodes before they are needed; as many copies to the host may be under way before the forward waits for
    one of them, so a larger `prefetch` takes more memory on the device and less time. `slab_bytes` of host memory are
    page-locked at the first use, shared by all hooks of that number, and stay so until `ag.cuda.empty_cache()`; what
    does not fit is copied to ordinary memory, of which backward warns once, and says how many bytes to ask for.
    MemoryError if the system does not page-lock so much; ValueError for a negative number.

    A write to a saved tensor waits for its copy; writes to `tensor.array` and `tensor.data` are not seen, and must not
    come before backward has run. Not while the stream is captured in a CUDA graph: RuntimeError.

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
        given = {"prefetch": prefetch, "min_bytes": min_bytes, "slab_bytes": slab_bytes}
        for name, value in given.items():
            check_count("offload", name, value)
        conditions: list[Condition] = [on_device]
        if skip_parameters:
            conditions.append(no_leaf)
        super().__init__((Stage(Offloader(prefetch, min_bytes, slab_bytes), tuple(conditions)),))
