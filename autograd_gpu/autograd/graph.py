"""The graph itself: nodes and edges."""

from ..core.node import Node
from .edges import GradientEdge, get_gradient_edge

__all__ = ["GradientEdge", "Node", "get_gradient_edge"]
