"""The von Mises distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from .. import ops, random, special
from ..backend.arrays.dtypes import float64
from ..core.tensor import Tensor
from ..modes import no_grad
from . import constraints
from .bases import Symmetric
from .utils import broadcast_all, holds_everywhere


class VonMises(Symmetric):
    """Von Mises distributions of angles, with mean direction `loc`, in radians, and `concentration`.

    Values count modulo 2 pi; samples are in [-pi, pi). Mean and variance are the circular ones.

    >>> from autograd_gpu.distributions import VonMises
    >>> VonMises(0.0, ag.tensor([1e-9, 2.0])).log_prob(ag.tensor(0.0)).exp()
    tensor([0.1592, 0.5159])
    """

    arg_constraints: ClassVar = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Tensor | float, concentration: Tensor | float, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def variance(self) -> Tensor:
        return 1 - special.i1e(self.concentration) / special.i0e(self.concentration)

    def _ag_log_prob(self, value: Tensor) -> Tensor:
        below_peak = -2 * self.concentration * (0.5 * (value - self.loc)).sin().square()
        return below_peak - math.log(2 * math.pi) - special.i0e(self.concentration).log()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """By rejection, in float64 (Best and Fisher, Applied Statistics 28, 1979). Waits for a CUDA device."""
        shape, device = self._extended_shape(sample_shape), self.loc.device
        with no_grad():
            concentration = self.concentration.to(float64)
            r = _envelope(concentration)
            angle = ops.zeros(shape, dtype=float64, device=device)
            accepted = ops.zeros(shape, dtype=bool, device=device)
            while not holds_everywhere(accepted):
                turn, threshold, side = random.rand((3, *shape), dtype=float64, device=device).unbind()
                z = (math.pi * turn).cos()
                cosine = (1 + r * z) / (r + z)
                c = concentration * (r - cosine)
                fits = (c * (2 - c) > threshold) | ((c / threshold).log() + 1 - c >= 0)
                proposed = (side - 0.5).sign() * cosine.clamp(min=-1, max=1).acos()
                angle, accepted = ops.where(fits & ~accepted, proposed, angle), accepted | fits
            turned = ops.remainder(angle + math.pi + self.loc, 2 * math.pi) - math.pi
            return turned.to(self.loc.dtype)


def _envelope(concentration: Tensor) -> Tensor:
    """The parameter of the wrapped Cauchy distribution that proposes angles."""
    tau = 1 + (1 + 4 * concentration.square()).sqrt()
    rho = (tau - (2 * tau).sqrt()) / (2 * concentration)
    flat = concentration < 1e-5  # where rho rounds to 0
    return ops.where(flat, 1 / concentration + concentration, (1 + rho.square()) / (2 * ops.where(flat, 1.0, rho)))
