"""Piecewise linear activations, and hardswish. Docstrings say what the derivative is where it is discontinuous.

NaN propagates. Where the derivative at a kink is not the one by the rules it is stated, as in PyTorch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import backend
from ...backend.cpu import numpy_ops
from ...backend.formulas import expression as formulas
from ...core.extend import (
    ANY,
    BROADCASTING,
    ELEMENTWISE,
    LINEAR,
    PROMOTE,
    SAME,
    ZERO,
    Tensor,
    aligned,
    defop,
    expanded,
    pointwise,
    public,
)
from ...errors import ArgumentError
from .._support.half_precision import in_float32
from ..shape.reshape import reshape


def _chosen_batch(F, n, batched, x, condition, a, b):
    if not any(batched[1:]):  # only x is batched: the result does not depend on it, but needs the batch dimension
        [condition] = expanded(F, n, batched[1:2], [condition])
        batched = (True, True, False, False)
    return F.chosen(*aligned(F, batched, (x, condition, a, b)))


@defop
class chosen:
    """a where condition holds, else b; x, from which the condition was computed, has the derivative zero.

    With `where` alone the gradient of leaky_relu would not depend on x, and its derivative by x would be an error.

    >>> from autograd_gpu.ops.nn.piecewise_activations import chosen
    >>> x = ag.tensor([-1.0, 2.0])
    >>> chosen(x, x > 0, ag.tensor([3.0, 4.0]), 0.0)
    tensor([0., 4.])
    """

    def forward(xp, x, condition, a, b): return backend.where(xp, condition, a, b)
    grad_x = ZERO
    def grad_a(F, g, x, condition): return F.chosen(x, condition, g, 0.0)
    def grad_b(F, g, x, condition): return F.chosen(x, condition, 0.0, g)
    integral, promoted = ("condition",), ("a", "b")
    types, broadcasts, numbers, selects_only = PROMOTE, True, True, True
    jvp, batch = LINEAR, _chosen_batch
    keeps_layout = True


# ---- leaky_relu and prelu ------------------------------------------------------------------------------


@formulas.with_derivative(lambda x, slope: formulas.select(x > 0, 1, slope))
def _larger(x: Any, slope: Any) -> Any:
    return formulas.maximum(x, x * slope)


@pointwise
class leaky_relu:
    """x where x > 0, else negative_slope * x; the derivative at 0 is negative_slope.

    >>> ag.leaky_relu(ag.tensor([-1.0, 2.0]), 0.1)
    tensor([-0.1,  2. ])
    """

    def formula(x, *, negative_slope=0.01, gentle=lambda negative_slope: 0 < negative_slope <= 1):
        if gentle:
            return _larger(x, negative_slope)
        return formulas.select(x > 0, x, x * negative_slope)
    takes_out = False
    public = "leaky_relu", "leaky_relu_", "nn.functional.leaky_relu_"
    torch = "nn.functional.leaky_relu"


@pointwise
class leaky_relu_grad:
    """h where x > 0, else negative_slope * h: the gradient of `leaky_relu`. The derivative by x is zero.

    >>> from autograd_gpu.ops.nn.piecewise_activations import leaky_relu_grad
    >>> leaky_relu_grad(ag.tensor([3.0, 4.0]), ag.tensor([-1.0, 2.0]), 0.5)
    tensor([1.5, 4. ])
    """

    derivative_of = leaky_relu
    grad_x = ZERO


def _prelu(xp, x, weight):
    if type(x) is np.ndarray and weight.size == 1 and x.size > numpy_ops.FEW and 0 < weight.flat[0] <= 1:
        return np.maximum(x, x * weight)
    return backend.where(xp, x > 0, x, x * weight)


@defop
class prelu_kernel:
    """x where x > 0, else weight * x, broadcasting; the derivative at 0 is weight.

    >>> from autograd_gpu.ops.nn.piecewise_activations import prelu_kernel
    >>> prelu_kernel(ag.tensor([-4.0, 2.0]), ag.tensor([0.5]))
    tensor([-2.,  2.])
    """

    forward = in_float32(_prelu)
    def grad_x(F, g, x, weight): return F.chosen(x, x > 0, g, g * weight)
    def grad_weight(F, g, x): return F.where(x > 0, 0.0, g * x)
    types, broadcasts = SAME, True
    jvp, batch = ELEMENTWISE, BROADCASTING


@public("prelu", "nn.functional.prelu", methods=True)
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """input where input > 0, else weight * input, with one weight for all or one per channel (dimension 1 of input).

    RuntimeError for any other number of weights, and for different dtypes.

    >>> ag.prelu(ag.tensor([[-4.0, -2.0]]), ag.tensor([0.5, 0.25]))
    tensor([[-2. , -0.5]])
    """
    if weight.ndim > 1:
        raise RuntimeError(f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}")
    if weight.numel() != 1:
        if not input.ndim:
            raise RuntimeError("Not allow zero-dim input tensor.")
        channels = input.shape[1] if input.ndim > 1 else 1
        if channels != weight.numel():
            raise RuntimeError("Mismatch of parameter numbers and input channel size. Found parameter numbers = "
                               f"{weight.numel()} and channel size = {channels}.")
        weight = weight if input.ndim == 2 else reshape(weight, (channels,) + (1,) * (input.ndim - 2))
    elif weight.ndim and not input.ndim:
        weight = reshape(weight, ())
    return prelu_kernel(input, weight)


# ---- hardtanh, hardsigmoid, hardswish ------------------------------------------------------------------


@formulas.with_derivative(lambda x, low, high: formulas.select((x <= low) | (x >= high), 0, 1))
def _limited(x: Any, low: Any, high: Any) -> Any:
    return formulas.minimum(formulas.maximum(x, low), high)


def _hardtanh_of_integers(xp: Any, x: Any, *, min_val: float = -1.0, max_val: float = 1.0) -> Any:
    _check_limits(min_val, max_val)
    if x.dtype == bool:
        raise RuntimeError("Bool inputs not supported for hardtanh; convert with .float() first")
    if x.dtype.kind == "u" and min_val < 0:
        raise RuntimeError("cannot do hardtanh on an unsigned type with negative limits")
    return backend.limited(xp, x, int(min_val), int(max_val), backend.empty_like(xp, x))


def _check_limits(min_val: float, max_val: float) -> None:
    if min_val > max_val:
        raise ArgumentError("min_val cannot be greater than max_val")


@pointwise
class hardtanh:
    """x limited to [min_val, max_val]; at the limits the derivative is 0. Integers stay integers.

    >>> ag.hardtanh(ag.tensor([-2.0, 0.5, 2.0]))
    tensor([-1. ,  0.5,  1. ])
    """

    def formula(x, *, min_val=-1.0, max_val=1.0): return _limited(x, min_val, max_val)
    check, integers = _check_limits, _hardtanh_of_integers
    types, takes_out = ANY, False
    public = "hardtanh", "hardtanh_", "nn.functional.hardtanh_"
    torch = "nn.functional.hardtanh"


@public()
def relu6(x: Tensor) -> Tensor:
    """x limited to [0, 6]; at the limits the derivative is 0.

    >>> ag.relu6(ag.tensor([-2.0, 0.5, 8.0]))
    tensor([0. , 0.5, 6. ])
    """
    return hardtanh(x, 0.0, 6.0)


def _hardsigmoid_slope(x: Any) -> Any:
    return formulas.select((x > -3) & (x < 3), 1 / 6, 0)


@formulas.with_derivative(_hardsigmoid_slope)
def _hardsigmoid(x: Any) -> Any:
    return (formulas.minimum(formulas.maximum(x, -3), 3) + 3) * (1 / 6)


@pointwise
class hardsigmoid:
    """(x + 3) / 6 limited to [0, 1]; at the limits the derivative is 0.

    >>> ag.hardsigmoid(ag.tensor([-4.0, 0.0, 1.5]))
    tensor([0.  , 0.5 , 0.75])
    """

    def formula(x): return _hardsigmoid(x)
    takes_out = False
    public = True


def _hardswish_slope(x: Any) -> Any:
    return formulas.select(x >= 3, 1, formulas.select(x <= -3, 0, x * (1 / 3) + 0.5))


@pointwise
class hardswish:
    """x * hardsigmoid(x); the derivative is 0 at -3 and 1 at 3.

    >>> ag.hardswish(ag.tensor([-4.0, 1.5, 4.0]))
    tensor([-0.   ,  1.125,  4.   ])
    """

    @formulas.with_derivative(_hardswish_slope)
    def formula(x): return x * _hardsigmoid(x)
    takes_out = False
    public = True
    torch = "nn.functional.hardswish"


# ---- hardshrink, softshrink, threshold -----------------------------------------------------------------


def _shrink_slope(x: Any, lambd: Any) -> Any:
    return formulas.select(formulas.absolute(x) <= lambd, 0, 1)


@pointwise
class hardshrink:
    """x where |x| > lambd, else 0; at the limits the derivative is 0.

    >>> ag.hardshrink(ag.tensor([-1.0, 0.3, 2.0]))
    tensor([-1.,  0.,  2.])
    """

    def formula(x, *, lambd=0.5): return formulas.select(formulas.absolute(x) <= lambd, 0, x)
    public = "hardshrink", "nn.functional.hardshrink"
    methods = True


@formulas.with_derivative(_shrink_slope)
def _softshrink(x: Any, lambd: Any) -> Any:
    return x - formulas.minimum(formulas.maximum(x, -lambd), lambd)


@pointwise
class softshrink:
    """x moved towards 0 by lambd, and 0 where |x| <= lambd; at the limits the derivative is 0.

    RuntimeError if lambd < 0.

    >>> ag.softshrink(ag.tensor([-1.0, 0.3, 2.0]))
    tensor([-0.5,  0. ,  1.5])
    """

    def formula(x, *, lambd=0.5): return _softshrink(x, lambd)

    def check(lambd):
        if lambd < 0:
            raise RuntimeError(f"lambda must be greater or equal to 0, but found to be {lambd}.")

    public = "softshrink", "nn.functional.softshrink"


def _threshold_of_integers(xp: Any, x: Any, *, threshold: float, value: float) -> Any:
    return backend.where(xp, x <= threshold, x.dtype.type(value), x)


@pointwise
class threshold:
    """x where x > threshold, else `value`, where the derivative is 0. Integers stay integers.

    >>> ag.threshold(ag.tensor([-1.0, 0.3, 2.0]), 0.5, 20.0)
    tensor([20., 20.,  2.])
    """

    def formula(x, *, threshold, value): return formulas.select(x <= threshold, value, x)
    integers = _threshold_of_integers
    types = PROMOTE
    public = "threshold", "threshold_", "nn.functional.threshold_"
