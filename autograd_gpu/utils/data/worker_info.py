"""What a worker process of a DataLoader knows about itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class WorkerInfo:
    """Where a worker process is: its number `id` of `num_workers`, its `seed`, and its copy of the dataset."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


class Here:
    """This process."""

    info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """In a worker process of a DataLoader: `id`, `num_workers`, `seed` and `dataset` of the worker; elsewhere None.

    >>> ag.utils.data.get_worker_info() is None
    True
    """
    return Here.info
