"""What stands in for a DistributedDataParallel on a rank that has no more inputs."""

from __future__ import annotations

from typing import Any

from ...distributed.algorithms.join import JoinHook
from ...distributed.collectives import all_reduce
from ...distributed.reduce_op import ReduceOp
from ...ops import tensor
from .synchronize import broadcast_tensors


class DDPJoinHook(JoinHook):
    """Takes part in the collectives of forward and backward with zeros."""

    def __init__(self, ddp: Any, divide_by_initial_world_size: bool = True) -> None:
        self.ddp, self.reducer = ddp, ddp.reducer
        self.reducer.in_join(divide_by_initial_world_size)

    def main_hook(self) -> None:
        reduces, syncs = self.reducer.agree(False)
        if syncs:
            self.ddp._sync_buffers()
        if reduces:
            self.reducer.follow()

    def post_hook(self, is_last_joiner: bool) -> None:
        group = self.ddp.process_group
        source = tensor([group.rank() if is_last_joiner else -1])
        all_reduce(source, ReduceOp.MAX, group)
        tensors = [*self.ddp.module.parameters(), *self.ddp._ag_buffers]
        broadcast_tensors(tensors, group, int(source.item()))
