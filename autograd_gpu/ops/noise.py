"""Dropout."""

from __future__ import annotations

from .. import backend, random
from ..core.dispatch import defop
from ..core.op import FLOAT
from ..core.tensor import Tensor


def _dropped(xp, x, *, p):
    mask = random.bernoulli_mask(x.shape, 1 - p, backend.device_of(x))
    return xp.where(mask, x * _survivors(p), 0).astype(x.dtype, copy=False), {"mask": mask}


def _survivors(p):
    return 1 / (1 - p) if p < 1 else 0.0


@defop
class random_dropout:
    """x with each element zero with probability p and divided by 1 - p otherwise, by the device's default generator.

    >>> ag.dropout(ag.ones(3), p=0.0)
    tensor([1., 1., 1.])
    """

    forward = _dropped
    def grad_x(F, g, mask, p): return F.where(mask, g * _survivors(p), 0.0)
    saved, types = ("mask",), FLOAT


def dropout(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """In training, zero with probability p for each element and x / (1 - p) otherwise; else x itself.

    >>> ag.dropout(ag.ones(3), p=1.0)
    tensor([0., 0., 0.])
    """
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    return random_dropout(x, p) if training and p > 0 else x
