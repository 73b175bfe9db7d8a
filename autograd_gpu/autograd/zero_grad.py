"""zero_grad for modules and optimizers."""

from __future__ import annotations

from collections.abc import Iterable

from ..core.graph import journals
from ..core.tensor import Parameter, Tensor
from ..modes import MODES


def zero_grad(tensors: Iterable[Tensor], set_to_none: bool) -> None:
    """Sets each `.grad` to None, or fills it with zeros in place and detaches it."""
    drops = set_to_none and not MODES.stack and not journals.OPEN  # and nobody has to be told
    for tensor in tensors:
        if drops and type(tensor) is Parameter and tensor._grad is not None:
            tensor._grad = None
            continue
        grad = tensor.grad
        if grad is None:
            continue
        if set_to_none:
            tensor.grad = None
            continue
        if grad.requires_grad:
            grad = tensor.grad = grad.detach()
        grad.zero_()
