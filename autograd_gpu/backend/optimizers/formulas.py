"""The optimizers' update formulas on arrays, in place, with PyTorch's arithmetic; `chunks.sweep` applies them.

They also run on lists of arrays (`lists.py`), and recorded on tensors (optim/recorded.py), by other (xp, axpby).

A formula takes (xp, axpby, arrays, work, c): arrays are the parameter p, its gradient g, and its state; work are arrays
for intermediates, s, u and t; c holds the hyperparameters of this step. `axpby(y, x, a, b, work)` is y = a x + b y. To
save passes over memory, constant factors are merged into axpby, and bias corrections into the step size.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..cpu import numpy_ops
from ..cuda.live_numbers import LiveNumber
from .chunks import Array, Axpby, by_blas, sweep

_NUMBERS = (int, float)


class SGDNumbers(NamedTuple):
    """sign is -1 to maximize; damped is 1 - dampening; first is True if the momentum buffer is uninitialized."""

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
        if not _left_out(c.decay):
            axpby(b, _to_decay(xp, p, c.decay, work[1]), damped * c.decay, 1.0, s)
        if not c.nesterov:
            axpby(p, b, -c.lr, 1.0, s)
            return
    axpby(p, g, -c.lr * c.sign, 1.0 - c.lr * c.decay, s)
    if buffer:
        axpby(p, b, -c.lr * c.momentum, 1.0, s)


def descend(params: list[Array], grads: list[Array], c: SGDNumbers) -> None:
    """Plain gradient descent: one axpby per parameter, without chunks and work arrays."""
    a, b = -c.lr * c.sign, 1.0 - c.lr * c.decay
    for p, g in zip(params, grads, strict=True):
        if type(p) is np.ndarray and p.dtype.char in "fd" and p.flags.carray and g.flags.carray:
            by_blas(p.reshape(-1), g.reshape(-1), a, b)
        else:
            sweep(sgd, (p, g), c)


class AdamNumbers(NamedTuple):
    """p = keep p - rate m / (sqrt(v) + eps); decay is L2 weight decay, keep < 1 is decoupled weight decay."""

    sign: float
    decay: float
    keep: float
    beta1: float
    beta2: float
    rate: float
    eps: float


def adam(xp: Any, axpby: Axpby, arrays: tuple, work: tuple, c: AdamNumbers) -> None:
    """Adam and AdamW; the state is exp_avg, exp_avg_sq, and with amsgrad the maximum of exp_avg_sq so far."""
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
    """Adam with Nesterov momentum: the step includes the current gradient once more."""
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
    adaptive: bool | LiveNumber


def radam(xp: Any, axpby: Axpby, arrays: tuple, work: tuple, c: RAdamNumbers) -> None:
    """Rectified Adam: the first steps do not divide by the second moment, whose variance is still too large."""
    p, g, m, v = arrays
    s = work[0]
    _average(xp, axpby, p, g, m, v, work, c)
    if not isinstance(c.adaptive, LiveNumber) and not c.adaptive:
        axpby(p, m, -c.rate, c.keep, s)
        return
    xp.sqrt(v, s)
    xp.add(s, c.eps, s)
    if isinstance(c.adaptive, LiveNumber):
        xp.clip(s, c.adaptive.where(-math.inf, 1.0), c.adaptive.where(math.inf, 1.0), s)  # else divide by 1
    xp.divide(m, s, s)
    axpby(p, s, -c.rate, c.keep, s)


class AdamaxNumbers(NamedTuple):
    """p -= rate m / (the exponentially decayed maximum of |g|)."""

    sign: float
    decay: float
    beta1: float
    beta2: float
    rate: float
    eps: float


def adamax(xp: Any, axpby: Axpby, arrays: tuple, work: tuple, c: AdamaxNumbers) -> None:
    """Adam with the infinity norm of past gradients in place of the root mean square."""
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
    """alpha is the decay of the running averages."""

    sign: float
    decay: float
    lr: float
    alpha: float
    eps: float
    momentum: float
    centered: bool


def rmsprop(xp: Any, axpby: Axpby, arrays: tuple, work: tuple, c: RMSpropNumbers) -> None:
    """v averages g^2; the step is g / (sqrt(v) + eps). The state is v, a momentum buffer, and mean g if centered."""
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
    """The step is the gradient divided by the root of the sum of all squared gradients."""
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
    """rho is the decay of the running averages."""

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
    """Gradient descent that also averages the parameters."""
    p, g, mean = arrays
    axpby(p, g, -c.rate * c.sign, c.keep, work[0])
    if c.mu == 1.0:
        xp.copyto(mean, p)
    else:
        axpby(mean, p, c.mu, 1.0 - c.mu, work[0])


class RpropNumbers(NamedTuple):
    """Factors for step sizes where the gradient's sign changed or not, and the bounds of the step sizes."""

    sign: float
    shrink: float
    grow: float
    smallest: float
    largest: float


def rprop(xp: Any, axpby: Axpby, arrays: tuple, work: tuple, c: RpropNumbers) -> None:
    """p -= size sign(g); a size grows while its gradient keeps its sign, else it shrinks and the step is skipped."""
    p, g, previous, size = arrays
    s, u = work[:2]
    xp.multiply(g, c.sign, u)
    xp.multiply(u, previous, s)
    turned, kept = xp.less(s, 0.0), xp.greater(s, 0.0)
    xp.copyto(s, 1.0)
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
    """mean = (1 - weight) mean + weight p, for averaged models; arrays are the mean and the parameter p."""
    mean, p = arrays
    axpby(mean, p, weight, 1.0 - weight, work[0])


def _decayed(xp: Any, axpby: Axpby, p: Array, g: Array, work: tuple, c: Any) -> tuple[Array, float]:
    """The gradient with weight decay, and its sign: (g, c.sign) without decay, else (sign g + decay p, 1)."""
    if _left_out(c.decay):
        return g, c.sign
    _, u, t = work[:3]
    xp.multiply(_to_decay(xp, p, c.decay, u), c.decay, u)
    axpby(u, g, c.sign, 1.0, t)
    return u, 1.0


def _to_decay(xp: Any, p: Array, decay: Any, work: Array) -> Array:
    """What decays: p, but 0 where a live number is 0, since an infinite parameter must not affect its gradient then."""
    if not isinstance(decay, LiveNumber):
        return p
    return xp.clip(p, decay.where(-math.inf, 0.0), decay.where(math.inf, 0.0), work)


def _left_out(factor: Any) -> bool:
    """Whether a term has the factor 0. That of a tensor 0 is computed, since it has a derivative."""
    return isinstance(factor, _NUMBERS) and factor == 0


def _average(
    xp: Any, axpby: Axpby, p: Array, g: Array, m: Array, v: Array, work: tuple, c: Any
) -> tuple[Array, float]:
    """m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2; returns `_decayed`."""
    s = work[0]
    g, sign = _decayed(xp, axpby, p, g, work, c)
    axpby(m, g, (1.0 - c.beta1) * sign, c.beta1, s)
    xp.multiply(g, g, s)
    axpby(v, s, 1.0 - c.beta2, c.beta2, s)
    return g, sign
