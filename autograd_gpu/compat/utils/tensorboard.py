"""`SummaryWriter`, which is tensorboardX's; tensors are given to it as arrays."""

from __future__ import annotations

import functools
from typing import Any

from ...core.tensor import Tensor

try:
    import tensorboardX
except ImportError:
    tensorboardX = None


def _as_arrays(value: Any) -> Any:
    """`value` with arrays for the tensors in it."""
    if isinstance(value, Tensor):
        return value.detach().cpu().numpy()
    if isinstance(value, dict):
        return {key: _as_arrays(item) for key, item in value.items()}
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return type(value)(_as_arrays(item) for item in value)
    return value


class SummaryWriter:
    """Writes event files for TensorBoard, by the package tensorboardX, whose SummaryWriter has PyTorch's methods.

    ImportError without tensorboardX: the package tensorboard shows event files, and has no such writer.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if tensorboardX is None:
            raise ImportError("utils.tensorboard.SummaryWriter needs the package tensorboardX, which writes what "
                              "tensorboard shows: pip install tensorboardX")
        self._writer = tensorboardX.SummaryWriter(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name == "_writer":
            raise AttributeError(name)
        attribute = getattr(self._writer, name)
        if not callable(attribute):
            return attribute

        @functools.wraps(attribute)
        def call(*args: Any, **kwargs: Any) -> Any:
            return attribute(*map(_as_arrays, args), **_as_arrays(kwargs))

        return call

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        self._writer.close()


__all__ = ["SummaryWriter"]
