"""Covariance and correlation."""

from __future__ import annotations

from typing import Any

from ...core.extend import Tensor, check_values, public
from ..elementwise.clamp import clamp, clamp_min
from ..elementwise.unary import sqrt
from ..linalg.matmul import matmul
from ..shape.diagonal import diagonal
from ..shape.permute import transpose
from ..shape.reshape import reshape, unsqueeze
from .sum import mean, sum


def _check_weights(name: str, weights: Tensor | None, n: int, whole: bool) -> None:
    """PyTorch's checks of `fweights`, which are integers, or `aweights`, which are floats."""
    if weights is None:
        return
    kind = "integral" if whole else "floating point"
    if weights.ndim > 1:
        raise RuntimeError(f"cov(): expected {name} to have one or fewer dimensions but got {name} with {weights.ndim} "
                           "dimensions")
    if weights.is_floating_point() is whole:
        raise RuntimeError(f"cov(): expected {name} to have {kind} dtype but got {name} with {weights.dtype} dtype")
    if weights.numel() != n:
        raise RuntimeError(f"cov(): expected {name} to have the same numel as there are observations in the input but "
                           f"got {weights.numel()} and {n}")
    if weights.numel():
        check_values(weights, lambda values: _refuse_negative(name, values))


def _refuse_negative(name: str, weights: Any) -> None:
    if (weights < 0).any():
        raise RuntimeError(f"cov(): {name} cannot be negative")


@public(methods=True)
def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:  # fmt: skip
    """The covariance matrix of variables (rows of input) over observations (columns); of a single row the variance.

    `fweights` are counts of the observations, `aweights` their weights. The divisor is the sum of the weights minus
    `correction` times their mean weighted by aweights, at least 0.

    >>> ag.cov(ag.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    if input.ndim > 2:
        raise RuntimeError(f"cov(): expected input to have two or fewer dimensions but got an input with {input.ndim} "
                           "dimensions")
    if not input.is_floating_point():
        input = input.float()
    rows = input if input.ndim == 2 else reshape(input, (1, -1))
    n = rows.shape[1]
    _check_weights("fweights", fweights, n, True)
    _check_weights("aweights", aweights, n, False)
    factors = [w.to(input.dtype) for w in (fweights, aweights) if w is not None]
    if not factors:
        away = scaled = rows - mean(rows, 1, True)
        freedom: Any = max(n - correction, 0)
    else:
        weights = factors[0] if len(factors) == 1 else factors[0] * factors[1]
        total = sum(weights)
        away = rows - unsqueeze(matmul(rows, weights) / total, 1)
        scaled = away * weights
        lost = correction if aweights is None else sum(weights * aweights) / total * correction
        freedom = clamp_min(total - lost, 0.0)
    result = matmul(away, transpose(scaled, 0, 1)) / freedom
    return reshape(result, ()) if rows.shape[0] == 1 else result


@public(methods=True)
def corrcoef(input: Tensor) -> Tensor:
    """Pearson's correlation coefficients of variables (rows of input) over observations (columns), within [-1, 1].

    >>> ag.corrcoef(ag.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    if input.ndim > 2:
        raise RuntimeError("corrcoef(): expected input to have two or fewer dimensions but got an input with "
                           f"{input.ndim} dimensions")
    c = cov(input)
    if not c.ndim:
        return c / c
    deviation = sqrt(diagonal(c))
    return clamp(c / unsqueeze(deviation, 1) / deviation, -1.0, 1.0)
