"""The graph itself: nodes and edges, and who wants to hear of them."""

from ..core.node import Node
from .callbacks import on_node_start, queue_callback
from .edges import GradientEdge, get_gradient_edge
from .gathering import register_multi_grad_hook

__all__ = [
    "GradientEdge", "Node", "get_gradient_edge", "on_node_start", "queue_callback", "register_multi_grad_hook",
]  # fmt: skip
