"""group_sums: on CUDA sums, maxima and minima of the results of a group are computed in its launch.

They are over the rows of a matrix, such as the gradient of a bias, along rows, and over all of few elements, such as a
loss. The order of the additions is that of kernels/group_sums.cu, and what is summed is not rounded to half types
before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...backend import kernels
from ...backend.kernels import GroupKernel, SummingKernel
from ..graph import Call, Group, Node, Value

Kind = tuple[str, str, int]  # the op, what is summed, as in SummingKernel, and what the sum is divided by


def group_sums(nodes: Sequence[Node], returns: Sequence[Value]) -> list[Node]:
    """The nodes with sums as results of the groups before them."""
    readers: dict[Value, list[Node | None]] = {v: [None] for v in returns}
    written = {v.root for node in nodes for v in node.writes}
    for node in nodes:
        for v in node.reads:
            readers.setdefault(v, []).append(node)
    dropped: set[Node] = set()
    joined: dict[Node, Group] = {}
    for node in nodes:
        if isinstance(node, Group) and isinstance(node.code, GroupKernel):
            for kind, sums in _sums_of(node, readers, written).items():
                group = _with(node, sums, kind, readers)
                if group is not None:
                    joined[node] = group
                    dropped.update(sums)
                    break
    return [joined.get(node, node) for node in nodes if node not in dropped]


def _sums_of(group: Group, readers: dict[Value, list[Node | None]], written: set[int]) -> dict[Kind, list[Call]]:
    """The sums of the results of a group, by kind; those of columns first."""
    by_kind: dict[Kind, list[Call]] = {}
    for v in group.outs:
        for node in dict.fromkeys(readers.get(v, ())):
            kind = _kind(node, v)
            if isinstance(node, Call) and kind is not None and node.outs[0].root not in written:
                by_kind.setdefault(kind, []).append(node)
    return dict(sorted(by_kind.items(), key=lambda item: item[0] != ("sum", "columns", 1)))


def _kind(node: Node | None, v: Value) -> Kind | None:
    """What a node sums of a result; None if that is no such sum, or of more than a launch computes."""
    if not isinstance(node, Call) or node.reads != [v] or node.outs[0].dtype != v.dtype:
        return None
    name, options, ndim = node.op.name, node.attributes, len(v.shape)
    if name == "sum_to":
        kind = ("sum", "columns", 1) if ndim == 2 and options["shape"] == v.shape[1:] else None
    elif name in ("sum", "mean", "amax", "amin") and options.get("dtype") is None:
        kind = _reduced("sum" if name == "mean" else name, name == "mean", options["dim"], v)
    else:
        kind = None
    suits = kind is not None and kernels.suits_sum(kind[1], v.shape, v.dtype.itemsize, kind[0])
    return kind if suits else None


def _reduced(op: str, is_mean: bool, dim: Any, v: Value) -> Kind | None:
    """The kind of a reduction of v over `dim`."""
    ndim = len(v.shape)
    dims = None if dim in (None, ()) else sorted({d % ndim for d in (dim if isinstance(dim, tuple) else (dim,))})
    if dims is None or len(dims) == ndim:
        return op, "all", v.array.size if is_mean else 1
    if dims == [ndim - 1]:
        return op, "rows", v.shape[-1] if is_mean else 1
    return (op, "columns", 1) if dims == [0] and ndim == 2 and not is_mean else None


def _with(group: Group, sums: Sequence[Call], kind: Kind, readers: dict[Value, list[Node | None]]) -> Group | None:
    """The group with these sums; None if it has no room for them."""
    written = [k for k, v in enumerate(group.outs) if any(reader not in sums for reader in readers[v])]
    summed = [group.outs.index(node.reads[0]) for node in sums]
    if len(sums) > kernels.MOST_SUMS or len(group.args) + len(written) + len(sums) > kernels.MOST_WITH_SUMS:
        return None
    made = [node.outs[0] for node in sums]
    op, along, divisor = kind
    code = SummingKernel(group.code, written, summed, along, [v.shape for v in made], divisor, op)
    outs, lines = [*[group.outs[k] for k in written], *made], [*group.lines, *[str(node).strip() for node in sums]]
    return Group(outs, group.phase, group.region, group.where, group.args, [*group.parts, *sums], code, lines)
