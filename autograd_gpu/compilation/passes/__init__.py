"""Passes over the instructions of a trace: each returns nodes that do the same, and changes no bit of any result."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ..graph import Node, Trace, Value
from .algebra import algebra
from .common import common
from .constants import constants
from .dead import dead
from .facts import Facts
from .fuse import fused
from .group_sums import group_sums
from .losses import joined_losses
from .partition import recomputed
from .parts import on_host
from .relu_layers import relu_layers
from .unpacking import unpacking

LOGGER = logging.getLogger("autograd_gpu.compilation")
PASSES = (constants, common, algebra, common, unpacking)


def simplify(trace: Trace) -> None:
    """Runs the passes on a trace; the log shows the instructions before and after each at level DEBUG."""
    show("traced", trace)
    for run in PASSES:
        trace.nodes = run(trace)
        show(run.__name__, trace)


def fewer_launches(nodes: Sequence[Node], returns: Sequence[Value]) -> list[Node]:
    """The nodes with several of one launch each joined into one launch, on CUDA."""
    if all(on_host(v) for node in nodes for v in node.outs):
        return [*nodes]
    for run in (joined_losses, relu_layers, group_sums):
        nodes = run(nodes, returns)
    return [*nodes]


def show(title: str, trace: Trace) -> None:
    """Writes the instructions to the log."""
    if LOGGER.isEnabledFor(logging.DEBUG):
        LOGGER.debug("%s: %d instructions\n%s", title, len(trace.nodes), "\n".join(map(str, trace.nodes)))


__all__ = ["PASSES", "Facts", "algebra", "common", "constants", "dead", "fewer_launches", "fused", "recomputed",
           "simplify", "unpacking"]
