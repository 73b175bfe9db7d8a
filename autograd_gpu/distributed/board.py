"""The board of a machine: what each rank on it does, for the program that names a rank which dies (death_watch.py)."""

from __future__ import annotations

import mmap
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from . import death_watch
from .death_watch import LINE


def _shared_memory() -> str:
    """The file of the memory that MPICH's ranks share on this machine, which a killed program leaves behind; or ""."""
    found = re.search(r"/dev/shm/mpich_shm_\w+", Path("/proc/self/maps").read_text())
    return found[0] if found else ""


class Board:
    """This rank's line on the board of its machine."""

    def __init__(self, comm: Any, mpi: Any) -> None:
        node = comm.Split_type(mpi.COMM_TYPE_SHARED)
        place, path = node.Get_rank(), None
        if place == 0:
            folder = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
            descriptor, path = tempfile.mkstemp(prefix="autograd_gpu.", dir=folder)
            os.ftruncate(descriptor, LINE * node.Get_size())
        path = node.bcast(path)
        if place != 0:
            descriptor = os.open(path, os.O_RDWR)
        self.memory, self.begin = mmap.mmap(descriptor, LINE * node.Get_size()), LINE * place
        self.who = f"rank {comm.Get_rank()} of {comm.Get_size()} (pid {os.getpid()})"
        self.write("has not begun a collective")
        pids = node.gather(os.getpid())
        if place == 0:
            os.unlink(path)
            command = [sys.executable, "-I", "-S", death_watch.__file__, _shared_memory(), *map(str, pids)]
            watching = subprocess.Popen(command, stdin=descriptor, stdout=subprocess.PIPE, start_new_session=True)
            assert watching.stdout is not None
            with watching.stdout as begun:  # a rank that died before the watch began would not be named
                begun.read(1)
        node.Barrier()
        os.close(descriptor)
        node.Free()

    def write(self, doing: str) -> None:
        """Writes what this rank does, for the case that it dies now."""
        text = f"{self.who} has died without a word, killed or by a crash; {doing}"
        self.memory[self.begin : self.begin + LINE] = text.encode()[:LINE].ljust(LINE, b"\0")

    def end(self) -> None:
        """Says that this rank ends by itself."""
        self.memory[self.begin : self.begin + 1] = b"-"
