"""Initializers of parameters, in place and not recorded; `ag.manual_seed` seeds the random ones."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

from .. import backend, ops, random
from ..backend.arrays.dtypes import float64, wide
from ..core.tensor import Tensor, wrap
from ..errors import warn_user
from ..modes import no_grad
from ..random import Generator

__all__ = [
    "calculate_gain",
    "constant_",
    "eye_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "orthogonal_",
    "sparse_",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]

_GAINS = {"linear": 1.0, "sigmoid": 1.0, "tanh": 5.0 / 3.0, "relu": math.sqrt(2.0), "selu": 0.75}
_GAINS |= {f"conv{kind}{n}d": 1.0 for kind in ("", "_transpose") for n in (1, 2, 3)}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The gain of weights before `nonlinearity`; `param` is leaky_relu's slope (0.01). ValueError for unknown names.

    >>> ag.nn.init.calculate_gain("tanh")
    1.6666666666666667
    """
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, (int, float)):
            raise ValueError(f"negative_slope {slope} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity not in _GAINS:
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    return _GAINS[nonlinearity]


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fills `tensor` from the uniform distribution on [a, b).

    >>> ag.nn.init.uniform_(ag.empty(3), 2.0, 2.0)
    tensor([2., 2., 2.])
    """
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fills `tensor` from the normal distribution.

    >>> ag.nn.init.normal_(ag.empty(2), mean=1.0, std=0.0)
    tensor([1., 1.])
    """
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Fills `tensor` from the normal distribution truncated to [a, b], by the inverse distribution function.

    Warns if the mean is more than 2 std from [a, b].

    >>> w = ag.nn.init.trunc_normal_(ag.empty(100), std=3.0, a=-1.0, b=1.0)
    >>> bool((w.abs() <= 1).all())
    True
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn("mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may be "
                      "incorrect.", UserWarning, stacklevel=2)
    low, high = (math.erf((limit - mean) / (std * math.sqrt(2.0))) for limit in (a, b))
    drawn = random.uniform(tensor.shape, wide(tensor.dtype), tensor.device, low, high, generator).array
    xp = backend.namespace(drawn)
    values = backend.special(xp).erfinv(drawn) * (std * math.sqrt(2.0)) + mean
    with no_grad():
        return tensor.copy_(wrap(xp.asarray(xp.minimum(xp.maximum(values, a), b))))


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Sets every element to `val`.

    >>> ag.nn.init.constant_(ag.empty(2), 3.0)
    tensor([3., 3.])
    """
    with no_grad():
        return tensor.fill_(val)


def zeros_(tensor: Tensor) -> Tensor:
    """Sets every element to 0.

    >>> ag.nn.init.zeros_(ag.empty(2))
    tensor([0., 0.])
    """
    return constant_(tensor, 0.0)


def ones_(tensor: Tensor) -> Tensor:
    """Sets every element to 1.

    >>> ag.nn.init.ones_(ag.empty(2))
    tensor([1., 1.])
    """
    return constant_(tensor, 1.0)


def eye_(tensor: Tensor) -> Tensor:
    """Fills a matrix with the identity: ones on the diagonal, else zeros; ValueError unless 2-d.

    >>> ag.nn.init.eye_(ag.empty(2, 3))
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """
    _check_matrix(tensor)
    with no_grad():
        return tensor.copy_(ops.eye(*tensor.shape, dtype=tensor.dtype, device=tensor.device))


def orthogonal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Makes the rows, or the columns if there are fewer, orthogonal with norm `gain` (Saxe et al. 2014).

    Flattens dimensions from the second on into columns. ValueError for fewer than two dimensions.

    >>> w = ag.nn.init.orthogonal_(ag.empty(2, 3))
    >>> bool(((w @ w.mT - ag.eye(2)).abs() < 1e-6).all())
    True
    """
    if tensor.ndim < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if not tensor.numel():
        return tensor
    rows, columns = tensor.shape[0], math.prod(tensor.shape[1:])
    shape = (max(rows, columns), min(rows, columns))
    drawn = random.normal(shape, wide(tensor.dtype), tensor.device, generator=generator).array
    q, r = backend.namespace(drawn).linalg.qr(drawn)
    q *= backend.namespace(drawn).sign(r.diagonal())  # makes the distribution uniform
    with no_grad():
        return tensor.copy_(wrap((q if rows >= columns else q.T) * gain).reshape(tensor.shape))


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Tensor:
    """Fills from the normal distribution with mean 0, then zeros a fraction `sparsity` of each column, rounded up.

    Martens (2010). ValueError unless 2-d.

    >>> int((ag.nn.init.sparse_(ag.empty(10, 3), 0.25) == 0).sum())
    9
    """
    _check_matrix(tensor)
    zeros = math.ceil(sparsity * tensor.shape[0])
    normal_(tensor, 0.0, std, generator)
    if zeros:
        keys = random.uniform(tensor.shape, float64, tensor.device, generator=generator).array
        limit = backend.namespace(keys).sort(keys, axis=0)[zeros - 1]
        with no_grad():
            tensor.copy_(ops.where(wrap(keys <= limit), 0.0, tensor.detach()))
    return tensor


def _check_matrix(tensor: Tensor) -> None:
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fills from a uniform distribution of variance gain^2 * 2 / (fan_in + fan_out) (Glorot and Bengio 2010).

    >>> w = ag.nn.init.xavier_uniform_(ag.empty(3, 3))
    >>> bool((w.abs() <= 1).all())
    True
    """
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    bound = math.sqrt(3.0) * gain * math.sqrt(2.0 / max(fan_in + fan_out, 1))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fills from a normal distribution of variance gain^2 * 2 / (fan_in + fan_out) (Glorot and Bengio 2010).

    >>> ag.nn.init.xavier_normal_(ag.empty(3, 2)).shape
    (3, 2)
    """
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / max(fan_in + fan_out, 1)), generator)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Fills from a uniform distribution of variance gain^2 / fan (He et al. 2015).

    `a` is leaky_relu's slope; `mode` is "fan_in" or "fan_out".

    >>> ag.nn.init.kaiming_uniform_(ag.empty(3, 2), nonlinearity="relu").shape
    (3, 2)
    """
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Fills from a normal distribution of variance gain^2 / fan (He et al. 2015).

    `a` is leaky_relu's slope; `mode` is "fan_in" or "fan_out".

    >>> ag.nn.init.kaiming_normal_(ag.empty(3, 2), mode="fan_out").shape
    (3, 2)
    """
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(max(fan, 1))  # fan 0: no element to draw


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    """The fan of a weight for mode "fan_in" or "fan_out"; ValueError for another mode."""
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return _calculate_fan_in_and_fan_out(tensor)[mode == "fan_out"]


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """(fan_in, fan_out) of a weight (out, in, *receptive field); ValueError for fewer than two dimensions."""
    if tensor.ndim < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def _by_old_name(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The function by its name without the "_", under which PyTorch had it first; warns as PyTorch does."""
    new = function.__name__
    old = new.removesuffix("_")

    def deprecated(*args: Any, **kwargs: Any) -> Tensor:
        warn_user(f"`nn.init.{old}` is now deprecated in favor of `nn.init.{new}`.", FutureWarning)
        return function(*args, **kwargs)

    deprecated.__name__ = deprecated.__qualname__ = old
    deprecated.__doc__ = f"`{new}` by its old name."
    return deprecated


uniform, normal = _by_old_name(uniform_), _by_old_name(normal_)
constant, eye = _by_old_name(constant_), _by_old_name(eye_)
xavier_uniform, xavier_normal = _by_old_name(xavier_uniform_), _by_old_name(xavier_normal_)
kaiming_uniform, kaiming_normal = _by_old_name(kaiming_uniform_), _by_old_name(kaiming_normal_)
orthogonal, sparse = _by_old_name(orthogonal_), _by_old_name(sparse_)
