"""Probability distributions with PyTorch's names: samples, log-densities, entropies, divergences, transforms.

>>> from autograd_gpu.distributions import Normal
>>> mean = ag.tensor(0.0, requires_grad=True)
>>> Normal(mean, 1.0).log_prob(ag.tensor(2.0)).backward()
>>> mean.grad
tensor(2.)
"""

from . import constraint_registry, constraints, kl, kl_continuous, transforms, utils
from .cauchy import Cauchy
from .constraint_registry import biject_to, transform_to
from .distribution import Distribution
from .exp_family import ExponentialFamily
from .exponential import Exponential
from .gumbel import Gumbel
from .half_cauchy import HalfCauchy
from .half_normal import HalfNormal
from .independent import Independent
from .kl import kl_divergence, register_kl
from .laplace import Laplace
from .log_normal import LogNormal
from .multivariate_normal import MultivariateNormal
from .normal import Normal
from .transformed_distribution import TransformedDistribution
from .transforms import *  # noqa: F403
from .uniform import Uniform
from .weibull import Weibull

del kl_continuous  # imported for the formulas that it registers

__all__ = [
    "Cauchy", "Distribution", "Exponential", "ExponentialFamily", "Gumbel", "HalfCauchy", "HalfNormal", "Independent",
    "Laplace", "LogNormal", "MultivariateNormal", "Normal", "TransformedDistribution", "Uniform", "Weibull",
    "biject_to", "constraint_registry", "constraints", "kl", "kl_divergence", "register_kl", "transform_to",
    "transforms", "utils",
]  # fmt: skip
__all__ += transforms.__all__


def __dir__() -> list[str]:
    return list(__all__)
