"""Changes of a tensor's size in place."""

from __future__ import annotations

import math
from typing import Any

from ...core.extend import Tensor, method
from ...random.factories import sizes_of
from ..creation.factories import empty
from ..shape.as_strided import as_strided


@method()
def resize_(x: Tensor, *sizes: Any, memory_format: Any = None) -> Tensor:
    """Gives x another size: its first elements in row-major order, as they lie in its memory.

    A tensor that needs more memory gets new memory, with its elements first and the others uninitialized; views of it
    keep the old memory. RuntimeError if x requires grad.

    >>> x = ag.arange(4)
    >>> x.resize_(2, 2)
    tensor([[0, 1],
            [2, 3]])
    >>> x.resize_(3)
    tensor([0, 1, 2])
    """
    if x.requires_grad:
        raise RuntimeError("cannot resize variables that require grad; make a new tensor, or take x.detach()")
    shape = tuple(sizes_of(sizes))
    dense, available = x if x.is_contiguous() else x.contiguous(), x.numel()
    if x.is_contiguous():
        memory = x.array if x.array.base is None else x.array.base
        available = max(available, memory.size - x.storage_offset())
    if math.prod(shape) > available:
        longer = empty(math.prod(shape), dtype=x.dtype, device=x.device)
        longer[: x.numel()] = dense.reshape(-1)
        dense = longer
    steps = tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
    x.data = as_strided(dense, shape, steps)
    return x


@method()
def resize_as_(x: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """`resize_` to the size of another tensor."""
    return resize_(x, *the_template.shape, memory_format=memory_format)
