"""losses: on CUDA the cross entropy of few logits, its gradient, and the bias before it are one launch.

The gradient comes at once, since what it depends on is known by then: the gradient of the loss is a constant, or was
computed before. Results have the bits of the ops that compute them, but for the column sums, whose order is another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...backend import kernels
from ...ops.nn.class_indices import kernel_classes
from ..graph import RESULT, Call, Group, Node, Value
from .parts import on_host


class LossStep:
    """What computes a step of the arrays z, bias if `biased`, target, weight if `weighted`, and g.

    The outputs are the loss, its gradient, the column sums of that if `sums`, and the logits if `shown`.
    """

    def __init__(self, biased: bool, weighted: bool, sums: bool, shown: bool, attributes: dict[str, Any]) -> None:
        self._biased, self._weighted, self._sums, self._shown = biased, weighted, sums, shown
        self._options = attributes["ignore_index"], attributes["label_smoothing"]
        self._reduction = attributes["reduction"]

    def becomes(self, tell: Callable[[Any], None]) -> None:
        """Nothing takes the place of this object."""

    def __call__(self, z: Any, *others: Any, out: Sequence[Any] | None = None) -> list[Any]:
        *operands, g = others
        bias = operands.pop(0) if self._biased else None
        target, weight = operands if self._weighted else (*operands, None)
        _, dx, *rest = out or (None,) * (2 + self._sums + self._shown)
        need, over = (self._sums, self._shown), (dx, rest[-1] if self._shown else None)
        classes = kernel_classes(z.dtype, target, weight, *self._options)
        made = kernels.cross_entropy_step(z, bias, classes, g, self._reduction, need, *over)
        return [made.loss, made.dx, *[made.sums] * self._sums, *[made.x] * self._shown]


@dataclass
class _Step:
    """The instructions that are joined: the loss at `place`, its gradient, its column sums, and the layer before it."""

    place: int
    loss: Call
    gradient: Call
    sums: Call | None = None
    layer: Call | None = None


def joined_losses(nodes: Sequence[Node], returns: Sequence[Value]) -> list[Node]:
    """The nodes with one in place of a loss, its gradient, the column sums of that, and the bias before it."""
    search = _Search(nodes, returns)
    steps = [step for i, node in enumerate(nodes) if (step := search.step(i, node)) is not None]
    replaced: dict[Node, list[Node]] = {}
    for step in steps:
        replaced |= _joined(step, search.readers)
    return [piece for node in nodes for piece in replaced.get(node, [node])]


def _joined(step: _Step, readers: dict[Value, list[Node | None]]) -> dict[Node, list[Node]]:
    """What comes in place of the instructions of a step."""
    loss, layer = step.loss, step.layer
    x, target, weight = (*loss.args, None)[:3]
    parts: list[Node] = [loss, step.gradient]
    if step.sums is not None:
        parts.append(step.sums)
    replaced: dict[Node, list[Node]] = {part: [] for part in parts}
    z, inputs, shown = x, list[Value](), False
    if layer is not None:
        z = Value(f"{x.name}_product", RESULT, x.array)
        z.stand_in(x.shape, x.array.strides)  # in memory of its own
        product = Call([z], layer.phase, layer.region, layer.where, layer.op, [*layer.args[:2], None], layer.attributes)
        replaced[layer] = [product]
        inputs, shown = [layer.args[2]], any(reader not in parts for reader in readers[x])
    args = [z, *inputs, target, *[weight][: weight is not None], step.gradient.args[0]]
    outs = [loss.outs[0], step.gradient.outs[0], *(step.sums.outs if step.sums else ()), *[x] * shown]
    code = LossStep(layer is not None, weight is not None, step.sums is not None, shown, loss.attributes)
    lines = [str(part).strip() for part in parts] if layer is None else [str(p).strip() for p in (layer, *parts)]
    group = Group(outs, loss.phase, loss.region, loss.where, args, parts, code, lines)
    replaced[loss] = [group]
    return replaced


class _Search:
    """Finds steps. `readers`: the instructions that read a value, and None if the program returns it."""

    def __init__(self, nodes: Sequence[Node], returns: Sequence[Value]) -> None:
        self._nodes = nodes
        self.readers: dict[Value, list[Node | None]] = {v: [None] for v in returns}
        self._writes: dict[int, list[int]] = {}  # by root: the places of what writes to it
        self._makers: dict[Value, int] = {}
        self._places = {node: i for i, node in enumerate(nodes)}
        for i, node in enumerate(nodes):
            for v in node.reads:
                self.readers.setdefault(v, []).append(node)
            for v in node.writes:
                self._writes.setdefault(v.root, []).append(i)
            self._makers.update(dict.fromkeys(node.made(), i))

    def step(self, i: int, node: Node) -> _Step | None:
        """The step whose loss is instruction i, or None."""
        if not isinstance(node, Call) or node.op.name != "logits_cross_entropy" or on_host(node.outs[0]):
            return None
        x, (loss, lse), reduction = node.args[0], node.outs, node.attributes["reduction"]
        gradient = self._only_reader((lse, *(v for v in node.extras.values() if isinstance(v, Value))))
        if gradient is None or gradient.op.name != "logits_cross_entropy_grad" or gradient.args[1] is not x:
            return None
        g, dx = gradient.args[0], gradient.outs[0]
        if not kernels.suits_step(x.shape, x.dtype.itemsize, reduction) or not x.array.flags.c_contiguous:
            return None
        if not isinstance(g, Value) or g.shape or {g.dtype, loss.dtype, dx.dtype} != {x.dtype}:
            return None
        if self._makers.get(g, -1) >= i or any(v.root in self._writes for v in (*node.reads, *node.outs, g, dx)):
            return None
        return _Step(i, node, gradient, self._sums(dx), self._layer(i, x))

    def _only_reader(self, values: Sequence[Value]) -> Call | None:
        readers = {reader for v in values for reader in self.readers.get(v, ())}
        reader = readers.pop() if len(readers) == 1 else None
        return reader if isinstance(reader, Call) else None

    def _sums(self, dx: Value) -> Call | None:
        """What sums the columns of a matrix."""
        for reader in self.readers.get(dx, ()):
            if isinstance(reader, Call) and reader.op.name == "sum_to" and len(dx.shape) == 2:
                (out,) = reader.outs
                if out.shape == dx.shape[1:] and out.dtype == dx.dtype and out.root not in self._writes:
                    return reader
        return None

    def _layer(self, i: int, x: Value) -> Call | None:
        """The layer that made the logits, if nobody needs them, and nobody writes to its bias, before instruction i."""
        at = self._makers.get(x, -1)
        layer = self._nodes[at] if at >= 0 else None
        if not isinstance(layer, Call) or layer.op.name != "linear" or len(layer.args) < 3 or layer.args[2] is None:
            return None
        bias, readers = layer.args[2], self.readers[x]
        early = any(reader is not None and self._places[reader] < i for reader in readers)
        written = any(at < k < i for k in self._writes.get(bias.root, ()))
        alike = bias.shape == x.shape[-1:] and bias.dtype == x.dtype and bias.array.flags.c_contiguous
        return layer if alike and x.kind == RESULT and not early and not written else None
