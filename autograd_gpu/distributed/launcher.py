"""What the launcher, `mpiexec` or `srun`, says of this process in its environment; sets PyTorch's variables by it."""

from __future__ import annotations

import os

# By launcher: the variables of the rank, the number of ranks, and the rank and their number on this machine.
_VARIABLES = (
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),  # MPICH, Intel MPI
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("PMIX_RANK", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"),
)


def launched() -> tuple[str, ...] | None:
    """The names of the launcher's variables; None for a process that was started by itself."""
    return next((names for names in _VARIABLES if names[0] in os.environ and names[1] in os.environ), None)


def set_environment() -> None:
    """Sets RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE, which programs written for torchrun read."""
    names = launched()
    for ours, theirs in zip(("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"), names or (), strict=False):
        if theirs in os.environ:
            os.environ[ours] = os.environ[theirs]
