"""SyncBatchNorm: batch norm with the statistics of the batches of all processes of a group."""

from __future__ import annotations

import math
from typing import Any

from ..backend.arrays.dtypes import wide
from ..core.tensor import Tensor
from ..distributed import ProcessGroup, is_initialized
from ..distributed.group import member
from ..distributed.nn.functional import all_gather_into_tensor
from ..modes import no_grad
from ..ops import addcmul, cat, rsqrt
from .batchnorm import BatchNorm
from .module import Module


class SyncBatchNorm(BatchNorm):
    """`BatchNorm1d`, 2d or 3d for (N, C, ...), whose mean and variance are those of the batches of all ranks together.

    In training the ranks of `process_group`, all by default, exchange their statistics, once in forward and once in
    backward, and get equal running statistics. Batches may have different sizes. Without a group of several processes,
    and in evaluation, it is batch norm. It is differentiable to any order, so also in `ag.func`.

    >>> net = ag.nn.Sequential(ag.nn.Linear(3, 2), ag.nn.BatchNorm1d(2))
    >>> ag.nn.SyncBatchNorm.convert_sync_batchnorm(net)[1]
    SyncBatchNorm(2, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    """

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, process_group: ProcessGroup | None = None, device: Any = None,
        dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _ag_check_rank(self, input: Tensor) -> None:
        if input.ndim < 2:
            raise ValueError(f"expected at least 2D input (got {input.ndim}D input)")

    def _ag_normalized(
        self, input: Tensor, mean: Tensor | None, var: Tensor | None, by_batch: bool, momentum: float
    ) -> Tensor:
        group = member(self.process_group, "SyncBatchNorm") if is_initialized() else None
        if not (by_batch and self.training and group is not None and group.size() > 1):
            return super()._ag_normalized(input, mean, var, by_batch, momentum)
        shape = (-1,) + (1,) * (input.ndim - 2)
        x = input.to(wide(input.dtype))
        center, squares, count = _statistics(x, group)
        if mean is not None and var is not None:
            _update(mean, center, momentum)
            _update(var, squares / (count - 1).clamp(min=1), momentum)
        scale = rsqrt(squares / count + self.eps)
        if self.weight is not None:
            scale = scale * self.weight
        away = x - center.reshape(shape)
        scale = scale.reshape(shape)
        result = away * scale if self.bias is None else addcmul(self.bias.to(x.dtype).reshape(shape), away, scale)
        return result.to(input.dtype)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: ProcessGroup | None = None) -> Module:
        """`module` with a SyncBatchNorm in the place of each BatchNorm1d, 2d and 3d, with its parameters and buffers.

        Returns a new module for a batch norm, else `module` itself, whose children are replaced.
        """
        if isinstance(module, BatchNorm) and not isinstance(module, SyncBatchNorm):
            made = cls(module.num_features, module.eps, module.momentum, False, False, process_group)
            made.affine, made.track_running_stats = module.affine, module.track_running_stats
            made.weight, made.bias = module.weight, module.bias
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                made.register_buffer(name, getattr(module, name))
            return made.train(module.training)
        for name, child in module.named_children():
            converted = cls.convert_sync_batchnorm(child, process_group)
            if converted is not child:
                module.add_module(name, converted)
        return module


def _statistics(x: Tensor, group: ProcessGroup) -> tuple[Tensor, Tensor, Tensor]:
    """Of all ranks: the mean of each channel, the sum of squares around it, and how many values a channel has."""
    axes = (0, *range(2, x.ndim))
    count = math.prod(x.shape[:1] + x.shape[2:])
    mean = x.sum(axes) / max(count, 1)
    squares = (x - mean.reshape((-1,) + (1,) * (x.ndim - 2))).square().sum(axes)
    own = cat([mean, squares, x.new_full((1,), float(count))])
    every = all_gather_into_tensor(own.unsqueeze(0), group)
    means, sums, counts = every.split((len(mean), len(mean), 1), 1)
    total = counts.sum()
    center = (means * counts).sum(0) / total
    return center, (sums + counts * (means - center).square()).sum(0), total


def _update(running: Tensor, value: Tensor, momentum: float) -> None:
    with no_grad():
        running.mul_(1 - momentum).add_(value.detach(), alpha=momentum)
