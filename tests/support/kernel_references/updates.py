"""Updates of optimizers for one parameter, by the code that runs on the CPU; steps by hand are in tests/optim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from autograd_gpu.backend.formulas.update import Variant
from autograd_gpu.backend.optimizers.chunks import sweep


def updated(variant: Variant, row: Sequence[np.ndarray], numbers: Mapping[str, float]) -> list[np.ndarray]:
    """New arrays in place of those of an update, in its order."""
    copies = [array.copy() for array in row]
    sweep(variant, copies, numbers)
    return copies
