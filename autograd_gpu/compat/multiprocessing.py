"""Python's multiprocessing, by PyTorch's name: tensors go to other processes as copies, not as shared memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from multiprocessing import *  # noqa: F403
from multiprocessing import get_context
from typing import Any

from ..distributed.launcher import launched
from ..missing_names import getattr_of

__getattr__ = getattr_of(__name__)


def spawn(
    fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
    start_method: str = "spawn",
) -> list[Any] | None:  # fmt: skip
    """Runs fn(i, *args) in `nprocs` new processes, i = 0, 1, ...; without `join` returns the processes.

    RuntimeError if a process fails; the others are ended then. A program that mpiexec has started in `nprocs` processes
    runs fn(rank, *args) in this one, so that programs which start their ranks so find their group.
    """
    if (names := launched()) is not None:
        rank, size = (int(os.environ[name]) for name in names[:2])
        if nprocs != size:
            raise RuntimeError(f"multiprocessing.spawn: mpiexec has started {size} processes, and the program asks for "
                               f"{nprocs}; start it by mpiexec -n {nprocs}")
        fn(rank, *args)
        return None
    context: Any = get_context(start_method)
    processes = [context.Process(target=fn, args=(i, *args), daemon=daemon) for i in range(nprocs)]
    for process in processes:
        process.start()
    if not join:
        return processes
    for i, process in enumerate(processes):
        process.join()
        if process.exitcode:
            for other in processes:
                other.terminate()
            raise RuntimeError(f"multiprocessing.spawn: process {i} ended with exit code {process.exitcode}; its error "
                               "is on stderr")
    return None


def get_sharing_strategy() -> str:
    """"copy": tensors are copied between processes."""
    return "copy"


def set_sharing_strategy(new_strategy: str) -> None:
    """Has no effect: tensors are copied between processes."""


def get_all_sharing_strategies() -> set[str]:
    """{"copy"}."""
    return {"copy"}
