"""How long collectives take on many GPUs: a model of rings and trees.

A message takes a latency, and its bytes over a rate. Eight GPUs of a machine are joined by NVLink, and each has a
network adapter of its own: an all-reduce is a reduce-scatter in each machine, an all-reduce of the parts between
machines, and an all-gather in each.
"""

from __future__ import annotations

import math
from typing import NamedTuple

GPUS_OF_A_MACHINE = 8


class Link(NamedTuple):
    """Between two processes: seconds before the first byte, and bytes per second in one direction."""

    latency: float
    rate: float


# Rates by the vendor: NVLink of an H100 or H200, 900 GB/s in both directions together; InfiniBand NDR, 400 Gbit/s for
# each GPU. The latencies are assumed. None was measured on a GPU of ours.
NVLINK = Link(5e-6, 450e9)
NETWORK = Link(10e-6, 50e9)


def ring(size: float, ranks: int, link: Link) -> float:
    """Seconds of an all-reduce that sends the fewest bytes."""
    return 2 * (ranks - 1) * (link.latency + size / ranks / link.rate)


def tree(size: float, ranks: int, link: Link) -> float:
    """Seconds of an all-reduce in the fewest steps."""
    return 2 * math.ceil(math.log2(ranks)) * link.latency + 2 * size / link.rate


def shortest(size: float, ranks: int, link: Link) -> float:
    """Seconds of the better one of the two."""
    return min(ring(size, ranks, link), tree(size, ranks, link)) if ranks > 1 else 0.0


def all_reduce(size: float, gpus: int) -> float:
    """Seconds of an all-reduce of `size` bytes."""
    inside = min(gpus, GPUS_OF_A_MACHINE)
    if gpus == inside:
        return shortest(size, gpus, NVLINK)
    return ring(size, inside, NVLINK) + shortest(size / inside, gpus // inside, NETWORK)


def all_gather(size: float, gpus: int) -> float:
    """Seconds of an all-gather whose result has `size` bytes: half of what an all-reduce does."""
    return all_reduce(size, gpus) / 2


def fitted(times: dict[int, float]) -> Link:
    """The link between two ranks, from the seconds of all-reduces by their bytes: by the smallest and the largest."""
    small, large = min(times), max(times)
    latency = times[small] / 2
    return Link(latency, large / (times[large] - 2 * latency))
