"""PyTorch's private path of `vmap`, which libraries use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..func.vmap import vmap


def _vmap(
    func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, allow_none_pass_through: bool = False
) -> Callable[..., Any]:
    """`func.vmap` by the name of an older version."""
    return vmap(func, in_dims, out_dims)
