"""nn.functional's activations and dropouts with `inplace`, which selects the in-place operation."""

from __future__ import annotations

import functools
from typing import Any

from .. import ops
from ..core.tensor import Tensor
from ..ops.inplace.record import in_place


@functools.cache
def _in_place(function: Any) -> Any:
    return in_place(function, f"{function.__name__}_")


def _run(function: Any, x: Tensor, inplace: bool, *args: Any) -> Tensor:
    return _in_place(function)(x, *args) if inplace else function(x, *args)


# ---- activations -------------------------------------------------------------------------------------


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0); see ag.relu.

    >>> ag.nn.functional.relu(ag.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return _run(ops.relu, input, inplace)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x, 0), 6); see ag.relu6.

    >>> ag.nn.functional.relu6(ag.tensor([-1.0, 8.0]))
    tensor([0., 6.])
    """
    return _run(ops.relu6, input, inplace)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where x > 0, else alpha * (exp(x) - 1); see ag.elu.

    >>> ag.nn.functional.elu(ag.tensor([0.0, 2.0]))
    tensor([0., 2.])
    """
    return _run(ops.elu, input, inplace, alpha)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where x > 0, else alpha * (exp(x / alpha) - 1); see ag.celu.

    >>> ag.nn.functional.celu(ag.tensor([0.0, 2.0]))
    tensor([0., 2.])
    """
    return _run(ops.celu, input, inplace, alpha)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """scale * elu(x, alpha), with constants that preserve mean and variance; see ag.selu.

    >>> ag.nn.functional.selu(ag.tensor([0.0]))
    tensor([0.])
    """
    return _run(ops.selu, input, inplace)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x where x > 0, else negative_slope * x; see ag.leaky_relu.

    >>> ag.nn.functional.leaky_relu(ag.tensor([-2.0, 2.0]), 0.5)
    tensor([-1.,  2.])
    """
    return _run(ops.leaky_relu, input, inplace, negative_slope)


def rrelu(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """x where x > 0, else x times a slope, random in training; see ag.rrelu.

    >>> ag.nn.functional.rrelu(ag.tensor([-2.0, 2.0]), 0.25, 0.75)
    tensor([-1.,  2.])
    """
    return _run(ops.rrelu, input, inplace, lower, upper, training)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """x limited to [min_val, max_val]; see ag.hardtanh.

    >>> ag.nn.functional.hardtanh(ag.tensor([-2.0, 0.5]))
    tensor([-1. ,  0.5])
    """
    return _run(ops.hardtanh, input, inplace, min_val, max_val)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """(x + 3) / 6 limited to [0, 1]; see ag.hardsigmoid.

    >>> ag.nn.functional.hardsigmoid(ag.tensor([0.0, 4.0]))
    tensor([0.5, 1. ])
    """
    return _run(ops.hardsigmoid, input, inplace)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * hardsigmoid(x); see ag.hardswish.

    >>> ag.nn.functional.hardswish(ag.tensor([0.0, 4.0]))
    tensor([0., 4.])
    """
    return _run(ops.hardswish, input, inplace)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x * sigmoid(x); see ag.silu.

    >>> ag.nn.functional.silu(ag.tensor([0.0]))
    tensor([0.])
    """
    return _run(ops.silu, input, inplace)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * tanh(softplus(x)); see ag.mish.

    >>> ag.nn.functional.mish(ag.tensor([0.0]))
    tensor([0.])
    """
    return _run(ops.mish, input, inplace)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x where x > threshold, else value; see ag.threshold.

    >>> ag.nn.functional.threshold(ag.tensor([1.0, 2.0]), 1.5, 7.0)
    tensor([7., 2.])
    """
    return _run(ops.threshold, input, inplace, threshold, value)


# ---- dropouts ----------------------------------------------------------------------------------------


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """In training, zero with probability p and x / (1 - p) otherwise; see ag.dropout.

    >>> ag.nn.functional.dropout(ag.ones(2), 1.0)
    tensor([0., 0.])
    """
    return _run(ops.dropout, input, inplace, p, training)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """`dropout` of whole channels of (N, C, L) or (C, L); see ag.dropout1d.

    >>> ag.nn.functional.dropout1d(ag.ones(1, 2), 1.0)
    tensor([[0., 0.]])
    """
    return _run(ops.dropout1d, input, inplace, p, training)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """`dropout` of whole channels of (N, C, H, W); see ag.dropout2d.

    >>> ag.nn.functional.dropout2d(ag.ones(1, 1, 1, 2), 1.0)
    tensor([[[[0., 0.]]]])
    """
    return _run(ops.dropout2d, input, inplace, p, training)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """`dropout` of whole channels of (N, C, D, H, W) or (C, D, H, W); see ag.dropout3d.

    >>> ag.nn.functional.dropout3d(ag.ones(1, 1, 1, 2), 1.0)
    tensor([[[[0., 0.]]]])
    """
    return _run(ops.dropout3d, input, inplace, p, training)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout that preserves mean and variance after selu; see ag.alpha_dropout.

    >>> ag.nn.functional.alpha_dropout(ag.ones(2), 1.0)
    tensor([1., 1.])
    """
    return _run(ops.alpha_dropout, input, inplace, p, training)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """`alpha_dropout` of whole channels; see ag.feature_alpha_dropout.

    >>> ag.nn.functional.feature_alpha_dropout(ag.ones(1, 1, 2), 1.0)
    tensor([[[1., 1.]]])
    """
    return _run(ops.feature_alpha_dropout, input, inplace, p, training)
