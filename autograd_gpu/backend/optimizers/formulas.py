"""The optimizers' updates, with PyTorch's arithmetic.

The arrays are the parameter p, its gradient g, and the state by the names that it has in a state dict. `sign` is -1 to
maximize, `decay` the weight decay that is added to the gradient, and `keep` is below 1 for decoupled weight decay. Bias
corrections are part of the numbers: rate and eps.
"""

from __future__ import annotations

from ..formulas.expression import absolute, equal, maximum, minimum, root, select
from ..formulas.update import update


def _decayed(p, g, sign, decay):
    """The gradient with weight decay; without it an infinite parameter has no effect."""
    return select(equal(decay, 0), sign * g, sign * g + decay * p)


@update
def sgd(p, g, momentum_buffer=None, *, sign, decay, lr, momentum, kept, damped, nesterov):
    """b = momentum b + damped g; p -= lr b, or with nesterov lr (g + momentum b). At first, kept is 0 and damped 1."""
    g = _decayed(p, g, sign, decay)
    if momentum_buffer is None:
        return {"p": p - lr * g}
    momentum_buffer = kept * momentum_buffer + damped * g
    step = select(equal(nesterov, 0), momentum_buffer, g + momentum * momentum_buffer)
    return {"p": p - lr * step, "momentum_buffer": momentum_buffer}


def _averages(g, exp_avg, exp_avg_sq, beta1, beta2):
    """The running means of the gradient and of its square."""
    return beta1 * exp_avg + (1 - beta1) * g, beta2 * exp_avg_sq + (1 - beta2) * g * g


@update
def adam(p, g, exp_avg, exp_avg_sq, max_exp_avg_sq=None, *, sign, decay, keep, beta1, beta2, rate, eps):
    """p = keep p - rate m / (sqrt(v) + eps); with amsgrad v is the maximum so far."""
    g = _decayed(p, g, sign, decay)
    exp_avg, exp_avg_sq = _averages(g, exp_avg, exp_avg_sq, beta1, beta2)
    state = {"exp_avg": exp_avg, "exp_avg_sq": exp_avg_sq}
    if max_exp_avg_sq is not None:
        exp_avg_sq = state["max_exp_avg_sq"] = maximum(max_exp_avg_sq, exp_avg_sq)
    return {"p": keep * p - rate * exp_avg / (root(exp_avg_sq) + eps), **state}


@update
def nadam(p, g, exp_avg, exp_avg_sq, *, sign, decay, keep, beta1, beta2, rate, rate_now, eps):
    """Adam with Nesterov momentum: the step includes the current gradient once more."""
    g = _decayed(p, g, sign, decay)
    exp_avg, exp_avg_sq = _averages(g, exp_avg, exp_avg_sq, beta1, beta2)
    step = (rate * exp_avg + rate_now * g) / (root(exp_avg_sq) + eps)
    return {"p": keep * p - step, "exp_avg": exp_avg, "exp_avg_sq": exp_avg_sq}


@update
def radam(p, g, exp_avg, exp_avg_sq, *, sign, decay, keep, beta1, beta2, rate, eps, adaptive):
    """Rectified Adam: the first steps do not divide by the second moment, whose variance is still too large."""
    g = _decayed(p, g, sign, decay)
    exp_avg, exp_avg_sq = _averages(g, exp_avg, exp_avg_sq, beta1, beta2)
    step = rate * exp_avg / select(equal(adaptive, 0), 1, root(exp_avg_sq) + eps)
    return {"p": keep * p - step, "exp_avg": exp_avg, "exp_avg_sq": exp_avg_sq}


@update
def adamax(p, g, exp_avg, exp_inf, *, sign, decay, beta1, beta2, rate, eps):
    """Adam with the infinity norm of past gradients in place of the root mean square."""
    g = _decayed(p, g, sign, decay)
    exp_avg = beta1 * exp_avg + (1 - beta1) * g
    exp_inf = maximum(beta2 * exp_inf, absolute(g) + eps)
    return {"p": p - rate * exp_avg / exp_inf, "exp_avg": exp_avg, "exp_inf": exp_inf}


@update
def rmsprop(p, g, square_avg, momentum_buffer=None, grad_avg=None, *, sign, decay, lr, alpha, eps, momentum):
    """The step is g / (sqrt(v) + eps), v the mean of g^2; centered, v is the variance of g."""
    g = _decayed(p, g, sign, decay)
    square_avg = alpha * square_avg + (1 - alpha) * g * g
    state, variance = {"square_avg": square_avg}, square_avg
    if grad_avg is not None:
        grad_avg = state["grad_avg"] = alpha * grad_avg + (1 - alpha) * g
        variance = square_avg - grad_avg * grad_avg
    step = g / (root(variance) + eps)
    if momentum_buffer is not None:
        step = state["momentum_buffer"] = momentum * momentum_buffer + step
    return {"p": p - lr * step, **state}


@update
def adagrad(p, g, sum, *, sign, decay, lr, eps):
    """The step is the gradient divided by the root of the sum of all squared gradients."""
    g = _decayed(p, g, sign, decay)
    sum = sum + g * g
    return {"p": p - lr * g / (root(sum) + eps), "sum": sum}


@update
def adadelta(p, g, square_avg, acc_delta, *, sign, decay, lr, rho, eps):
    """d = g sqrt(mean d^2 + eps) / sqrt(mean g^2 + eps); p -= lr d. The state is the two means."""
    g = _decayed(p, g, sign, decay)
    square_avg = rho * square_avg + (1 - rho) * g * g
    delta = root((acc_delta + eps) / (square_avg + eps)) * g
    acc_delta = rho * acc_delta + (1 - rho) * delta * delta
    return {"p": p - lr * delta, "square_avg": square_avg, "acc_delta": acc_delta}


@update
def asgd(p, g, ax, *, sign, keep, rate, mu):
    """Gradient descent that also averages the parameters."""
    p = keep * p - rate * (sign * g)
    return {"p": p, "ax": select(equal(mu, 1), p, (1 - mu) * ax + mu * p)}


@update
def rprop(p, g, prev, step_size, *, sign, shrink, grow, smallest, largest):
    """p -= size sign(g); a size grows while its gradient keeps its sign, else it shrinks and the step is skipped."""
    g = sign * g
    product = g * prev
    factor = select(product < 0, shrink, select(product > 0, grow, 1))
    step_size = minimum(maximum(step_size * factor, smallest), largest)
    g = select(product < 0, 0, g)
    moved = select(g > 0, step_size, select(g < 0, -step_size, 0))  # NaN moves nothing, as in PyTorch
    return {"p": p - moved, "prev": g, "step_size": step_size}


@update
def blend(mean, p, *, weight):
    """mean = (1 - weight) mean + weight p, for averaged models."""
    return {"mean": (1 - weight) * mean + weight * p}
