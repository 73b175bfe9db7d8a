"""The task of a call of grad or backward while a tracer records: it tells when its parts begin and end."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from ...backend import counters
from ..graph.node import Node
from ..thread_state import ThreadState
from .task import GraphTask


class TracedTask(GraphTask):
    """A GraphTask that tells the tracer of its plan, its run, its leaves, and of nodes that do not run."""

    __slots__ = ()

    def plan(self) -> None:
        with _span("engine", "plan"):
            super().plan()

    def run(self, thread: ThreadState) -> None:
        with _span("backward", "backward" if self.accumulate else "grad", create_graph=self.create_graph):
            if self.needs is not None and (tracer := counters.TRACING.tracer) is not None:
                tracer.unneeded([node for node in reversed(self.nodes) if node not in self.needs])
            super().run(thread)

    def fire(self, leaf: Any) -> None:
        tracer = counters.TRACING.tracer
        if tracer is None:
            super().fire(leaf)
        else:
            tracer.leaf(leaf, super().fire)

    def _instead_of_none(self, node: Node) -> Any:
        g = super()._instead_of_none(node)
        if g is None and (tracer := counters.TRACING.tracer) is not None:
            tracer.without_gradient(node)
        return g


def _span(kind: str, name: str, **facts: Any) -> Any:
    """A span of the tracer; nothing if it has stopped since the task began."""
    tracer = counters.TRACING.tracer
    return nullcontext() if tracer is None else tracer.span(kind, name, **facts)
