"""Piecewise linear activations, and hardswish. Docstrings say what the derivative is where it is discontinuous.

NaN propagates. Second derivatives are zeros that depend on x, so that asking for them is no error: see `chosen`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import backend
from ...backend.arrays import dtypes
from ...backend.cpu import numpy_ops
from ...core.extend import (
    BROADCASTING,
    ELEMENTWISE,
    FLOAT,
    LINEAR,
    PROMOTE,
    SAME,
    ZERO,
    Tensor,
    aligned,
    defop,
    expanded,
    public,
)
from ...errors import ArgumentError
from .._support.half_precision import in_float32
from .._support.pointwise import one_kernel, pulled
from ..shape.reshape import reshape
from .activation import times
from .activation_kernels import grad_forward, value_forward


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


def _leaky_relu(xp, x, *, negative_slope=0.01):
    if 0 < negative_slope <= 1:
        return xp.maximum(x, x * negative_slope)
    return backend.where(xp, x > 0, x, x * negative_slope)


def _leaky_relu_grad(xp, h, x, *, negative_slope=0.01):
    return backend.where(xp, x > 0, h, h * negative_slope)


@defop
class leaky_relu:
    """x where x > 0, else negative_slope * x; the derivative at 0 is negative_slope.

    >>> ag.leaky_relu(ag.tensor([-1.0, 2.0]), 0.1)
    tensor([-0.1,  2. ])
    """

    forward, cuda = in_float32(_leaky_relu, passes=True), value_forward("leaky_relu")
    def grad_x(F, g, x, negative_slope): return F.leaky_relu_grad(g, x, negative_slope)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    takes_out = False
    public = "leaky_relu", "leaky_relu_", "nn.functional.leaky_relu_"
    torch = "nn.functional.leaky_relu"


@defop
class leaky_relu_grad:
    """h where x > 0, else negative_slope * h: the gradient of `leaky_relu`. The derivative by x is zero.

    >>> from autograd_gpu.ops.nn.piecewise_activations import leaky_relu_grad
    >>> leaky_relu_grad(ag.tensor([3.0, 4.0]), ag.tensor([-1.0, 2.0]), 0.5)
    tensor([1.5, 4. ])
    """

    forward, cuda = in_float32(_leaky_relu_grad), grad_forward("leaky_relu")
    def grad_h(F, g, x, negative_slope): return F.leaky_relu_grad(g, x, negative_slope)
    grad_x = ZERO
    types, broadcasts = FLOAT, True
    jvp, batch = ELEMENTWISE, BROADCASTING


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


def _clamped(xp: Any, x: Any, low: float, high: float) -> Any:
    """x limited to [low, high], as a new array."""
    return backend.limited(xp, x, low, high, backend.empty_like(xp, x))


def _hardtanh(xp, x, *, min_val=-1.0, max_val=1.0):
    if min_val > max_val:
        raise ArgumentError("min_val cannot be greater than max_val")
    if x.dtype in dtypes.FLOATS:
        return _clamped(xp, x, min_val, max_val)
    if x.dtype == bool:
        raise RuntimeError("Bool inputs not supported for hardtanh; convert with .float() first")
    if x.dtype.kind == "u" and min_val < 0:
        raise RuntimeError("cannot do hardtanh on an unsigned type with negative limits")
    return _clamped(xp, x, int(min_val), int(max_val))


def _hardtanh_back(F, g, x, min_val, max_val):
    return F.chosen(x, F.logical_or(x <= min_val, x >= max_val), 0.0, g)


@defop
class hardtanh:
    """x limited to [min_val, max_val]; at the limits the derivative is 0. Integers stay integers.

    >>> ag.hardtanh(ag.tensor([-2.0, 0.5, 2.0]))
    tensor([-1. ,  0.5,  1. ])
    """

    forward, cuda = in_float32(_hardtanh, passes=True), one_kernel("hardtanh", _hardtanh)
    grad_x = _hardtanh_back
    def fused_cuda(F, g, need, x, min_val, max_val): return pulled("hardtanh", g, x, min_val=min_val, max_val=max_val)
    jvp, batch = ELEMENTWISE, BROADCASTING
    takes_out = False
    public = "hardtanh", "hardtanh_", "nn.functional.hardtanh_"
    torch = "nn.functional.hardtanh"


@public()
def relu6(x: Tensor) -> Tensor:
    """x limited to [0, 6]; at the limits the derivative is 0.

    >>> ag.relu6(ag.tensor([-2.0, 0.5, 8.0]))
    tensor([0. , 0.5, 6. ])
    """
    return hardtanh(x, 0.0, 6.0)


def _hardsigmoid(xp, x):
    out = xp.add(x, 3, out=backend.empty_like(xp, x))
    backend.limited(xp, out, 0, 6, out)
    return xp.multiply(out, 1 / 6, out=out)


@defop
class hardsigmoid:
    """(x + 3) / 6 limited to [0, 1]; at the limits the derivative is 0.

    >>> ag.hardsigmoid(ag.tensor([-4.0, 0.0, 1.5]))
    tensor([0.  , 0.5 , 0.75])
    """

    forward, cuda = in_float32(_hardsigmoid, passes=True), one_kernel("hardsigmoid")
    def grad_x(F, g, x): return F.chosen(x, F.logical_and(x > -3, x < 3), g * (1 / 6), 0.0)
    def fused_cuda(F, g, need, x): return pulled("hardsigmoid", g, x)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    takes_out = False
    public = True


def _hardswish_back(F, g, x):
    return F.where(x >= 3, g, F.where(x <= -3, 0.0, g * (x * (1 / 3) + 0.5)))


@defop
class hardswish:
    """x * hardsigmoid(x); the derivative is 0 at -3 and 1 at 3.

    >>> ag.hardswish(ag.tensor([-4.0, 1.5, 4.0]))
    tensor([-0.   ,  1.125,  4.   ])
    """

    @in_float32
    def forward(xp, x): return times(xp, x, _hardsigmoid(xp, x))
    cuda = one_kernel("hardswish")
    grad_x = _hardswish_back
    def fused_cuda(F, g, need, x): return pulled("hardswish", g, x)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    takes_out = False
    public = True
    torch = "nn.functional.hardswish"


# ---- hardshrink, softshrink, threshold -----------------------------------------------------------------


def _within(F, x, limit):
    return F.logical_and(x >= -limit, x <= limit)


def _hardshrink(xp, x, *, lambd=0.5):
    return backend.where(xp, xp.absolute(x) <= lambd, 0.0, x)


@defop
class hardshrink:
    """x where |x| > lambd, else 0; at the limits the derivative is 0.

    >>> ag.hardshrink(ag.tensor([-1.0, 0.3, 2.0]))
    tensor([-1.,  0.,  2.])
    """

    forward, cuda = in_float32(_hardshrink, passes=True), one_kernel("hardshrink")
    def grad_x(F, g, x, lambd): return F.chosen(x, _within(F, x, lambd), 0.0, g)
    def fused_cuda(F, g, need, x, lambd): return pulled("hardshrink", g, x, lambd=lambd)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = "hardshrink", "nn.functional.hardshrink"
    methods = True


def _softshrink(xp, x, *, lambd=0.5):
    if lambd < 0:
        raise RuntimeError(f"lambda must be greater or equal to 0, but found to be {lambd}.")
    out = _clamped(xp, x, -lambd, lambd)
    return xp.subtract(x, out, out=out)


@defop
class softshrink:
    """x moved towards 0 by lambd, and 0 where |x| <= lambd; at the limits the derivative is 0.

    RuntimeError if lambd < 0.

    >>> ag.softshrink(ag.tensor([-1.0, 0.3, 2.0]))
    tensor([-0.5,  0. ,  1.5])
    """

    forward, cuda = in_float32(_softshrink, passes=True), one_kernel("softshrink")
    def grad_x(F, g, x, lambd): return F.chosen(x, _within(F, x, lambd), 0.0, g)
    def fused_cuda(F, g, need, x, lambd): return pulled("softshrink", g, x, lambd=lambd)
    types = FLOAT
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = "softshrink", "nn.functional.softshrink"


def _threshold(xp, x, *, threshold, value):
    return backend.where(xp, x <= threshold, x.dtype.type(value), x)


@defop
class threshold:
    """x where x > threshold, else `value`, where the derivative is 0. Integers stay integers.

    >>> ag.threshold(ag.tensor([-1.0, 0.3, 2.0]), 0.5, 20.0)
    tensor([20., 20.,  2.])
    """

    forward, cuda = in_float32(_threshold, passes=True), one_kernel("threshold", _threshold)
    def grad_x(F, g, x, threshold): return F.chosen(x, x <= threshold, 0.0, g)
    def fused_cuda(F, g, need, x, threshold): return pulled("threshold", g, x, threshold=threshold)
    types = PROMOTE
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = "threshold", "threshold_", "nn.functional.threshold_"
