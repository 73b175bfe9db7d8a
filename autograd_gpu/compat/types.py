"""Types for annotations: `torch.types`."""

from __future__ import annotations

from collections.abc import Sequence

from ..backend.arrays.device import Device as _Device
from ..core.size import Size
from ..core.tensor import Tensor

Number = int | float | bool
Device = _Device | str | int | None
_size = Size | list[int] | tuple[int, ...]
_TensorOrTensors = Tensor | Sequence[Tensor]

__all__ = ["Device", "Number"]
