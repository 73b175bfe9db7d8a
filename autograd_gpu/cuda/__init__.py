"""CUDA devices, streams, events and memory, with PyTorch's names over CuPy's objects.

The current device, current stream and memory pool are CuPy's, so changes by either library apply to both. A `device`
argument is a number, "cuda:1", an `ag.device` or a cupy.cuda.Device; None and "cuda" mean the current one. Without
CuPy, a driver or a GPU, `is_available` is False, `device_count` and byte counts are 0, `manual_seed`, `empty_cache` and
the like do nothing, and other functions raise an error that says what is missing and what to do.
"""

from typing import TYPE_CHECKING, Any

from ..backend.cuda.runtime import is_available
from ..backend.cuda.streams import Event, ExternalStream, Stream, current_stream, default_stream, set_stream, stream
from ..compilation import REPLAYS
from ..missing_names import getattr_of
from ..ops.creation.tensor_types import CUDA_TYPES
from .compiled_graphs import GraphedReplay
from .devices import (
    DeviceProperties,
    current_device,
    device,
    device_count,
    get_device_capability,
    get_device_name,
    get_device_properties,
    init,
    ipc_collect,
    is_bf16_supported,
    is_initialized,
    set_device,
    synchronize,
)
from .graphed_callables import make_graphed_callables
from .graphed_step import make_graphed_step
from .graphs import CUDAGraph, graph, graph_pool_handle, is_current_stream_capturing
from .memory import (
    empty_cache,
    get_per_process_memory_fraction,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_stats,
    memory_summary,
    out_of_memory_error,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from .monitor import clock_rate, memory_usage, power_draw, temperature, utilization
from .seeds import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)

if TYPE_CHECKING:
    from .memory import OutOfMemoryError
else:

    def __getattr__(name: str) -> Any:
        if name == "OutOfMemoryError":  # CuPy's class, imported at first use
            return out_of_memory_error()
        return _other(name)

    _other = getattr_of(__name__, amp="", nvtx="")


__all__ = [
    "CUDAGraph",
    "DeviceProperties",
    "Event",
    "ExternalStream",
    "OutOfMemoryError",
    "Stream",
    "amp",
    "clock_rate",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "empty_cache",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_per_process_memory_fraction",
    "get_rng_state",
    "get_rng_state_all",
    "graph",
    "graph_pool_handle",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "make_graphed_callables",
    "make_graphed_step",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "memory_usage",
    "nvtx",
    "power_draw",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "synchronize",
    "temperature",
    "utilization",
]
REPLAYS["reduce-overhead"] = GraphedReplay
globals().update(CUDA_TYPES)  # FloatTensor and the other old types
__all__ += list(CUDA_TYPES)


def __dir__() -> list[str]:
    return list(__all__)
