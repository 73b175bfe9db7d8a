"""Pairs of reductions of one tensor as one op, whose node gets both gradients.

Forward and rules call those of the single reductions. The public functions, whose signatures differ from the ops', are
in variance.py and minmax.py.
"""

from __future__ import annotations

from ...core.extend import REDUCING, defop
from .dimensions import negative_axes
from .minmax import amax, amin
from .sum import mean
from .variance import in_one_launch, std, var


def _mean_dim(dim):
    """The dim of the mean: var_mean(x, False) is var_mean(x, unbiased=False)."""
    return None if isinstance(dim, bool) else dim


def _mean_back(F, g, x, dim, keepdim):
    return mean.op.rules["x"](F, g, x.shape, x.dtype, _mean_dim(dim), keepdim, None)


def _mean_jvp(F, t, dim, keepdim):
    return F.mean(t, negative_axes(_mean_dim(dim), t.ndim), keepdim)


def _sum_of_grads(a, b):
    """The sum of two gradients, one of which may be None."""
    return b if a is None else a if b is None else a + b


@defop
class var_mean:
    """(var, mean) over `dim`; see var and mean.

    >>> ag.var_mean(ag.tensor([1.0, 2.0, 3.0]))
    (tensor(1.), tensor(2.))
    """

    def forward(xp, x, *, dim=None, unbiased=None, keepdim=False, correction=None):
        variation = var.op.compute(xp, x, dim=dim, unbiased=unbiased, keepdim=keepdim, correction=correction)
        return variation, mean.op.compute(xp, x, dim=_mean_dim(dim), keepdim=keepdim)
    cuda = in_one_launch(forward, with_mean=True)
    def grad_x(F, g, x, dim, unbiased, keepdim, correction):
        by_var = None if g[0] is None else var.op.rules["x"](F, g[0], x, dim, unbiased, keepdim, correction)
        return _sum_of_grads(by_var, None if g[1] is None else _mean_back(F, g[1], x, dim, keepdim))
    def jvp(F, t, x, dim, unbiased, keepdim, correction):
        return var.op.jvp(F, t, x, dim, unbiased, keepdim, correction), _mean_jvp(F, t, dim, keepdim)
    outputs, batch = ("var", "mean"), var.op.batch


_std_back, _std_jvp = std.op.rules["x"], std.op.jvp  # where `std` is the output


@defop
class std_mean:
    """(std, mean) over `dim`; see std and mean.

    >>> ag.std_mean(ag.tensor([1.0, 2.0, 3.0]))
    (tensor(1.), tensor(2.))
    """

    def forward(xp, x, *, dim=None, unbiased=None, keepdim=False, correction=None):
        variation = std.op.compute(xp, x, dim=dim, unbiased=unbiased, keepdim=keepdim, correction=correction)
        return variation, mean.op.compute(xp, x, dim=_mean_dim(dim), keepdim=keepdim)
    cuda = in_one_launch(forward, root=True, with_mean=True)
    def grad_x(F, g, x, std, dim, unbiased, keepdim, correction):
        by_std = None if g[0] is None else _std_back(F, g[0], x, std, dim, unbiased, keepdim, correction)
        return _sum_of_grads(by_std, None if g[1] is None else _mean_back(F, g[1], x, dim, keepdim))
    def jvp(F, t, x, std, dim, unbiased, keepdim, correction):
        return _std_jvp(F, t, x, std, dim, unbiased, keepdim, correction), _mean_jvp(F, t, dim, keepdim)
    outputs, batch = ("std", "mean"), std.op.batch
    no_lossy_save = True


@defop
class aminmax:
    """(min, max): the smallest and the largest element over `dim`; see amin and amax.

    >>> ag.aminmax(ag.tensor([1.0, 3.0, 2.0])).max
    tensor(3.)
    """

    def forward(xp, x, *, dim=None, keepdim=False):
        return amin.op.compute(xp, x, dim=dim, keepdim=keepdim), amax.op.compute(xp, x, dim=dim, keepdim=keepdim)
    def grad_x(F, g, x, dim, keepdim):
        by_min = None if g[0] is None else amin.op.rules["x"](F, g[0], x, dim, keepdim)
        return _sum_of_grads(by_min, None if g[1] is None else amax.op.rules["x"](F, g[1], x, dim, keepdim))
    def jvp(F, t, x, min, max, dim, keepdim):
        return amin.op.jvp(F, t, x, min, dim, keepdim), amax.op.jvp(F, t, x, max, dim, keepdim)
    outputs, batch = ("min", "max"), REDUCING
    no_lossy_save = True
