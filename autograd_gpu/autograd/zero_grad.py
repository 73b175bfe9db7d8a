"""zero_grad for modules and optimizers."""

from __future__ import annotations

from collections.abc import Iterable

from ..core.tensor import Tensor


def zero_grad(tensors: Iterable[Tensor], set_to_none: bool) -> None:
    """Sets each `.grad` to None, or fills it with zeros in place and detaches it."""
    for tensor in tensors:
        grad = tensor.grad
        if grad is None:
            continue
        if set_to_none:
            tensor.grad = None
            continue
        if grad.requires_grad:
            grad = tensor.grad = grad.detach()
        grad.zero_()
