"""Probability distributions with PyTorch's names: samples, log-densities, entropies, divergences, transforms.

>>> from autograd_gpu.distributions import Normal
>>> mean = ag.tensor(0.0, requires_grad=True)
>>> Normal(mean, 1.0).log_prob(ag.tensor(2.0)).backward()
>>> mean.grad
tensor(2.)
"""

from . import constraints, kl, kl_continuous, utils  # noqa: F401  kl_continuous registers formulas
from .distribution import Distribution
from .exp_family import ExponentialFamily
from .kl import kl_divergence, register_kl
from .normal import Normal
from .uniform import Uniform

__all__ = [
    "Distribution", "ExponentialFamily", "Normal", "Uniform", "constraints", "kl", "kl_divergence", "register_kl",
    "utils",
]  # fmt: skip


def __dir__() -> list[str]:
    return list(__all__)
