"""The optimizers' formulas on arrays, in place, with PyTorch's arithmetic; `chunks.sweep` runs them.

A formula gets (xp, axpby, arrays, work, c): arrays are the parameter p, its gradient g, and its state; work are arrays
for intermediates, s, u and t; c holds the numbers of this step. `axpby(y, x, a, b, work)` is y = a x + b y. All is
written for few passes over memory: constant factors go into axpby, and bias corrections into the step size.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..cpu import numpy_ops
from .chunks import Array, Axpby, by_blas, sweep


class SGDNumbers(NamedTuple):
    """sign is -1 to maximize; damped is 1 - dampening; first marks a momentum buffer that holds nothing yet."""

    sign: float
    lr: float
    decay: float
    momentum: float = 0.0
    damped: float = 1.0
    nesterov: bool = False
    first: bool = False


def sgd(xp: Any, axpby: Axpby, arrays: tuple, work: tuple, c: SGDNumbers) -> None:
    """b = momentum b + damped (g + decay p); p -= lr b, or with nesterov lr (g + decay p + momentum b)."""
    p, g, *buffer = arrays
    s = work[0]
    if buffer:
        (b,) = buffer
        damped = 1.0 if c.first else c.damped
        if c.first:
            xp.multiply(g, c.sign, b)
        else:
            axpby(b, g, damped * c.sign, c.momentum, s)
        if c.decay:
            axpby(b, p, damped * c.decay, 1.0, s)
        if not c.nesterov:
            axpby(p, b, -c.lr, 1.0, s)
            return
    axpby(p, g, -c.lr * c.sign, 1.0 - c.lr * c.decay, s)
    if buffer:
        axpby(p, b, -c.lr * c.momentum, 1.0, s)


def descend(params: list[Array], grads: list[Array], c: SGDNumbers) -> None:
    """Plain gradient descent: one axpby per parameter, which needs no chunks and no work arrays."""
    a, b = -c.lr * c.sign, 1.0 - c.lr * c.decay
    for p, g in zip(params, grads, strict=True):
        if type(p) is np.ndarray and p.dtype.char in "fd" and p.flags.carray and g.flags.carray:
            by_blas(p.reshape(-1), g.reshape(-1), a, b)
        else:
            sweep(sgd, (p, g), c)


class AdamNumbers(NamedTuple):
    """p = keep p - rate m / (sqrt(v) + eps); decay is that of the gradient, keep is below 1 for a decoupled one."""

    sign: float
    decay: float
    keep: float
    beta1: float
    beta2: float
    rate: float
    eps: float


def adam(xp: Any, axpby: Axpby, arrays: tuple, work: tuple, c: AdamNumbers) -> None:
    """Adam and AdamW; the state is exp_avg, exp_avg_sq and with amsgrad the largest exp_avg_sq so far."""
    p, g, m, v, *largest = arrays
    s = work[0]
    _average(xp, axpby, p, g, m, v, work, c)
    if largest:
        (top,) = largest
        v = xp.maximum(top, v, out=top)
    xp.sqrt(v, s)
    xp.add(s, c.eps, s)
    xp.divide(m, s, s)
    axpby(p, s, -c.rate, c.keep, s)


class NAdamNumbers(NamedTuple):
    """As AdamNumbers, with rate m replaced by rate m + rate_now g."""

    sign: float
    decay: float
    keep: float
    beta1: float
    beta2: float
    rate: float
    rate_now: float
    eps: float


def nadam(xp: Any, axpby: Axpby, arrays: tuple, work: tuple, c: NAdamNumbers) -> None:
    """Adam with Nesterov momentum: the gradient counts once more in the step."""
    p, g, m, v = arrays
    s, u, t = work[:3]
    g, sign = _average(xp, axpby, p, g, m, v, work, c)
    xp.multiply(g, sign * c.rate_now, u)
    axpby(u, m, c.rate, 1.0, t)
    xp.sqrt(v, s)
    xp.add(s, c.eps, s)
    xp.divide(u, s, s)
    axpby(p, s, -1.0, c.keep, s)


class RAdamNumbers(NamedTuple):
    """As AdamNumbers; where not adaptive, p = keep p - rate m."""

    sign: float
    decay: float
    keep: float
    beta1: float
    beta2: float
    rate: float
    eps: float
    adaptive: bool


def radam(xp: Any, axpby: Axpby, arrays: tuple, work: tuple, c: RAdamNumbers) -> None:
    """Adam that does without the second moment while there are too few gradients to know it."""
    p, g, m, v = arrays
    s = work[0]
    _average(xp, axpby, p, g, m, v, work, c)
    if not c.adaptive:
        axpby(p, m, -c.rate, c.keep, s)
        return
    xp.sqrt(v, s)
    xp.add(s, c.eps, s)
    xp.divide(m, s, s)
    axpby(p, s, -c.rate, c.keep, s)


class AdamaxNumbers(NamedTuple):
    """p -= rate m / (the decayed largest |g|)."""

    sign: float
    decay: float
    beta1: float
    beta2: float
    rate: float
    eps: float


def adamax(xp: Any, axpby: Axpby, arrays: tuple, work: tuple, c: AdamaxNumbers) -> None:
    """Adam with the largest gradient in place of the root of the mean square."""
    p, g, m, largest = arrays
    s = work[0]
    g, sign = _decayed(xp, axpby, p, g, work, c)
    axpby(m, g, (1.0 - c.beta1) * sign, c.beta1, s)
    xp.absolute(g, s)
    xp.add(s, c.eps, s)
    xp.multiply(largest, c.beta2, largest)
    xp.maximum(largest, s, out=largest)
    xp.divide(m, largest, s)
    axpby(p, s, -c.rate, 1.0, s)


class RMSpropNumbers(NamedTuple):
    """alpha is the weight of the past in the averages."""

    sign: float
    decay: float
    lr: float
    alpha: float
    eps: float
    momentum: float
    centered: bool


def rmsprop(xp: Any, axpby: Axpby, arrays: tuple, work: tuple, c: RMSpropNumbers) -> None:
    """v averages g^2; g / (sqrt(v) + eps) is the step. The state is v, the buffer if momentum, mean g if centered."""
    p, g, v, *rest = arrays
    s, _, t = work[:3]
    g, sign = _decayed(xp, axpby, p, g, work, c)
    xp.multiply(g, g, s)
    axpby(v, s, 1.0 - c.alpha, c.alpha, s)
    if c.centered:
        mean = rest[-1]
        axpby(mean, g, (1.0 - c.alpha) * sign, c.alpha, t)
        xp.multiply(mean, mean, s)
        v = xp.subtract(v, s, s)
    xp.sqrt(v, s)
    xp.add(s, c.eps, s)
    xp.divide(g, s, s)
    if c.momentum:
        axpby(rest[0], s, sign, c.momentum, s)
        axpby(p, rest[0], -c.lr, 1.0, s)
    else:
        axpby(p, s, -c.lr * sign, 1.0, s)


class AdagradNumbers(NamedTuple):
    """p -= lr g / (sqrt(sum of g^2) + eps)."""

    sign: float
    decay: float
    lr: float
    eps: float


def adagrad(xp: Any, axpby: Axpby, arrays: tuple, work: tuple, c: AdagradNumbers) -> None:
    """The step is the gradient over the root of the sum of all its squares."""
    p, g, total = arrays
    s = work[0]
    g, sign = _decayed(xp, axpby, p, g, work, c)
    xp.multiply(g, g, s)
    xp.add(total, s, total)
    xp.sqrt(total, s)
    xp.add(s, c.eps, s)
    xp.divide(g, s, s)
    axpby(p, s, -c.lr * sign, 1.0, s)


class AdadeltaNumbers(NamedTuple):
    """rho is the weight of the past in the averages."""

    sign: float
    decay: float
    lr: float
    rho: float
    eps: float


def adadelta(xp: Any, axpby: Axpby, arrays: tuple, work: tuple, c: AdadeltaNumbers) -> None:
    """d = g sqrt(mean d^2 + eps) / sqrt(mean g^2 + eps); p -= lr d. The state is the two means."""
    p, g, square, delta = arrays
    s, _, t = work[:3]
    g, sign = _decayed(xp, axpby, p, g, work, c)
    xp.multiply(g, g, s)
    axpby(square, s, 1.0 - c.rho, c.rho, s)
    xp.add(delta, c.eps, s)
    xp.add(square, c.eps, t)
    xp.divide(s, t, s)
    xp.sqrt(s, s)
    xp.multiply(s, g, s)
    xp.multiply(s, s, t)
    axpby(delta, t, 1.0 - c.rho, c.rho, t)
    axpby(p, s, -c.lr * sign, 1.0, s)


class ASGDNumbers(NamedTuple):
    """p = keep p - rate g; mean = mean + mu (p - mean)."""

    sign: float
    keep: float
    rate: float
    mu: float


def asgd(xp: Any, axpby: Axpby, arrays: tuple, work: tuple, c: ASGDNumbers) -> None:
    """Gradient descent that also averages where it has been."""
    p, g, mean = arrays
    axpby(p, g, -c.rate * c.sign, c.keep, work[0])
    if c.mu == 1.0:
        xp.copyto(mean, p)
    else:
        axpby(mean, p, c.mu, 1.0 - c.mu, work[0])


class RpropNumbers(NamedTuple):
    """Steps shrink where the gradient turned and grow elsewhere, between smallest and largest."""

    sign: float
    shrink: float
    grow: float
    smallest: float
    largest: float


def rprop(xp: Any, axpby: Axpby, arrays: tuple, work: tuple, c: RpropNumbers) -> None:
    """p -= size sign(g), each number's size growing while its gradient keeps its sign; none where it has turned."""
    p, g, previous, size = arrays
    s, u = work[:2]
    xp.multiply(g, c.sign, u)
    xp.multiply(u, previous, s)
    turned, kept = xp.less(s, 0.0), xp.greater(s, 0.0)
    s[...] = 1.0
    xp.copyto(s, c.grow, where=kept)
    xp.copyto(s, c.shrink, where=turned)
    xp.multiply(size, s, size)
    xp.clip(size, c.smallest, c.largest, size)
    xp.copyto(u, 0.0, where=turned)
    xp.copyto(previous, u)
    (numpy_ops.sign if xp is np else xp.sign)(u, s)
    xp.multiply(s, size, s)
    xp.subtract(p, s, p)


def blend(xp: Any, axpby: Axpby, arrays: tuple, work: tuple, weight: float) -> None:
    """mean = (1 - weight) mean + weight p, for averages of weights; arrays are the mean and the parameter p."""
    mean, p = arrays
    axpby(mean, p, weight, 1.0 - weight, work[0])


def _decayed(xp: Any, axpby: Axpby, p: Array, g: Array, work: tuple, c: Any) -> tuple[Array, float]:
    """The gradient with c.decay p, up to a sign that is returned too: g itself, or sign g + decay p in work[1]."""
    if not c.decay:
        return g, c.sign
    _, u, t = work[:3]
    xp.multiply(p, c.decay, u)
    axpby(u, g, c.sign, 1.0, t)
    return u, 1.0


def _average(
    xp: Any, axpby: Axpby, p: Array, g: Array, m: Array, v: Array, work: tuple, c: Any
) -> tuple[Array, float]:
    """m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2; returns g with decay, and its sign."""
    s = work[0]
    g, sign = _decayed(xp, axpby, p, g, work, c)
    axpby(m, g, (1.0 - c.beta1) * sign, c.beta1, s)
    xp.multiply(g, g, s)
    axpby(v, s, 1.0 - c.beta2, c.beta2, s)
    return g, sign
