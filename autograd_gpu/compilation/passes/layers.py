"""Linear layers with an activation, taken apart: their arithmetic joins groups, the sums for the bias do not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.declare.op import RECORD
from ...ops._support.blocks import BLOCK
from ...ops.nn.linear_activation import ACTIVATIONS
from ..graph import RESULT, Call, Node, Value
from .parts import Parts, on_host

FORWARD = ("bias_activation", "bias_activation_by_sum")
BACKWARD = ("smooth_grad", "piecewise_linear_grad")


def taken_apart(node: Node, parts: Parts) -> list[Node]:
    """The node; or those that do the same, if the arithmetic among them has a place in groups."""
    if parts.of(node) is not None or not isinstance(node, Call) or node.op.name not in (*FORWARD, *BACKWARD):
        return [node]
    pieces = _pieces(node)
    arithmetic = [piece for piece in pieces if piece.op.name != "sum_to"]
    if not pieces or any(parts.of(piece) is None for piece in arithmetic):
        return [node]
    return [*pieces]


def _pieces(node: Call) -> list[Call]:
    """What the forward does with few elements; with more, it works on blocks of rows, which no op does."""
    out, forward = node.outs[0], node.op.name in FORWARD
    if not on_host(out) or out.array.size > BLOCK or out.dtype.itemsize <= 2 or len(out.shape) != 2:
        return []
    *arrays, z, bias = node.args if forward or len(node.args) > 2 else (*node.args, None)
    family, values = ACTIVATIONS[node.attributes["activation"]], node.attributes["parameters"]
    pieces = list[Call]()
    if bias is not None:
        argument = Value(f"{out.name}_argument", RESULT, np.empty(out.shape, out.dtype))
        pieces.append(_call(node, RECORD.add, [argument], [z, bias], {"alpha": 1}))
        z = argument
    options, function = dict(zip(family.attributes, values, strict=True)), family.at(RECORD, 0 if forward else 1)
    pieces.append(_call(node, function, [out], [*arrays, z], options))
    if not forward:
        pieces.append(_call(node, RECORD.sum_to, [node.outs[1]], [out], {"shape": node.outs[1].shape}))
    return pieces


def _call(node: Call, function: Any, outs: Sequence[Value], args: Sequence[Any], attributes: dict[str, Any]) -> Call:
    return Call([*outs], node.phase, node.region, node.where, op=function.op, args=[*args], attributes=attributes)
