"""PyTorch's older path of mixed precision on CUDA: `ag.amp` with the device "cuda".

>>> scaler = ag.cuda.amp.GradScaler(enabled=False)
"""

from __future__ import annotations

from typing import Any

from .. import amp
from ..amp import custom_bwd, custom_fwd


class autocast(amp.autocast):
    """`ag.amp.autocast("cuda", ...)`, which leaves dtypes alone.

    >>> with ag.cuda.amp.autocast(enabled=False):
    ...     x = ag.ones(2)
    """

    def __init__(self, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> None:
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(amp.GradScaler):
    """`ag.amp.GradScaler("cuda", ...)`.

    >>> ag.cuda.amp.GradScaler(enabled=False).is_enabled()
    False
    """

    def __init__(
        self, init_scale: float = 2.0**16, growth_factor: float = 2.0, backoff_factor: float = 0.5,
        growth_interval: int = 2000, enabled: bool = True,
    ) -> None:  # fmt: skip
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]
