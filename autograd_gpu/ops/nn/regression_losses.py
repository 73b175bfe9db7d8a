"""Losses of the difference of input and target."""

from __future__ import annotations

from ...backend.arrays.dtypes import wide
from ...backend.formulas.expression import absolute, maximum, minimum, with_derivative
from ...core.extend import FLOAT, Tensor, defop, other_words, public
from ...errors import warn_user
from .elementwise_loss import elementwise_loss
from .loss_reduction import LOSS_BATCH, LOSS_JVP, finish, share


def _check_same_shape(input, target):
    if input.shape != target.shape:
        warn_user(
            f"Using a target size ({list(target.shape)}) that is different to the input size ({list(input.shape)}). "
            "This will likely lead to incorrect results due to broadcasting. Please ensure they have the same size."
        )


def _difference(xp, input, target):
    _check_same_shape(input, target)
    return xp.subtract(input, target).astype(wide(input.dtype), copy=False)


def _mse(xp, input, target, *, reduction="mean"):
    d = _difference(xp, input, target)
    return finish(xp, d * d, reduction, input.dtype)


def _mse_back(F, g, input, target, reduction):
    d = input - target
    return d * (share(g, d.shape, reduction) * 2)


@defop
class mse_loss:
    """(input - target) ** 2.

    Float tensors of the same shape; different shapes broadcast, with a warning. `reduction` is "mean" (the default; NaN
    for no elements), "sum" or "none"; ValueError for any other.

    >>> ag.mse_loss(ag.tensor([0.0, 0.0]), ag.tensor([1.0, 3.0]))
    tensor(5.)
    """

    forward = _mse
    grad_input = _mse_back
    def grad_target(F, g, input, target, reduction): return -_mse_back(F, g, input, target, reduction)
    types, broadcasts, promotes_zero_dim = FLOAT, True, True
    jvp, batch = LOSS_JVP, LOSS_BATCH
    takes_out = False
    public = True
    keeps_layout = True


def _l1(xp, input, target, *, reduction="mean"):
    return finish(xp, xp.absolute(_difference(xp, input, target)), reduction, input.dtype)


def _l1_back(F, g, input, target, reduction):
    d = input - target
    return F.sign(d) * share(g, d.shape, reduction)


@defop
class l1_loss:
    """|input - target|.

    Float tensors of the same shape; different shapes broadcast, with a warning. `reduction` is "mean" (the default; NaN
    for no elements), "sum" or "none"; ValueError for any other.

    >>> ag.l1_loss(ag.tensor([0.0, 0.0]), ag.tensor([1.0, 3.0]))
    tensor(2.)
    """

    forward = _l1
    grad_input = _l1_back
    def grad_target(F, g, input, target, reduction): return -_l1_back(F, g, input, target, reduction)
    types, broadcasts, promotes_zero_dim = FLOAT, True, True
    jvp, batch = LOSS_JVP, LOSS_BATCH
    takes_out = False
    public = no_lossy_save = True
    keeps_layout = True


def _check_delta(delta):
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")


@with_derivative(lambda d, delta: minimum(maximum(d, -delta), delta))
def _limited_square(d, delta):
    size = absolute(d)
    limited = minimum(size, delta)
    return limited * (size - limited * 0.5)


@elementwise_loss
class huber_loss:
    """d ** 2 / 2 where |d| < delta, else delta * (|d| - delta / 2), with d = input - target.

    Float tensors of the same shape; different shapes broadcast, with a warning. `reduction` is "mean" (the default; NaN
    for no elements), "sum" or "none"; ValueError for any other. RuntimeError unless delta > 0.

    >>> ag.huber_loss(ag.tensor([0.0, 0.0]), ag.tensor([1.0, 3.0]))
    tensor(1.5)
    """

    def formula(input, target, *, delta=1.0): return _limited_square(input - target, delta)
    check, check_numbers = _check_same_shape, _check_delta
    broadcasts = promotes_zero_dim = public = True


@public("smooth_l1_loss", "nn.functional.smooth_l1_loss")
@other_words
def smooth_l1_loss(input: Tensor, target: Tensor, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """d ** 2 / (2 beta) where |d| < beta, else |d| - beta / 2, with d = input - target.

    Float tensors of the same shape; different shapes broadcast, with a warning. `reduction` is "mean" (the default; NaN
    for no elements), "sum" or "none"; ValueError for any other. RuntimeError if beta < 0; beta = 0 gives `l1_loss`.

    >>> ag.smooth_l1_loss(ag.tensor([0.0, 0.0]), ag.tensor([1.0, 3.0]), beta=2.0)
    tensor(1.125)
    """
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    return l1_loss(input, target, reduction) if beta == 0 else huber_loss(input, target, reduction, beta) / beta
