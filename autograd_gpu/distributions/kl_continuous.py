"""KL divergences of continuous distributions: normal ones and those around them. Imported for its registrations."""

from __future__ import annotations

from ..core.tensor import Tensor
from .kl import register_kl
from .normal import Normal


@register_kl(Normal, Normal)
def _normal_normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).square()
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).square() - 1 - ratio.log())
