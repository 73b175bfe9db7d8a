"""The linear layer: a product with a weight, plus a bias."""

from __future__ import annotations

import math

from ... import backend
from ...core.extend import SAME, aligned, as_it_is, defop, example, rank
from ..linalg.matmul import batch_gemm, check_expands, multiplied, rows, show_shapes


def _linear(xp, x, weight, bias=None):
    if x.ndim == 2 and weight.ndim == 2 and x.shape[1] == weight.shape[1]:
        out = backend.matmul(x, weight.T)
    else:
        out = _linear_of_any_rank(xp, x, weight)
    if bias is not None:
        check_expands(bias, out.shape)
        out += bias
    return out


def _check_linear(x_shape, weight_shape):
    if not x_shape or not weight_shape:
        raise RuntimeError("both arguments to linear need to be at least 1D, but they are "
                           f"{len(x_shape)}D and {len(weight_shape)}D")
    if len(weight_shape) > 2:
        raise RuntimeError("linear: expected a weight of 2 dimensions, (out, in), or of 1, (in), but got "
                           f"{len(weight_shape)}")
    if x_shape[-1] != weight_shape[-1]:
        if len(weight_shape) == 1:
            raise RuntimeError(f"size mismatch, got input {list(x_shape)}, vec {list(weight_shape)}")
        folded = (math.prod(x_shape[:-1]), x_shape[-1])
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({show_shapes(folded, weight_shape[::-1])})")


def _linear_of_any_rank(xp, x, weight):
    _check_linear(x.shape, weight.shape)
    folded = (math.prod(x.shape[:-1]), x.shape[-1])
    if weight.ndim == 1:
        return backend.dot(x.reshape(folded), weight).reshape(x.shape[:-1])
    return backend.matmul(x.reshape(folded), weight.T).reshape(*x.shape[:-1], weight.shape[0])


def _linear_back_x(F, g, weight):
    if weight.ndim == 1:
        return F.unsqueeze(g, -1) * weight
    return F.gemm(g, weight, False, False) if g.ndim > 1 else F.matmul(g, weight)


def _linear_back_weight(F, g, x):
    if g.ndim < x.ndim:  # a weight of one dimension
        return F.matmul(F.reshape(g, (-1,)), rows(F, x))
    return F.gemm(rows(F, g), rows(F, x), True, False)


def _linear_add_weight(F, into, g, x):
    g = rows(F, g).T if g.ndim == x.ndim else g.reshape(1, -1)
    backend.add_matmul(into if into.ndim == 2 else into[None], g, rows(F, x))


def sum_rows(F, g, bias_shape):
    return g if g.shape == bias_shape else F.sum_to(rows(F, g) if g.ndim > 2 else g, bias_shape)


def _linear_jvp(F, t, x, weight):
    tx, tw, tb = t
    if tw is None:
        return tb if tx is None else F.linear(tx, weight, tb)
    out = F.linear(x, tw, tb)
    return out if tx is None else F.linear(tx, weight, None) + out


def _is_shared(batched, inputs, attributes):
    """Whether all examples have one weight, and fit it."""
    x, weight, bias = inputs
    if batched[1] or batched[2] or weight.ndim != 2 or x.ndim < 2:
        return False
    shape = weight.shape
    return x.shape[-1] == shape[1] and (bias is None or bias.shape == shape[:1])


@as_it_is(_is_shared)
def batch_linear(F, n, batched, x, weight, bias):
    _check_linear(x.shape[batched[0] :], weight.shape[batched[1] :])
    if bias is not None:
        check_expands(example(bias, batched[2]), (*x.shape[batched[0] : -1], *example(weight, batched[1]).shape[:-1]))
    if not (batched[1] or batched[2]):
        return F.linear(x, weight, bias)
    if not batched[1]:
        out = F.linear(x, weight, None)
    elif rank(weight, True) == 1:
        out = F.sum(F.mul(*aligned(F, batched[:2], (x, weight))), -1)
    elif rank(x, batched[0]) == 1:
        out = multiplied(F, n, (batched[1], batched[0]), weight, x)
    else:
        out = batch_gemm(F, n, batched[:2], x, weight, False, True)
    if bias is None:
        return out
    return F.add(*aligned(F, (batched[0] or batched[1], batched[2]), (out, bias)))


@defop
class linear:
    """x @ weightᵀ + bias: x (..., in), weight (out, in), bias (out,) or None; with a weight (in) the result is (...).

    >>> ag.linear(ag.tensor([[1.0, 2.0]]), ag.tensor([[3.0, 4.0], [5.0, 6.0]]), ag.tensor([0.5, 0.0]))
    tensor([[11.5, 17. ]])
    """

    forward = _linear
    grad_x, grad_weight, grad_bias = _linear_back_x, _linear_back_weight, sum_rows
    add_weight = _linear_add_weight
    types = SAME
    jvp, batch = _linear_jvp, batch_linear
    public = "linear", "nn.functional.linear"
