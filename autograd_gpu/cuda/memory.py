"""How much device memory is in use, was in use at most, is kept for reuse, may be used."""

from __future__ import annotations

import warnings
from typing import Any

from ..backend.cuda import memory_stats as pools
from ..backend.cuda import runtime
from ..backend.transfer import copy_engine, pinned_memory

MIB = 2**20


class OutOfMemoryError(MemoryError):
    """What `except ag.cuda.OutOfMemoryError` names where CuPy is not installed, so that such a clause is harmless."""


def out_of_memory_error() -> type[MemoryError]:
    """CuPy's own exception class, which it raises; the one above without CuPy."""
    try:
        return runtime.cupy().cuda.memory.OutOfMemoryError
    except ImportError:
        return OutOfMemoryError


def _used(device: Any) -> tuple[int, int]:
    """Bytes in use and bytes held by the pool on `device`; zeros where nothing can have been allocated."""
    if runtime.loaded() is None or not runtime.is_available():
        return 0, 0
    with runtime.cupy_device(device):
        pool = pools.pool()
        return pool.used_bytes(), pool.total_bytes()


def _peaks(device: Any) -> tuple[int, int]:
    """The most bytes in use and held on `device` since the watch began or was reset; begins it if need be."""
    if not runtime.is_available():
        return 0, 0
    on_device = runtime.cupy_device(device)
    watch, new = pools.watch()
    with on_device:
        if new and watch.pool.total_bytes():
            warnings.warn(
                "peaks are noted only from now on, and CUDA memory has been allocated before; call "
                "ag.cuda.reset_peak_memory_stats() in front of the work to be measured",
                stacklevel=3,
            )
        watch.look(on_device.id)
    return watch.used[on_device.id], watch.held[on_device.id]


def memory_allocated(device: Any = None) -> int:
    """Bytes that arrays on `device` (default: the current one) occupy, each rounded up to 512; 0 without CUDA.

    Counts all arrays of CuPy's memory pool, tensors or not, on all threads and streams; an array that is freed counts
    no longer, although work that uses it may still be queued. RuntimeError if CuPy's allocator is not a pool.

    >>> before = ag.cuda.memory_allocated()
    """
    return _used(device)[0]


def memory_reserved(device: Any = None) -> int:
    """Bytes that CuPy's pool holds on `device` (default: the current one), in use or kept for reuse; 0 without CUDA.

    >>> ag.cuda.memory_reserved() >= ag.cuda.memory_allocated()
    True
    """
    return _used(device)[1]


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes in use at once on `device` since `reset_peak_memory_stats`; 0 without CUDA.

    Peaks are noted from the first call of that function, or of this one, which warns if memory was allocated before.
    From then on each allocation costs one Python call more, until then nothing. Allocations and frees on all threads
    count; memory from a pool of its own, as in `with cupy.cuda.using_allocator(...)`, does not.

    >>> ag.cuda.reset_peak_memory_stats()
    >>> x = ag.ones(1000)
    >>> ag.cuda.max_memory_allocated() >= x.nbytes or x.device.type == "cpu"
    True
    """
    return _peaks(device)[0]


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes that CuPy's pool held on `device` since `reset_peak_memory_stats`; 0 without CUDA.

    >>> ag.cuda.reset_peak_memory_stats()
    >>> ag.cuda.max_memory_reserved() >= ag.cuda.max_memory_allocated()
    True
    """
    return _peaks(device)[1]


def reset_peak_memory_stats(device: Any = None) -> None:
    """Starts both peaks of `device` (default: the current one) anew, from what is in use now; nothing without CUDA.

    The first call starts the noting of peaks in the whole process: see `max_memory_allocated`.

    >>> ag.cuda.reset_peak_memory_stats()
    >>> ag.cuda.max_memory_allocated() == ag.cuda.memory_allocated()
    True
    """
    if runtime.is_available():
        on_device = runtime.cupy_device(device)
        watch, _ = pools.watch()
        with on_device:
            watch.reset(on_device.id)


def empty_cache(device: Any = None) -> None:
    """Gives memory that CuPy's pool keeps for reuse on `device` (default: the current one) back; nothing without CUDA.

    So, too, page-locked host memory of `ag.hooks.offload` in which nothing is kept. Arrays keep theirs. Other processes
    can then use it; this one does not get more by it, since CuPy does the same before it reports that memory is out.

    >>> ag.cuda.empty_cache()
    """
    if runtime.loaded() is not None and runtime.is_available():
        copy_engine.settle(runtime.device_index(device))
        with runtime.cupy_device(device):
            pools.pool().free_all_blocks()
        pinned_memory.release()


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free and total bytes of `device` (default: the current one) as the driver sees them, all processes included.

    >>> if ag.cuda.is_available():
    ...     free, total = ag.cuda.mem_get_info()
    ...     assert 0 <= free <= total
    """
    free, total = runtime.cupy_device(device).mem_info
    return free, total


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Limits CuPy's pool on `device` (default: the current one) to a part of its memory, 0 to 1.

    An allocation that would go beyond raises `ag.cuda.OutOfMemoryError`. ValueError for another fraction.

    >>> if ag.cuda.is_available():
    ...     ag.cuda.set_per_process_memory_fraction(1.0)
    """
    if not 0 <= fraction <= 1:
        raise ValueError(f"set_per_process_memory_fraction: fraction must be between 0 and 1, got {fraction!r}")
    _, total = mem_get_info(device)
    with runtime.cupy_device(device):
        pools.pool().set_limit(size=max(1, int(fraction * total)))  # a limit of 0 would be none at all to CuPy


def get_per_process_memory_fraction(device: Any = None) -> float:
    """The part of the memory of `device` (default: the current one) that CuPy's pool may take; 1.0 without a limit.

    >>> if ag.cuda.is_available():
    ...     assert 0 <= ag.cuda.get_per_process_memory_fraction() <= 1
    """
    _, total = mem_get_info(device)
    with runtime.cupy_device(device):
        limit = pools.pool().get_limit()
    return limit / total if limit else 1.0


def memory_stats(device: Any = None) -> dict[str, int]:
    """The counts of `device` in bytes under PyTorch's keys; the peaks are there once they are noted.

    >>> sorted(ag.cuda.memory_stats())[0]
    'allocated_bytes.all.current'
    """
    used, held = _used(device)
    stats = {"allocated_bytes.all.current": used, "reserved_bytes.all.current": held}
    if runtime.loaded() is not None and runtime.is_available() and pools.watching():
        stats["allocated_bytes.all.peak"], stats["reserved_bytes.all.peak"] = _peaks(device)
    return stats


def memory_summary(device: Any = None) -> str:
    """A small table of `memory_stats` and `mem_get_info`, to print.

    >>> if ag.cuda.is_available():
    ...     table = ag.cuda.memory_summary()
    """
    index = runtime.device_index(device)
    free, total = mem_get_info(index)
    stats = memory_stats(index)
    rows = [f"{f'CUDA memory of cuda:{index}, MiB':<32}{'now':>12}{'peak':>12}"]
    for title, key in (("in use by arrays", "allocated_bytes"), ("held by CuPy's pool", "reserved_bytes")):
        now, peak = stats[f"{key}.all.current"], stats.get(f"{key}.all.peak")
        rows.append(f"{title:<32}{now / MIB:>12.1f}{'not noted' if peak is None else f'{peak / MIB:.1f}':>12}")
    rows.append(f"{'free on the device':<32}{free / MIB:>12.1f}")
    rows.append(f"{'size of the device':<32}{total / MIB:>12.1f}")
    return "\n".join(rows)
