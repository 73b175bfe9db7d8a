"""The networks of the workloads, with the same weights in every library."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np

Weights = list[tuple[np.ndarray, np.ndarray]]  # (out, in), (out,) per layer


def make_weights(sizes: Sequence[int], seed: int = 0) -> Weights:
    """Float32 weights and biases for linear layers of these sizes, uniform in +-1/sqrt(in)."""
    rng = np.random.default_rng(seed)
    weights = []
    for fan_in, fan_out in pairwise(sizes):
        bound = fan_in**-0.5
        weights.append(
            (
                rng.uniform(-bound, bound, (fan_out, fan_in)).astype(np.float32),
                rng.uniform(-bound, bound, fan_out).astype(np.float32),
            )
        )
    return weights


def sequential(lib: ModuleType, weights: Weights, activation: str, device: str) -> Any:
    """An `nn.Sequential` of linear layers with `activation`, a class of nn, between them.

    `lib` is autograd_gpu or torch: the two share these names.
    """
    layers: list[Any] = []
    for matrix, bias in weights:
        layer = lib.nn.Linear(matrix.shape[1], matrix.shape[0])
        with lib.no_grad():
            layer.weight.copy_(lib.tensor(matrix))
            layer.bias.copy_(lib.tensor(bias))
        layers += [layer, getattr(lib.nn, activation)()]
    return lib.nn.Sequential(*layers[:-1]).to(device)


def jax_parameters(jax: ModuleType, weights: Weights, device: Any) -> Any:
    """The weights as a list of (weight, bias) on a JAX device."""
    return jax.device_put(weights, device)


def jax_forward(jax: ModuleType, activation: str) -> Any:
    """`forward(parameters, x)` of the same network in JAX; x is [..., in]."""
    act = {
        "Tanh": jax.numpy.tanh,
        "ReLU": jax.nn.relu,
        "SiLU": jax.nn.silu,
        "GELU": lambda x: jax.nn.gelu(x, approximate=False),
    }[activation]

    def forward(parameters: Any, x: Any) -> Any:
        for matrix, bias in parameters[:-1]:
            x = act(x @ matrix.T + bias)
        matrix, bias = parameters[-1]
        return x @ matrix.T + bias

    return forward
