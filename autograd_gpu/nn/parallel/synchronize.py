"""Brings the parameters and buffers of one rank to all."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from ... import backend
from ...autograd import no_grad
from ...core.graph.storage import before_write, bump_version
from ...core.tensor import Tensor, wrap
from ...distributed.collectives import broadcast
from ...distributed.group import ProcessGroup
from ...distributed.memory import home
from ...distributed.objects import all_gather_object


def check_equal(named: Sequence[tuple[str, Tensor]], group: ProcessGroup) -> None:
    """ValueError on all ranks unless they have equal names, shapes and dtypes."""
    mine = [(name, tuple(tensor.shape), str(tensor.dtype), tensor.requires_grad) for name, tensor in named]
    every: list[list[tuple[str, tuple[int, ...], str, bool]]] = [[] for _ in range(group.size())]
    all_gather_object(every, mine, group)
    for rank, theirs in zip(group.ranks, every, strict=True):
        if theirs != every[0]:
            first, second = next(((a, b) for a, b in zip(every[0], theirs, strict=False) if a != b), (len(every[0]),
                                                                                                      len(theirs)))
            raise ValueError("DistributedDataParallel: the models of the ranks differ: rank "
                             f"{group.ranks[0]} has {first}, and rank {rank} has {second} (name, shape, dtype, "
                             "requires_grad of the first parameter that differs, or their number)")


def broadcast_tensors(tensors: Sequence[Tensor], group: ProcessGroup, source: int) -> None:
    """Replaces tensors by those of rank `source` of the group: their bytes in one array for each device."""
    with no_grad():
        for _, some in groupby(tensors, key=lambda tensor: str(tensor.device)):
            filled = [tensor for tensor in some if tensor.numel()]
            if filled:
                with home(filled[0].array):
                    _broadcast(filled, group, source)


def _broadcast(tensors: list[Tensor], group: ProcessGroup, source: int) -> None:
    xp = backend.namespace(tensors[0].array)
    parts = [xp.ascontiguousarray(tensor.array).reshape(-1).view(xp.uint8) for tensor in tensors]
    whole = parts[0] if len(parts) == 1 else xp.concatenate(parts)
    broadcast(wrap(whole), group=group, group_src=source)
    if group.rank() == source:
        return
    begin = 0
    before_write(tensors)
    for tensor, part in zip(tensors, parts, strict=True):
        array = tensor.array
        array[...] = whole[begin : begin + part.size].view(array.dtype).reshape(array.shape)
        bump_version(tensor)
        begin += part.size
