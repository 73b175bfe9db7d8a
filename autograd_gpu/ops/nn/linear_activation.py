"""A linear layer with its activation: one product, and one pass for bias and activation.

1. `linear_activation` is the product, then act(z + bias) as one op: `bias_activation` for relu, tanh and sigmoid, whose
   derivatives need their result alone, or `bias_activation_by_sum`, which saves z and the bias.
2. The gradients for z and for the bias are one pass: `curved_grad`, or `kinked_grad` of relu and leaky_relu, whose
   second derivative is zero.
3. The gradients of those are one pass as well, where no further graph is wanted.

On CUDA a pass is one kernel (docs/kernels.md); on the CPU it goes by blocks of rows that stay in the cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ... import backend
from ...backend import kernels
from ...backend.arrays.dtypes import FLOATS, HALF, float32
from ...core.extend import RAW, RECORD, SAME, ZERO, Tensor, aligned, defop, expanded, public
from .activation import BLOCK
from .activation_formulas import CURVES, parameters_of
from .linear import linear, sum_rows

Array = Any

# ---- passes over arrays ------------------------------------------------------------------------------


def _named(activation: str, parameters: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(CURVES[activation].defaults, parameters, strict=True))


def _in_blocks(*arrays: Array) -> Iterator[tuple[Array, ...]]:
    """Arrays of one shape as matrices, by blocks of rows."""
    rows, cols = arrays[0].size // max(arrays[0].shape[-1], 1), arrays[0].shape[-1]
    matrices, step = [a.reshape(rows, cols) for a in arrays], max(BLOCK // max(cols, 1), 1)
    for i in range(0, rows, step):
        yield tuple([m[i : i + step] for m in matrices])


def _wide(array: Array | None) -> Array:
    """In the dtype that a pass computes in; 0 in place of a missing bias."""
    return 0 if array is None else array.astype(float32) if array.dtype in HALF else array


def _activated(xp, z, bias, *, activation, parameters=()):
    if xp is not np:
        z, bias = map(kernels.contiguous, (z, bias))
        return kernels.bias_activation(activation, z, bias, **_named(activation, parameters))
    value = CURVES[activation].value
    if z.size <= BLOCK and z.itemsize > 2:
        return value(RAW, z + bias, *parameters)
    out, bias = backend.empty(np, z.shape, z.dtype), _wide(bias)
    for block, target in _in_blocks(z, out):
        target[...] = value(RAW, _wide(block) + bias, *parameters)
    return out


def _slopes(xp, h, saved, bias=None, *, activation, parameters=()):
    """h * act'(saved + bias), and its column sums."""
    if xp is not np:
        h, saved, bias = map(kernels.contiguous, (h, saved, bias))
        return kernels.bias_activation_backward(activation, h, saved, bias, **_named(activation, parameters))
    slope = CURVES[activation].slope
    if saved.size <= BLOCK and saved.itemsize > 2:
        dz = slope(RAW, h, saved if bias is None else saved + bias, *parameters)
        return dz, backend.total(np, dz, 0 if dz.ndim == 2 else tuple(range(dz.ndim - 1)))
    dz, bias = backend.empty(np, saved.shape, saved.dtype), _wide(bias)
    sums = [np.zeros(saved.shape[-1:], _wide(saved[..., :0]).dtype)]
    for g, block, target in _in_blocks(h, saved, dz):
        part = slope(RAW, _wide(g), _wide(block) + bias, *parameters)
        sums.append(backend.total(np, part, 0))
        target[...] = part
    return dz, backend.total(np, np.stack(sums), 0).astype(saved.dtype)


# ---- derivatives, tangents and batches of all four ops ----------------------------------------------------


def _at(saved: Any, bias: Any) -> Any:
    """Where the derivatives are taken: what the activation got, or its result."""
    return saved if bias is None else saved + bias


def _stretched(F, pair, shape):
    """v + row for a matrix v and a row, of which one may be missing."""
    v, row = pair
    if row is None:
        return v
    return F.expand(row, shape) if v is None else v + row


def _back(F, g, need, saved, bias, activation, parameters):
    """The gradients for z and bias."""
    curve = CURVES[activation]
    if need[1]:
        grads = F.kinked_grad if curve.bend is None else F.curved_grad
        return grads(g, saved, bias, activation=activation, parameters=parameters)
    if F is RAW and backend.is_cuda(g):
        g, saved, bias = map(kernels.contiguous, (g, saved, bias))
        named = _named(activation, parameters)
        return kernels.bias_activation_backward(activation, g, saved, bias, need_bias=False, **named)
    return curve.slope(F, g, _at(saved, bias), *parameters), None


def _back_of_kinked(F, g, saved, bias, activation, parameters):
    """The gradient for h, in which (dz, dbias) are linear."""
    if F is RAW and backend.is_cuda(saved):
        return _double_backward(g, (True, False, False), None, saved, bias, activation, parameters)[0]
    return CURVES[activation].slope(F, _stretched(F, g, saved.shape), _at(saved, bias), *parameters)


def _back_of_curved(F, g, need, h, saved, bias, activation, parameters):
    """With v = gg + ggb: v act' for h, and h v act'' for saved and bias."""
    if F is RAW and backend.is_cuda(saved):
        return _double_backward(g, need, h, saved, bias, activation, parameters)
    curve, v, at = CURVES[activation], _stretched(F, g, saved.shape), _at(saved, bias)
    dh = curve.slope(F, v, at, *parameters) if need[0] else None
    if not (need[1] or need[2]):
        return dh, None, None
    ds = v * h * curve.bend(F, at, *parameters)  # type: ignore[misc]  # a curved one has a bend
    return dh, ds, None if bias is None else sum_rows(F, ds, bias.shape)


def _double_backward(g, need, h, saved, bias, activation, parameters):
    """The same by one kernel."""
    gg, ggb, h, saved, bias = map(kernels.contiguous, (*g, h, saved, bias))
    need = (need[0], need[1], need[2] and bias is not None)
    attributes = {"by_result": CURVES[activation].by_result, **_named(activation, parameters)}
    return kernels.bias_activation_double_backward(activation, gg, ggb, h, saved, bias, need, **attributes)


def _push(F, t, saved, bias, activation, parameters):
    """act' times the tangent of the sum."""
    return CURVES[activation].slope(F, _stretched(F, t, saved.shape), _at(saved, bias), *parameters)


def _push_grad(F, t, h, saved, bias, activation, parameters):
    """The tangents of dz and dbias."""
    curve, at = CURVES[activation], _at(saved, bias)
    dz = None if t[0] is None else curve.slope(F, t[0], at, *parameters)
    if curve.bend is not None and (t[1] is not None or t[2] is not None):
        bent = _stretched(F, t[1:], saved.shape) * h * curve.bend(F, at, *parameters)
        dz = bent if dz is None else dz + bent
    return dz, None if dz is None else sum_rows(F, dz, dz.shape[-1:])


def _batch(F, n, batched, z, bias, *, activation, parameters=()):
    z, bias = aligned(F, batched, (z, bias))
    return CURVES[activation].value(F, z + bias, *parameters)


def _batch_grad(F, n, batched, h, saved, bias=None, *, activation, parameters=()):
    """As the op, but that the sums leave the examples apart."""
    if bias is not None:
        (saved, bias), b = aligned(F, batched[1:], (saved, bias)), batched[1] or batched[2]
        saved, batched = saved + bias, (batched[0], b)
    h, saved = expanded(F, n, batched[:2], (h, saved))
    dz = CURVES[activation].slope(F, h, saved, *parameters)
    return dz, F.sum(dz, tuple(range(1, dz.ndim - 1))) if dz.ndim > 2 else dz


# ---- the ops -----------------------------------------------------------------------------------------


@defop
class bias_activation:
    """act(z + bias) for z (..., n), bias (n,) and relu, tanh or sigmoid.

    >>> from autograd_gpu.ops.nn.linear_activation import bias_activation
    >>> bias_activation(ag.tensor([[-2.0, 3.0]]), ag.tensor([1.0, 1.0]), activation="relu")
    tensor([[0., 4.]])
    """

    forward = _activated
    def grads(F, g, need, out, activation, parameters): return _back(F, g, need, out, None, activation, parameters)
    def jvp(F, t, out, activation, parameters): return _push(F, t, out, None, activation, parameters)
    types, batch = SAME, _batch


@defop
class bias_activation_by_sum:
    """act(z + bias) for z (..., n), bias (n,) and an activation whose derivative is one of z.

    >>> from autograd_gpu.ops.nn.linear_activation import bias_activation_by_sum
    >>> bias_activation_by_sum(ag.tensor([[-3.0, 3.0]]), ag.ones(2), activation="leaky_relu", parameters=(0.5,))
    tensor([[-1.,  4.]])
    """

    forward = _activated
    def grads(F, g, need, z, bias, activation, parameters): return _back(F, g, need, z, bias, activation, parameters)
    def jvp(F, t, z, bias, activation, parameters): return _push(F, t, z, bias, activation, parameters)
    types, batch = SAME, _batch


@defop
class kinked_grad:
    """h * act'(saved) of relu (saved is its result) or leaky_relu, and the column sums of that; see `curved_grad`.

    >>> from autograd_gpu.ops.nn.linear_activation import kinked_grad
    >>> kinked_grad(ag.ones(2, 2), ag.tensor([[0.0, 1.0], [2.0, 3.0]]), activation="relu").dbias
    tensor([1., 2.])
    """

    forward = _slopes
    grad_h = _back_of_kinked
    grad_saved = grad_bias = ZERO
    outputs, types = ("dz", "dbias"), SAME
    jvp, batch = _push_grad, _batch_grad


@defop
class curved_grad:
    """h * act'(saved + bias), and the column sums of that: the gradients for z and bias. What is saved is the result of
    tanh or sigmoid, without a bias, else z.

    >>> from autograd_gpu.ops.nn.linear_activation import curved_grad
    >>> curved_grad(ag.ones(2, 1), ag.zeros(2, 1), activation="tanh").dbias
    tensor([2.])
    """

    forward = _slopes
    grads = _back_of_curved
    outputs, types = ("dz", "dbias"), SAME
    jvp, batch = _push_grad, _batch_grad


@public("nn.functional.linear_activation")
def linear_activation(
    input: Tensor, weight: Tensor, bias: Tensor | None, activation: str = "relu", **parameters: Any
) -> Tensor:
    """act(input @ weightᵀ + bias) for input (..., in), weight (out, in) and bias (out,): `linear` and an activation.

    The activations and their parameters: relu, tanh, sigmoid, silu, leaky_relu (negative_slope=0.01), elu and celu
    (alpha=1), gelu (approximate="none"), softplus (beta=1, threshold=20), and sine (frequency=1), sin(frequency * z).
    One product and one kernel, and backward two products and one kernel; `nn.Sequential` does it for a Linear with such
    an activation behind it. Without a bias, or with one of another shape or dtype, it is the two ops. ValueError for
    another activation, TypeError for a parameter that it has not.

    >>> ag.nn.functional.linear_activation(ag.ones(1, 2), ag.tensor([[1.0, 1.0], [-1.0, 0.0]]), ag.zeros(2))
    tensor([[2., 0.]])
    """
    numbers = parameters_of(activation, parameters)
    return activated(input, weight, bias, activation, numbers)


def activated(input: Any, weight: Any, bias: Any, activation: str, parameters: tuple[Any, ...]) -> Any:
    """`linear_activation` with all parameters given."""
    curve = CURVES[activation]
    if not _fits(weight, bias):
        return curve.value(RECORD, linear(input, weight, bias), *parameters)
    op = bias_activation if curve.by_result else bias_activation_by_sum
    return op(linear(input, weight), bias, activation, parameters)


def _fits(weight: Any, bias: Any) -> bool:
    """Whether there is a bias for each row of the weight, in its dtype."""
    if not (isinstance(weight, Tensor) and isinstance(bias, Tensor)):
        return False
    w, b = weight._array, bias._array
    return b.ndim == 1 and b.shape[0] == w.shape[0] and b.dtype is w.dtype and b.dtype in FLOATS
