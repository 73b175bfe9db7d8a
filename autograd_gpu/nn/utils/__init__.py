"""Utilities for modules: gradient clipping, parameters as a vector, parametrizations, stateless calls."""

from typing import TYPE_CHECKING

from ...missing_names import getattr_of
from . import parametrizations, parametrize, rnn, stateless
from .clip_grad import clip_grad_norm, clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_, get_total_norm
from .convert_parameters import parameters_to_vector, vector_to_parameters
from .parametrizations import remove_spectral_norm, remove_weight_norm, spectral_norm, weight_norm

__all__ = [
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
    "parameters_to_vector",
    "parametrizations",
    "parametrize",
    "prune",
    "remove_spectral_norm",
    "remove_weight_norm",
    "rnn",
    "spectral_norm",
    "stateless",
    "vector_to_parameters",
    "weight_norm",
]

if not TYPE_CHECKING:  # a type checker would accept any name
    __getattr__ = getattr_of(__name__, prune="")


def __dir__() -> list[str]:
    return list(__all__)
