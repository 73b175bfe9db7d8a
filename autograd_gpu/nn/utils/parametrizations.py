"""Weight norm, spectral norm and orthogonality as parametrizations."""

from __future__ import annotations

import functools
from typing import Any

from ...core.tensor import Tensor
from ...modes import no_grad
from ...ops import normalize
from ...random import randn
from ..module import Module
from . import parametrize
from .orthogonal import orthogonal as orthogonal


def _norm_except(v: Tensor, dim: int) -> Tensor:
    """The norms over all dimensions but `dim`, which broadcast with v; with -1 over all dimensions."""
    if dim == -1:
        return v.norm()
    others = tuple([i for i in range(v.ndim) if i != dim])
    return v.norm(2, others, True) if others else v.abs()


class _WeightNorm(Module):
    def __init__(self, dim: int | None) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weight_v * (weight_g / _norm_except(weight_v, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return _norm_except(weight, self.dim), weight.clone()


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Parametrizes module.<name> as g * v / |v| with norms g and directions v (Salimans and Kingma 2016).

    Norms are taken over all dimensions but `dim`, with None over all. g is parametrizations.<name>.original0, v is
    original1; state dicts with <name>_g and <name>_v can be loaded, too. nn.utils.weight_norm is the same function.

    >>> layer = ag.nn.utils.parametrizations.weight_norm(ag.nn.Linear(3, 2))
    >>> [(name, p.shape) for name, p in layer.named_parameters()][1:]
    [('parametrizations.weight.original0', (2, 1)), ('parametrizations.weight.original1', (2, 3))]
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)
    module.register_load_state_dict_pre_hook(functools.partial(_rename, name))
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Turns module.<name> into an ordinary parameter with its current value; ValueError if it has no weight norm.

    >>> layer = ag.nn.utils.weight_norm(ag.nn.Linear(3, 2))
    >>> [name for name, _ in ag.nn.utils.remove_weight_norm(layer).named_parameters()]
    ['bias', 'weight']
    """
    return _removed(_WeightNorm, "weight_norm", module, name)


def _removed(kind: type[Module], what: str, module: Module, name: str) -> Module:
    held = module.parametrizations[name] if parametrize.is_parametrized(module, name) else ()
    if not any(isinstance(parametrization, kind) for parametrization in held):
        raise ValueError(f"{what} of '{name}' not found in {module}")
    return parametrize.remove_parametrizations(module, name)


def _rename(name: str, module: Any, state: dict[str, Any], prefix: str, *rest: Any) -> None:
    """Renames the keys of PyTorch's older weight norm, <name>_g and <name>_v; a load pre-hook."""
    for i, part in enumerate("gv"):
        key = f"{prefix}{name}_{part}"
        if key in state:
            state[f"{prefix}parametrizations.{name}.original{i}"] = state.pop(key)


class _SpectralNorm(Module):
    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int, dim: int, eps: float) -> None:
        super().__init__()
        if not -weight.ndim <= dim < weight.ndim:
            raise IndexError(f"Dimension out of range (expected to be in range of [-{weight.ndim}, {weight.ndim - 1}] "
                             f"but got {dim})")
        if n_power_iterations <= 0:
            raise ValueError("Expected n_power_iterations to be positive, but got "
                             f"n_power_iterations={n_power_iterations}")
        self.dim = dim % weight.ndim
        self.eps = eps
        self.n_power_iterations = n_power_iterations
        if weight.ndim > 1:
            matrix = self._as_matrix(weight.detach())
            for vector, size in zip("uv", matrix.shape, strict=True):
                start = randn(size, dtype=matrix.dtype, device=matrix.device)
                self.register_buffer(f"_{vector}", normalize(start, dim=0, eps=eps))
            self._iterate(matrix, 15)

    def _as_matrix(self, weight: Tensor) -> Tensor:
        return weight.movedim(self.dim, 0).flatten(1)

    def _iterate(self, matrix: Tensor, times: int) -> None:
        """Power iterations: u and v converge to the singular vectors of the largest singular value."""
        with no_grad():
            for _ in range(times):
                self._u = normalize(matrix.matmul(self._v), dim=0, eps=self.eps)
                self._v = normalize(self._u.matmul(matrix), dim=0, eps=self.eps)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return normalize(weight, dim=0, eps=self.eps)
        matrix = self._as_matrix(weight)
        if self.training:
            self._iterate(matrix.detach(), self.n_power_iterations)
        return weight / self._u.dot(matrix.matmul(self._v))

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divides module.<name> by its largest singular value, as a matrix of `dim` (0) by the rest (Miyato et al. 2018).

    The singular vectors are buffers, updated by `n_power_iterations` power iterations at each forward pass in training.
    ValueError for a tensor that does not exist.

    >>> layer = ag.nn.utils.parametrizations.spectral_norm(ag.nn.Linear(3, 2))
    >>> sorted(layer.state_dict())[1:]
    ['parametrizations.weight.0._u', 'parametrizations.weight.0._v', 'parametrizations.weight.original']
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    parametrization = _SpectralNorm(weight, n_power_iterations, 0 if dim is None else dim, eps)
    return parametrize.register_parametrization(module, name, parametrization)


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Turns module.<name> into an ordinary parameter with its current value; ValueError if it has no spectral norm.

    >>> layer = ag.nn.utils.spectral_norm(ag.nn.Linear(3, 2))
    >>> type(ag.nn.utils.remove_spectral_norm(layer)).__name__
    'Linear'
    """
    return _removed(_SpectralNorm, "spectral_norm", module, name)
