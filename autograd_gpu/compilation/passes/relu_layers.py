"""relu_layers: on CUDA a product and the bias with relu behind it are one launch of cuBLASLt, where it has one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...backend import kernels
from ...backend.cuda import cublas, cublaslt, runtime
from ...ops.nn.linear_activation import applied
from ..graph import RESULT, Call, Group, Node, Value
from .parts import on_host


def relu(z: Any, bias: Any, out: Any = None) -> Any:
    """relu(z + bias) by the kernel of eager code."""
    return kernels.bias_activation(applied("relu", ()), z, bias, out)


class ReluLayer:
    """What computes relu(x @ weightᵀ + bias): one launch, or two for sizes for which the library has no algorithm."""

    def becomes(self, tell: Callable[[Any], None]) -> None:
        """Nothing takes the place of this object."""

    def __call__(self, x: Any, weight: Any, bias: Any, out: Sequence[Any] | None = None) -> Any:
        target = None if out is None else out[0]
        result = cublaslt.linear_relu(x, weight, bias, target)
        return relu(cublas.gemm(x, weight.T, target), bias, target) if result is None else result


def relu_layers(nodes: Sequence[Node], returns: Sequence[Value]) -> list[Node]:
    """The nodes with one in place of each product that nobody but a bias with relu reads."""
    readers: dict[Value, int] = dict.fromkeys(returns, 1)
    makers: dict[Value, int] = {}
    writes: dict[int, list[int]] = {}  # by root of memory: the places of what writes to it
    for i, node in enumerate(nodes):
        makers.update(dict.fromkeys(node.made(), i))
        for v in node.reads:
            readers[v] = readers.get(v, 0) + 1
        for v in node.writes:
            writes.setdefault(v.root, []).append(i)
    kept: list[Node | None] = [*nodes]
    for i, node in enumerate(nodes):
        product = _product(node, makers, nodes)
        if product is None:
            continue
        at, (x, weight) = makers[product.outs[0]], product.args[:2]
        z, bias = node.reads
        moved = any(at < k < i for v in (x, weight, bias) for k in writes.get(v.root, ()))
        if readers[z] == 1 and not moved and z.root not in writes and node.outs[0].root not in writes:
            parts, args = [product, node], [x, weight, bias]
            lines = [str(part).strip() for part in parts]
            kept[at] = None
            kept[i] = Group([*node.outs], node.phase, node.region, node.where, args, parts, ReluLayer(), lines)
    return [node for node in kept if node is not None]


def _product(node: Node, makers: dict[Value, int], nodes: Sequence[Node]) -> Call | None:
    """The product before a bias with relu, if the two suit cuBLASLt."""
    if not isinstance(node, Call) or node.op.name != "bias_activation" or node.attributes["activation"] != "relu":
        return None
    z, bias = node.args
    if on_host(node.outs[0]) or z.kind != RESULT or z not in makers or len(z.shape) != 2 or not z.array.size:
        return None
    product = nodes[makers[z]]
    if not isinstance(product, Call) or product.op.name != "linear" or (*product.args, None)[2] is not None:
        return None
    arrays = [v.array for v in (*product.args[:2], bias)]
    if any(a.dtype != z.dtype for a in arrays) or arrays[0].ndim != 2 or not bias.array.flags.c_contiguous:
        return None
    return product if cublaslt.is_right(runtime.current.device(), z.dtype, relu) else None
