"""What compilers make, kept on disk: made once on a machine, however many processes want it at the same time."""

import fcntl
import os
import tempfile
from collections.abc import Callable
from pathlib import Path


def folder() -> Path:
    """Where it is kept: $AUTOGRAD_GPU_EMU_CACHE, or a folder in the user's cache."""
    if named := os.environ.get("AUTOGRAD_GPU_EMU_CACHE"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "autograd_gpu" / "cuda_emu"


def kept(name: str, make: Callable[[Path], Path], wait: bool = True) -> Path | None:
    """The file `name` of the cache. If it is missing, make(scratch folder) makes it, in one process at a time.

    Without `wait` the answer is None while another process makes it.
    """
    path = folder() / name
    if path.exists():
        return path
    folder().mkdir(parents=True, exist_ok=True)
    lock = folder() / f"{name}.lock"
    with lock.open("w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return None
        try:
            if not path.exists():
                with tempfile.TemporaryDirectory(dir=folder()) as scratch:
                    os.replace(make(Path(scratch)), path)  # at once: others look for it without the lock
        finally:
            lock.unlink(missing_ok=True)  # who waits for it finds the file there, or makes it for itself
    return path
