"""GradientEdge: an output of a node, as an input or output of grad and backward."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..backend.arrays.device import Device
from ..core.engine.task_state import Capture
from ..core.graph.node import Node
from ..core.tensor import Tensor


class _Edge(NamedTuple):
    node: Node
    output_nr: int
    ownership_token: None = None  # keeps the graph alive in PyTorch; here the node does


class GradientEdge(_Edge):
    """Output `output_nr` of `node`, accepted by `grad` and `backward` in place of a tensor; holds no array.

    A tuple (node, output_nr, ownership_token), where ownership_token is None. `shape`, `dtype` and `device` are those
    of the tensor given to `get_gradient_edge`, None in an edge that the user constructs.

    >>> node, nr, _ = ag.autograd.graph.get_gradient_edge(ag.ones(2, requires_grad=True).exp())
    >>> node.name(), nr
    ('ExpBackward0', 0)
    """

    shape: tuple[int, ...] | None = None
    dtype: Any = None
    device: Device | None = None

    def of(self, shape: tuple[int, ...], dtype: Any, device: Device | None) -> GradientEdge:
        """The same edge with the shape, dtype and device of its gradients."""
        edge = GradientEdge(*self)
        edge.shape, edge.dtype, edge.device = shape, dtype, device
        return edge


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge of `tensor`'s gradient: (grad_fn, output number), or the AccumulateGrad node of a leaf.

    RuntimeError if the tensor does not require grad.

    >>> x = ag.ones(2, requires_grad=True)
    >>> ag.autograd.graph.get_gradient_edge(x.exp()).node.name()
    'ExpBackward0'
    """
    if tensor._node is None:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    return GradientEdge(tensor._node, tensor.output_nr).of(tensor.shape, tensor.dtype, tensor.device)


def internal_nr(edge: GradientEdge) -> int:
    """The output number in the engine's numbering: 0 for a sole output, from 1 on for one of several.

    RuntimeError if the node has no such output.
    """
    if not 0 <= edge.output_nr < edge.node.outputs:
        raise RuntimeError(f"edge names output {edge.output_nr} of {edge.node.name()}, which has {edge.node.outputs}")
    return edge.output_nr + 1 if edge.node.outputs != 1 else 0


def capture_of(edge: GradientEdge) -> Capture:
    """The engine's Capture of the gradient at `edge`."""
    node, nr = edge.node, internal_nr(edge)
    if edge.shape is None:
        shape, dtype = (node.shape, node.dtype) if nr == 0 else (node.shape[nr - 1], node.dtype[nr - 1])
        edge = edge.of(shape, dtype, edge.device)
    return node, nr, edge
