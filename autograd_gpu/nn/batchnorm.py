"""Batch norm and instance norm with running statistics; 1d, 2d and 3d differ only in the input's rank."""

from __future__ import annotations

import warnings
from typing import Any

from ..backend.arrays.dtypes import int64
from ..core.tensor import Parameter, Tensor
from ..ops.creation.factories import empty, zeros
from . import functional as F
from . import init
from .module import Module


class RunningNorm(Module):
    """Base of norms over channels: weight, bias, and with `track_running_stats` running mean and variance."""

    weight: Parameter | None
    bias: Parameter | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None
    ranks: tuple[int, ...]  # allowed numbers of input dimensions
    _version = 2  # version 2 added num_batches_tracked

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats

        def vector() -> Tensor:
            return empty(num_features, device=device, dtype=dtype)

        self.register_parameter("weight", Parameter(vector()) if affine else None)
        self.register_parameter("bias", Parameter(vector()) if affine and bias else None)
        tracked = track_running_stats
        self.register_buffer("running_mean", vector() if tracked else None)
        self.register_buffer("running_var", vector() if tracked else None)
        self.register_buffer("num_batches_tracked", zeros((), dtype=int64, device=device) if tracked else None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Sets the running mean to zeros, the running variance to ones and num_batches_tracked to 0."""
        if self.running_mean is not None and self.running_var is not None and self.num_batches_tracked is not None:
            init.zeros_(self.running_mean)
            init.ones_(self.running_var)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Sets weight to ones and bias to zeros, and resets the running statistics."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:
        version, key = local_metadata.get("version"), f"{prefix}num_batches_tracked"
        if (version is None or version < 2) and self.num_batches_tracked is not None:
            state_dict.setdefault(key, self.num_batches_tracked)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def _ag_check_rank(self, input: Tensor) -> None:
        if input.ndim not in self.ranks:
            raise ValueError(f"expected {' or '.join(f'{n}D' for n in self.ranks)} input (got {input.ndim}D input)")

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


# ---- batch norm --------------------------------------------------------------------------------------


class BatchNorm(RunningNorm):
    """Base of BatchNorm1d, 2d and 3d."""

    def forward(self, input: Tensor) -> Tensor:
        self._ag_check_rank(input)
        tracking = self.training and self.track_running_stats
        if tracking and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        momentum = self.momentum
        if momentum is None:  # cumulative mean over all batches
            momentum = 1 / self.num_batches_tracked.item() if tracking and self.num_batches_tracked is not None else 0.0
        used = tracking or not self.training
        mean, var = (self.running_mean, self.running_var) if used else (None, None)
        return self._ag_normalized(input, mean, var, self.training or self.running_mean is None, momentum)

    def _ag_normalized(
        self, input: Tensor, mean: Tensor | None, var: Tensor | None, by_batch: bool, momentum: float
    ) -> Tensor:
        """The result with running statistics, which are updated if those of the batch are used instead."""
        return F.batch_norm(input, mean, var, self.weight, self.bias, by_batch, momentum, self.eps)


class BatchNorm1d(BatchNorm):
    """(x - mean) / sqrt(var + eps) * weight + bias for each channel of (N, C) or (N, C, L).

    In training mean and variance are those of the batch. The running statistics (buffers) are updated by
    running = (1 - momentum) * running + momentum * batch, or with momentum=None are the mean over all batches. In
    evaluation the running statistics are used, or those of the batch without `track_running_stats`. `weight` and `bias`
    are initialized to ones and zeros; without `affine` they are None.

    >>> ag.nn.BatchNorm1d(2)(ag.tensor([[1.0, 5.0], [3.0, 5.0]])).sum(0).tolist()
    [0.0, 0.0]
    """

    ranks = (2, 3)


class BatchNorm2d(BatchNorm):
    """`BatchNorm1d` for images (N, C, H, W).

    >>> ag.nn.BatchNorm2d(3)(ag.ones(2, 3, 4, 4)).sum().item()
    0.0
    """

    ranks = (4,)


class BatchNorm3d(BatchNorm):
    """`BatchNorm1d` for volumes (N, C, D, H, W).

    >>> ag.nn.BatchNorm3d(3)(ag.ones(2, 3, 2, 2, 2)).sum().item()
    0.0
    """

    ranks = (5,)


# ---- instance norm -----------------------------------------------------------------------------------


class InstanceNorm(RunningNorm):
    """Base of InstanceNorm1d, 2d and 3d. The smaller rank is that of an unbatched input."""

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = False,
        track_running_stats: bool = False, device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def forward(self, input: Tensor) -> Tensor:
        self._ag_check_rank(input)
        single = input.ndim == self.ranks[0]
        channels = input.shape[0 if single else 1]
        if channels != self.num_features:
            if self.affine:
                raise ValueError(f"expected input's size at dim={0 if single else 1} to match num_features "
                                 f"({self.num_features}), but got: {channels}.")
            warnings.warn(f"input's size at dim={0 if single else 1} does not match num_features. You can silence this "
                          "warning by not passing in num_features, which is not used because affine=False",
                          UserWarning, stacklevel=2)
        out = F.instance_norm(
            input.unsqueeze(0) if single else input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            self.momentum if self.momentum is not None else 0.0,
            self.eps,
        )
        return out.squeeze(0) if single else out


class InstanceNorm1d(InstanceNorm):
    """(x - mean) / sqrt(var + eps) over L, for each channel of each sample of (N, C, L) or (C, L).

    With `affine` followed by weight and bias per channel; with `track_running_stats` evaluation uses running
    statistics.

    >>> ag.nn.InstanceNorm1d(2)(ag.tensor([[[1.0, 3.0], [5.0, 5.0]]])).sum(2).tolist()
    [[0.0, 0.0]]
    """

    ranks = (2, 3)


class InstanceNorm2d(InstanceNorm):
    """`InstanceNorm1d` for images (N, C, H, W) or (C, H, W).

    >>> ag.nn.InstanceNorm2d(3)(ag.ones(2, 3, 4, 4)).sum().item()
    0.0
    """

    ranks = (3, 4)


class InstanceNorm3d(InstanceNorm):
    """`InstanceNorm1d` for volumes (N, C, D, H, W) or (C, D, H, W).

    >>> ag.nn.InstanceNorm3d(3)(ag.ones(2, 3, 2, 2, 2)).sum().item()
    0.0
    """

    ranks = (4, 5)
