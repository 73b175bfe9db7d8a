"""The chi-squared distribution."""

from __future__ import annotations

from typing import ClassVar

from ..core.tensor import Tensor
from . import constraints
from .gamma import Gamma


class Chi2(Gamma):
    """Chi-squared distributions with `df` degrees of freedom: Gamma(df / 2, 1 / 2).

    >>> from autograd_gpu.distributions import Chi2
    >>> Chi2(ag.tensor([1.0, 3.0])).mean
    tensor([1., 3.])
    """

    arg_constraints: ClassVar = {"df": constraints.positive}
    _ag_expands = ("concentration", "rate")

    def __init__(self, df: Tensor | float, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self) -> Tensor:
        """The degrees of freedom."""
        return self.concentration * 2
