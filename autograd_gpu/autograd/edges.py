"""GradientEdge: a place in the graph at which a gradient can be asked for or fed in."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..backend.arrays.device import Device
from ..core.engine.task_state import Capture
from ..core.graph.node import Node
from ..core.tensor import Tensor


class _Edge(NamedTuple):
    node: Node
    output_nr: int
    ownership_token: None = None  # PyTorch's way to keep a graph alive; here the node does


class GradientEdge(_Edge):
    """Output `output_nr` of `node`. Accepted by `grad` and `backward` wherever a tensor is; holds no array.

    A tuple (node, output_nr, ownership_token), the last of which is None here. `shape`, `dtype` and `device` are those
    of the tensor that `get_gradient_edge` was given, None in an edge that was made by hand.

    >>> node, nr, _ = ag.autograd.graph.get_gradient_edge(ag.ones(2, requires_grad=True).exp())
    >>> node.name(), nr
    ('ExpBackward0', 0)
    """

    shape: tuple[int, ...] | None = None
    dtype: Any = None
    device: Device | None = None

    def of(self, shape: tuple[int, ...], dtype: Any, device: Device | None) -> GradientEdge:
        """The same place, as one where gradients have this shape and dtype and live on this device."""
        edge = GradientEdge(*self)
        edge.shape, edge.dtype, edge.device = shape, dtype, device
        return edge


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge at which `tensor`'s gradient arrives: (grad_fn, output number), or a leaf's accumulator.

    RuntimeError if the tensor does not require grad.

    >>> x = ag.ones(2, requires_grad=True)
    >>> ag.autograd.graph.get_gradient_edge(x.exp()).node.name()
    'ExpBackward0'
    """
    if tensor._node is None:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    return GradientEdge(tensor._node, tensor.output_nr).of(tensor.shape, tensor.dtype, tensor.device)


def internal_nr(edge: GradientEdge) -> int:
    """The output number as nodes count it: 0 for the sole output, from 1 on for one of several."""
    if not 0 <= edge.output_nr < edge.node.outputs:
        raise RuntimeError(f"edge names output {edge.output_nr} of {edge.node.name()}, which has {edge.node.outputs}")
    return edge.output_nr + 1 if edge.node.outputs != 1 else 0


def capture_of(edge: GradientEdge) -> Capture:
    """What the engine needs to capture the gradient at `edge`."""
    node, nr = edge.node, internal_nr(edge)
    if edge.shape is None:
        shape, dtype = (node.shape, node.dtype) if nr == 0 else (node.shape[nr - 1], node.dtype[nr - 1])
        edge = edge.of(shape, dtype, edge.device)
    return node, nr, edge
