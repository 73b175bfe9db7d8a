"""Passes over the instructions of a trace: each returns nodes that do the same, and changes no bit of any result."""

from __future__ import annotations

from ..graph import Trace
from .algebra import algebra
from .common import common
from .constants import constants
from .dead import dead

PASSES = (constants, common, algebra, common)


def simplify(trace: Trace) -> None:
    """Runs the passes on a trace."""
    for run in PASSES:
        trace.nodes = run(trace)


__all__ = ["PASSES", "algebra", "common", "constants", "dead", "simplify"]
