"""Activations and dropouts that are written into their input. As in inplace.py: where nothing is recorded."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ..backend.dtypes import category
from ..core.tensor import Tensor
from ..core.views import bump_version
from .activation import relu, sigmoid, tanh
from .exponential import celu, elu, selu
from .inplace import _check_writable
from .noise import alpha_dropout, dropout, feature_alpha_dropout, feature_dropout, rrelu
from .piecewise import hardtanh, leaky_relu, threshold


def overwriting(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`function_`: the same, with its result in the memory of its first argument, which it returns."""
    name = f"{function.__name__}_"

    def write(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        _check_writable(name, x, *args, *kwargs.values())
        result = function(x, *args, **kwargs)  # nothing to record: the check has seen to that
        if result._array.dtype is not x._array.dtype and category(result.dtype) > category(x.dtype):
            raise RuntimeError(f"result type {result.dtype} can't be cast to the desired output type {x.dtype}")
        x._array[...] = result._array
        bump_version(x)
        return x

    write.__name__ = write.__qualname__ = name
    write.__doc__ = f"`{function.__name__}` of x, written into x, which is returned; see ag.{function.__name__}."
    write.__signature__ = inspect.signature(function)
    return write


alpha_dropout_ = overwriting(alpha_dropout)
celu_ = overwriting(celu)
dropout_ = overwriting(dropout)
elu_ = overwriting(elu)
feature_alpha_dropout_ = overwriting(feature_alpha_dropout)
feature_dropout_ = overwriting(feature_dropout)
hardtanh_ = overwriting(hardtanh)
leaky_relu_ = overwriting(leaky_relu)
relu_ = overwriting(relu)
rrelu_ = overwriting(rrelu)
selu_ = overwriting(selu)
sigmoid_ = overwriting(sigmoid)
tanh_ = overwriting(tanh)
threshold_ = overwriting(threshold)
