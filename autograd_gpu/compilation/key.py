"""The key of a call: what of the arguments and of the thread's modes decides about what it does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..backend.arrays import strides
from ..backend.arrays.device import get_default_device
from ..backend.arrays.dtypes import get_default_dtype
from ..core.tensor import Float8Tensor, Parameter, Tensor
from ..modes import MODES, float32_matmul
from .graph import root_of


class Unfit(Exception):
    """Why a call cannot be compiled."""


def key_of(leaves: Sequence[Any], spec: Any, hooks: Any) -> Any:
    """The key, with what it has of saved-tensor hooks; Unfit if there is none."""
    words = [_tensor_word(x) if isinstance(x, Tensor) else _word(x) for x in leaves]
    key = (spec, hooks, *modes(), *words, *shared_memory(leaves))
    try:
        hash(key)
    except TypeError:
        raise Unfit("an argument, or what a saved-tensor hook closes over, is neither a tensor nor hashable; pass "
                    "tensors, numbers and strings") from None
    return key


def modes() -> tuple[Any, ...]:
    """The settings of the thread and of the process that decide about what a call does."""
    return MODES.bits, get_default_dtype(), str(get_default_device()), float32_matmul.precision


def _word(x: Any) -> Any:
    return type(x), x.hex() if type(x) is float else x


def _tensor_word(x: Tensor) -> Any:
    array = x._array
    kind = type(x)
    if kind is Float8Tensor:
        raise Unfit("an argument is a float8 tensor; convert it before the call")
    home = 0 if isinstance(array, np.ndarray) else array.device.id + 1
    named = id(x) if kind is Parameter else kind
    return named, array.shape, array.strides, array.dtype, home, x.requires_grad, x.is_inference()


def shared_memory(leaves: Sequence[Any]) -> tuple[tuple[int, int, int], ...]:
    """(i, j, distance of the addresses) for leaves that share memory."""
    arrays = [(i, x._array) for i, x in enumerate(leaves) if isinstance(x, Tensor)]
    if len(arrays) < 2 or (all(type(a) is not np.ndarray or a.base is None for _, a in arrays)
                           and len({root_of(a) for _, a in arrays}) == len(arrays)):
        return ()
    extents = [(i, array, *strides.extent(array)) for i, array in arrays]
    found = []
    for n, (i, a, begin, end) in enumerate(extents):
        for j, b, other_begin, other_end in extents[n + 1 :]:
            if a is b or (begin < other_end and other_begin < end):
                found.append((i, j, -1 if a is b else strides.address(b) - strides.address(a)))
    return tuple(found)
