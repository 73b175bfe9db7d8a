"""The graph API: nodes and edges, saved-tensor hooks, gradient hooks, callbacks."""

from ..core.graph.node import Node
from ..core.saved.saved_tensor_hooks import SaveInfo
from .callbacks import on_node_start, queue_callback
from .edges import GradientEdge, get_gradient_edge
from .multi_grad_hook import register_multi_grad_hook
from .saved_hooks import (
    allow_mutation_on_saved_tensors,
    disable_saved_tensors_hooks,
    increment_version,
    save_on_cpu,
    saved_tensors_hooks,
)

__all__ = [
    "GradientEdge", "Node", "SaveInfo", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks",
    "get_gradient_edge", "increment_version", "on_node_start", "queue_callback", "register_multi_grad_hook",
    "save_on_cpu", "saved_tensors_hooks",
]  # fmt: skip
