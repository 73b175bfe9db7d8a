"""group_sums: on CUDA sums of the results of a group are computed in its launch.

They are sums over the rows of a matrix, such as the gradient of a bias, and over all of few elements, such as a loss.
The order of the additions is that of kernels/group_sums.cu, and what is summed is not rounded to half types before.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...backend import kernels
from ...backend.kernels import GroupKernel, SummingKernel
from ..graph import Call, Group, Node, Value


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
            for divisor, listed in _sums_of(node, readers, written).items():
                group = _with(node, listed, divisor, readers)
                if group is not None:
                    joined[node] = group
                    dropped.update(listed)
                    break
    return [joined.get(node, node) for node in nodes if node not in dropped]


def _sums_of(group: Group, readers: dict[Value, list[Node | None]], written: set[int]) -> dict[int, list[Call]]:
    """The sums of the results of a group: by column (0), and over all elements by what these are divided by."""
    found: dict[int, list[Call]] = {}
    for v in group.outs:
        for node in readers.get(v, ()):
            divisor = _divisor(node, v)
            if isinstance(node, Call) and divisor >= 0 and node.outs[0].root not in written:
                found.setdefault(divisor, []).append(node)
    return dict(sorted(found.items()))


def _divisor(node: Node | None, v: Value) -> int:
    """0 for a sum over the rows of a matrix v, the divisor of a sum or mean over all elements, and -1 for others."""
    if not isinstance(node, Call) or node.reads != [v] or node.outs[0].dtype != v.dtype or not v.array.size:
        return -1
    options, ndim = node.attributes, len(v.shape)
    if node.op.name == "sum_to":
        return 0 if ndim == 2 and options["shape"] == v.shape[1:] else -1
    if node.op.name not in ("sum", "mean") or options["keepdim"] or options["dtype"] is not None:
        return -1
    dims = options["dim"] if isinstance(options["dim"], tuple) else (options["dim"],)
    if node.op.name == "sum" and ndim == 2 and dims in ((0,), (-2,)):
        return 0
    everything = dims in ((None,), ()) or (ndim == 1 and dims in ((0,), (-1,)))
    if not everything or not kernels.suits_total(v.shape, v.dtype.itemsize):
        return -1
    return v.array.size if node.op.name == "mean" else 1


def _with(group: Group, sums: Sequence[Call], divisor: int, readers: dict[Value, list[Node | None]]) -> Group | None:
    """The group with these sums; None if it has no room for them."""
    sums = [*dict.fromkeys(sums)]
    written = [k for k, v in enumerate(group.outs) if any(reader not in sums for reader in readers[v])]
    summed = [group.outs.index(node.reads[0]) for node in sums]
    if len(sums) > kernels.MOST_SUMS or len(group.args) + len(written) + len(sums) > kernels.MOST_WITH_SUMS:
        return None
    outs = [*[group.outs[k] for k in written], *[node.outs[0] for node in sums]]
    code = SummingKernel(group.code, written, summed, divisor == 0, divisor or 1)
    lines = [*group.lines, *[str(node).strip() for node in sums]]
    return Group(outs, group.phase, group.region, group.where, group.args, [*group.parts, *sums], code, lines)
