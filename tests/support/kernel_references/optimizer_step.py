"""Steps of SGD and Adam for one parameter."""

from __future__ import annotations

import numpy as np

from autograd_gpu.backend.arrays.dtypes import wide
from autograd_gpu.backend.optimizers.formulas import AdamNumbers, SGDNumbers


def sgd_step(arrays: tuple[np.ndarray, ...], c: SGDNumbers) -> tuple[np.ndarray, ...]:
    """The new parameter, and buffer if any, from (parameter, [buffer,] gradient)."""
    dtype, (p, *buffer, g) = arrays[0].dtype, [array.astype(wide(array.dtype)) for array in arrays]
    step = g = c.sign * g + (c.decay * p if c.decay else 0)
    if buffer:
        step = buffer[0] = g if c.first else c.momentum * buffer[0] + c.damped * g
        step = g + c.momentum * step if c.nesterov else step
    return tuple([np.asarray(value, dtype) for value in (p - c.lr * step, *buffer)])


def adam_step(arrays: tuple[np.ndarray, ...], c: AdamNumbers) -> tuple[np.ndarray, ...]:
    """The new parameter and state, from (parameter, m, v, [maximum of v,] gradient)."""
    dtype, (p, m, v, *top, g) = arrays[0].dtype, [array.astype(wide(array.dtype)) for array in arrays]
    g = c.sign * g + (c.decay * p if c.decay else 0)
    m, v = c.beta1 * m + (1.0 - c.beta1) * g, c.beta2 * v + (1.0 - c.beta2) * g * g
    top = [np.maximum(largest, v) for largest in top]
    p = c.keep * p - c.rate * m / (np.sqrt(top[0] if top else v) + c.eps)
    return tuple([np.asarray(value, dtype) for value in (p, m, v, *top)])
