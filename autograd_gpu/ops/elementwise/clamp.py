"""maximum, minimum, fmax, fmin, clamp."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...backend.arrays.dtypes import FULL_FLOATS
from ...backend.cpu import numpy_ops
from ...backend.formulas import expression as formulas
from ...core.extend import BROADCASTING, ELEMENTWISE, FITTING, PROMOTE, Tensor, defop, public


@defop
class maximum:
    """The larger of a and b, broadcasting; NaN propagates. Ties share the gradient equally; at NaN both get all of it.

    >>> ag.maximum(ag.tensor([1.0, 5.0]), ag.tensor([3.0, 4.0]))
    tensor([3., 5.])
    """

    def forward(xp, a, b): return xp.maximum(a, b)
    def grad_a(F, g, a, b): return F.where(a == b, g * 0.5, F.where(a < b, 0.0, g))
    def grad_b(F, g, a, b): return F.where(a == b, g * 0.5, F.where(a > b, 0.0, g))
    types, broadcasts, numbers, selects_only = PROMOTE, True, True, True
    jvp, batch = ELEMENTWISE, BROADCASTING
    def formula(a, b): return formulas.maximum(a, b)
    public = methods = ufunc = no_lossy_save = True


@defop
class minimum:
    """The smaller of a and b, broadcasting; NaN propagates. Ties share the gradient equally; at NaN both get all of it.

    >>> ag.minimum(ag.tensor([1.0, 5.0]), ag.tensor([3.0, 4.0]))
    tensor([1., 4.])
    """

    def forward(xp, a, b): return xp.minimum(a, b)
    def grad_a(F, g, a, b): return F.where(a == b, g * 0.5, F.where(a > b, 0.0, g))
    def grad_b(F, g, a, b): return F.where(a == b, g * 0.5, F.where(a < b, 0.0, g))
    types, broadcasts, numbers, selects_only = PROMOTE, True, True, True
    jvp, batch = ELEMENTWISE, BROADCASTING
    def formula(a, b): return formulas.minimum(a, b)
    public = methods = ufunc = no_lossy_save = True


@defop
class fmax:
    """The larger of a and b, broadcasting; NaN is ignored if the other is a number; at ties a gets the gradient.

    >>> ag.fmax(ag.tensor([1.0, float("nan")]), ag.tensor([3.0, 4.0]))
    tensor([3., 4.])
    """

    def forward(xp, a, b): return xp.fmax(a, b)
    def grad_a(F, g, a, b): return F.where(F.logical_or(a >= b, F.isnan(b)), g, 0.0)
    def grad_b(F, g, a, b): return F.where(F.logical_or(a >= b, F.isnan(b)), 0.0, g)
    types, broadcasts, numbers, selects_only = PROMOTE, True, True, True
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = methods = ufunc = no_lossy_save = True


@defop
class fmin:
    """The smaller of a and b, broadcasting; NaN is ignored if the other is a number; at ties a gets the gradient.

    >>> ag.fmin(ag.tensor([1.0, float("nan")]), ag.tensor([3.0, 4.0]))
    tensor([1., 4.])
    """

    def forward(xp, a, b): return xp.fmin(a, b)
    def grad_a(F, g, a, b): return F.where(F.logical_or(a <= b, F.isnan(b)), g, 0.0)
    def grad_b(F, g, a, b): return F.where(F.logical_or(a <= b, F.isnan(b)), 0.0, g)
    types, broadcasts, numbers, selects_only = PROMOTE, True, True, True
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = methods = ufunc = no_lossy_save = True


# ---- limits ------------------------------------------------------------------------------------------


def _clamp(xp, x, min=None, max=None):
    if min is None and max is None:
        raise RuntimeError("clamp: At least one of 'min' or 'max' must not be None")
    if type(x) is np.ndarray and x.dtype in FULL_FLOATS:
        if type(min) is float is type(max) and x.size <= numpy_ops.FEW:
            low, high = numpy_ops.constants(x.dtype, min, max)
            return np.minimum(np.maximum(x, low), high)
        min = numpy_ops.constant(min, x.dtype) if type(min) is float else min
        max = numpy_ops.constant(max, x.dtype) if type(max) is float else max
        if x.size > numpy_ops.FEW and np.ndim(min) == np.ndim(max) == 0:  # one pass; for few elements slower than two
            return np.clip(x, -np.inf if min is None else min, np.inf if max is None else max)
    x = x if min is None else xp.maximum(x, min)
    return x if max is None else xp.minimum(x, max)


def _clamp_x(F, g, x, min, max):
    if min is None or max is None:
        return F.where(x <= max if min is None else x >= min, g, 0.0)
    return F.where(F.logical_and(x >= min, x <= max), g, 0.0)


def _clamp_min(F, g, x, min, max):
    below = x < min
    return F.where(below if max is None else F.logical_and(below, min < max), g, 0.0)


def _clamp_max(F, g, x, min, max):
    above = x > max
    return F.where(above if min is None else F.logical_or(above, max < min), g, 0.0)


@defop
class clamp:
    """x limited to [min, max], each a number, a tensor or None, broadcasting; where min > max the result is max.

    The gradient goes to x where min <= x <= max, else to the limit.

    >>> ag.clamp(ag.tensor([-2.0, 0.5, 2.0]), -1.0, ag.tensor([0.0, 1.0, 1.5]))
    tensor([-1. ,  0.5,  1.5])
    """

    forward = _clamp
    grad_x = _clamp_x
    grad_min = _clamp_min
    grad_max = _clamp_max
    types, broadcasts, numbers, selects_only = PROMOTE, True, FITTING, True
    scalars = ("min", "max")
    jvp, batch = ELEMENTWISE, BROADCASTING
    public = "clamp", "clip", "clamp_", "clip_"
    methods = inplace = no_lossy_save = True


@public("clamp_min", "clamp_min_", methods=True, inplace=True, out=True)
def clamp_min(input: Tensor, min: Any) -> Tensor:
    """max(input, min) for `min`, a number or a tensor.

    >>> ag.clamp_min(ag.tensor([-2.0, 0.5]), 0.0)
    tensor([0. , 0.5])
    """
    return clamp(input, min, None)


@public("clamp_max", "clamp_max_", methods=True, inplace=True, out=True)
def clamp_max(input: Tensor, max: Any) -> Tensor:
    """min(input, max) for `max`, a number or a tensor.

    >>> ag.clamp_max(ag.tensor([-2.0, 0.5]), 0.0)
    tensor([-2.,  0.])
    """
    return clamp(input, None, max)
