"""Device memory: bytes in use, peaks, bytes held by the pool, limits."""

from __future__ import annotations

import warnings
from typing import Any

from ..backend.cuda import memory_stats as pool_stats
from ..backend.cuda import runtime
from ..backend.transfer import copy_engine, pinned_memory

MIB = 2**20


class OutOfMemoryError(MemoryError):
    """The class of `ag.cuda.OutOfMemoryError` if CuPy is not installed; never raised."""


def out_of_memory_error() -> type[MemoryError]:
    """CuPy's exception class; without CuPy the class above."""
    try:
        return runtime.cupy().cuda.memory.OutOfMemoryError
    except ImportError:
        return OutOfMemoryError


def _used(device: Any) -> tuple[int, int]:
    """Bytes in use and bytes held by the pool on `device`; zeros without CUDA."""
    if runtime.loaded() is None or not runtime.is_available():
        return 0, 0
    with runtime.cupy_device(device):
        return pool_stats.in_use(pool_stats.pool())


def _peaks(device: Any) -> tuple[int, int]:
    """The peak bytes in use and held on `device` since the last reset; starts the tracking if needed."""
    if not runtime.is_available():
        return 0, 0
    on_device = runtime.cupy_device(device)
    tracker, new = pool_stats.watch()
    with on_device:
        if new and pool_stats.in_use(tracker.pool)[1]:
            warnings.warn(
                "peaks are recorded only from now on, and CUDA memory has been allocated before; call "
                "ag.cuda.reset_peak_memory_stats() before the work to be measured",
                stacklevel=3,
            )
        tracker.look(on_device.id)
    return tracker.used[on_device.id], tracker.held[on_device.id]


def memory_allocated(device: Any = None) -> int:
    """Bytes that arrays on `device` (default: the current one) occupy, each rounded up to 512; 0 without CUDA.

    Counts all arrays of CuPy's memory pool and of the pools of CUDA graphs, of all threads and streams. Freed arrays
    are not counted, although queued work may still use them. RuntimeError if CuPy's allocator is not a pool.

    >>> before = ag.cuda.memory_allocated()
    """
    return _used(device)[0]


def memory_reserved(device: Any = None) -> int:
    """Bytes that CuPy's pool holds on `device` (default: the current one), in use or kept for reuse; 0 without CUDA.

    Includes the pools of CUDA graphs.

    >>> ag.cuda.memory_reserved() >= ag.cuda.memory_allocated()
    True
    """
    return _used(device)[1]


def max_memory_allocated(device: Any = None) -> int:
    """The peak bytes in use on `device` since `reset_peak_memory_stats`; 0 without CUDA.

    Peaks are recorded from the first call of that function or of this one, which warns if memory was allocated before;
    from then on each allocation makes one more Python call. Counts allocations of all threads, but not those of
    another allocator, as in `with cupy.cuda.using_allocator(...)`.

    >>> ag.cuda.reset_peak_memory_stats()
    >>> x = ag.ones(1000)
    >>> ag.cuda.max_memory_allocated() >= x.nbytes or x.device.type == "cpu"
    True
    """
    return _peaks(device)[0]


def max_memory_reserved(device: Any = None) -> int:
    """The peak bytes held by CuPy's pool on `device` since `reset_peak_memory_stats`; 0 without CUDA.

    >>> ag.cuda.reset_peak_memory_stats()
    >>> ag.cuda.max_memory_reserved() >= ag.cuda.max_memory_allocated()
    True
    """
    return _peaks(device)[1]


def reset_peak_memory_stats(device: Any = None) -> None:
    """Resets both peaks of `device` (default: the current one) to the current values; does nothing without CUDA.

    The first call starts the recording of peaks for the whole process: see `max_memory_allocated`.

    >>> ag.cuda.reset_peak_memory_stats()
    >>> ag.cuda.max_memory_allocated() == ag.cuda.memory_allocated()
    True
    """
    if runtime.is_available():
        on_device = runtime.cupy_device(device)
        tracker, _ = pool_stats.watch()
        with on_device:
            tracker.reset(on_device.id)


def empty_cache(device: Any = None) -> None:
    """Frees unused memory of CuPy's pool on `device` (default: the current one); does nothing without CUDA.

    Pools of CUDA graphs, which use it at their replays, keep theirs. Also frees unused page-locked host memory of
    `ag.hooks.offload`. Other processes can then use the memory; this one gains none, since CuPy does the same before it
    raises OutOfMemoryError.

    >>> ag.cuda.empty_cache()
    """
    if runtime.loaded() is not None and runtime.is_available():
        copy_engine.settle(runtime.device_index(device))
        with runtime.cupy_device(device):
            pool_stats.pool().free_all_blocks()
        pinned_memory.release()


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free and total bytes of `device` (default: the current one), as reported by the driver for all processes.

    >>> if ag.cuda.is_available():
    ...     free, total = ag.cuda.mem_get_info()
    ...     assert 0 <= free <= total
    """
    free, total = runtime.cupy_device(device).mem_info
    return free, total


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Limits CuPy's pool on `device` (default: the current one) to a fraction of its memory, 0 to 1.

    An allocation beyond it raises `ag.cuda.OutOfMemoryError`. ValueError for a fraction outside [0, 1].

    >>> if ag.cuda.is_available():
    ...     ag.cuda.set_per_process_memory_fraction(1.0)
    """
    if not 0 <= fraction <= 1:
        raise ValueError(f"set_per_process_memory_fraction: fraction must be between 0 and 1, got {fraction!r}")
    _, total = mem_get_info(device)
    with runtime.cupy_device(device):
        pool_stats.pool().set_limit(size=max(1, int(fraction * total)))  # CuPy takes 0 for no limit


def get_per_process_memory_fraction(device: Any = None) -> float:
    """The fraction of the memory of `device` (default: the current one) for CuPy's pool; 1.0 without a limit.

    >>> if ag.cuda.is_available():
    ...     assert 0 <= ag.cuda.get_per_process_memory_fraction() <= 1
    """
    _, total = mem_get_info(device)
    with runtime.cupy_device(device):
        limit = pool_stats.pool().get_limit()
    return limit / total if limit else 1.0


def memory_stats(device: Any = None) -> dict[str, int]:
    """The memory statistics of `device` in bytes, by PyTorch's keys; includes peaks once they are recorded.

    >>> sorted(ag.cuda.memory_stats())[0]
    'allocated_bytes.all.current'
    """
    used, held = _used(device)
    stats = {"allocated_bytes.all.current": used, "reserved_bytes.all.current": held}
    if runtime.loaded() is not None and runtime.is_available() and pool_stats.watching():
        stats["allocated_bytes.all.peak"], stats["reserved_bytes.all.peak"] = _peaks(device)
    return stats


def memory_summary(device: Any = None) -> str:
    """A printable table of `memory_stats` and `mem_get_info`.

    >>> if ag.cuda.is_available():
    ...     table = ag.cuda.memory_summary()
    """
    index = runtime.device_index(device)
    free, total = mem_get_info(index)
    stats = memory_stats(index)
    rows = [f"{f'CUDA memory of cuda:{index}, MiB':<32}{'now':>12}{'peak':>12}"]
    for title, key in (("in use by arrays", "allocated_bytes"), ("held by CuPy's pool", "reserved_bytes")):
        now, peak = stats[f"{key}.all.current"], stats.get(f"{key}.all.peak")
        rows.append(f"{title:<32}{now / MIB:>12.1f}{'not recorded' if peak is None else f'{peak / MIB:.1f}':>12}")
    rows.append(f"{'free on the device':<32}{free / MIB:>12.1f}")
    rows.append(f"{'size of the device':<32}{total / MIB:>12.1f}")
    return "\n".join(rows)


# PyTorch's older names. `reset_max_memory_allocated` resets all peaks, in PyTorch, too.
memory_cached, max_memory_cached = memory_reserved, max_memory_reserved
reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats
