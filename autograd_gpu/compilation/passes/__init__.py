"""Passes over the instructions of a trace: each returns nodes that do the same, and changes no bit of any result."""

from __future__ import annotations

import logging

from ..graph import Trace
from .algebra import algebra
from .common import common
from .constants import constants
from .dead import dead
from .facts import Facts
from .fuse import fused
from .partition import recomputed
from .unpacking import unpacking

LOGGER = logging.getLogger("autograd_gpu.compilation")
PASSES = (constants, common, algebra, common, unpacking)


def simplify(trace: Trace) -> None:
    """Runs the passes on a trace; the log shows the instructions before and after each at level DEBUG."""
    show("traced", trace)
    for run in PASSES:
        trace.nodes = run(trace)
        show(run.__name__, trace)


def show(title: str, trace: Trace) -> None:
    """Writes the instructions to the log."""
    if LOGGER.isEnabledFor(logging.DEBUG):
        LOGGER.debug("%s: %d instructions\n%s", title, len(trace.nodes), "\n".join(map(str, trace.nodes)))


__all__ = ["PASSES", "Facts", "algebra", "common", "constants", "dead", "fused", "recomputed", "simplify", "unpacking"]
