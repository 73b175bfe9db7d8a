"""The graph itself: nodes, edges, and what is saved in it."""

from ..core.node import Node
from ..core.saving import SaveInfo
from .edges import GradientEdge, get_gradient_edge
from .saved_hooks import (
    allow_mutation_on_saved_tensors,
    disable_saved_tensors_hooks,
    increment_version,
    save_on_cpu,
    saved_tensors_hooks,
)

__all__ = [
    "GradientEdge", "Node", "SaveInfo", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks",
    "get_gradient_edge", "increment_version", "save_on_cpu", "saved_tensors_hooks",
]  # fmt: skip
