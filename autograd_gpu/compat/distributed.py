"""`torch.distributed` of a PyTorch without it: `is_available()` is False, and there is no process group."""

from __future__ import annotations

from typing import Any, NoReturn

from ..missing_names import getattr_of

__getattr__ = getattr_of(__name__)
__path__: list[str] = []  # its modules are placeholders


def is_available() -> bool:
    """False: a program runs in one process.

    >>> ag.distributed.is_available() and ag.distributed.is_initialized()
    False
    """
    return False


is_initialized = is_torchelastic_launched = is_gloo_available = is_mpi_available = is_nccl_available = is_available


def _no_group(group: Any = None) -> NoReturn:
    raise ValueError("Default process group has not been initialized: a program runs in one process here; ask "
                     "distributed.is_initialized() first")


get_rank = get_world_size = get_backend = _no_group

__all__ = ["get_backend", "get_rank", "get_world_size", "is_available", "is_initialized"]
