"""Arrays of random numbers by Philox counters."""

from __future__ import annotations

import math

import numpy as np

from autograd_gpu.backend.arrays.dtypes import DIGITS, HALF, float32, float64, int64, wide
from autograd_gpu.backend.cpu import philox
from autograd_gpu.backend.kernels import counters_for


def random_numbers(
    distribution: str, shape: tuple[int, ...], dtype: np.dtype, seed: int, start: int, scale: float = 1.0,
    shift: float = 0.0,
) -> np.ndarray:  # fmt: skip
    """Standard "Uniform" (on [0, 1)), "Normal" or "Exponential" random numbers, times scale plus shift."""
    size = math.prod(shape)
    below_one, above_zero = _units(philox.words(seed, start, counters_for(size, dtype)).ravel(), wide(dtype))
    if dtype in HALF and distribution == "Uniform":
        below_one = np.floor(below_one * 2 ** DIGITS[dtype]) / 2 ** DIGITS[dtype]
    values = below_one if distribution == "Uniform" else -np.log(above_zero)
    if distribution == "Normal":
        radius, turns = np.sqrt(2 * values[::2]), 2 * np.pi * below_one[1::2].astype(float64)
        values = np.stack([radius * np.cos(turns), radius * np.sin(turns)], axis=-1).ravel()
    values = values.astype(wide(dtype)) * wide(dtype).type(scale) + wide(dtype).type(shift)
    return values[:size].astype(dtype).reshape(shape)


def random_integers(shape: tuple[int, ...], low: int, high: int, seed: int, start: int) -> np.ndarray:
    """Uniformly distributed integers in [low, high), int64."""
    span, size, numbers = high - low, math.prod(shape), []
    drawn = [_pairs(philox.words(seed, start, counters_for(size, int64)).ravel())]
    for i in range(size):
        turn = 0
        while True:
            if turn == len(drawn):
                drawn.append(_pairs(philox.words(seed, start, counters_for(size, int64), turn).ravel()))
            upper, lower = divmod(int(drawn[turn][i]) * span, 2**64)
            if lower >= 2**64 % span:
                break
            turn += 1
        numbers.append(low + upper)
    return np.array(numbers, int64).reshape(shape)


def _units(words: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Uniform numbers on [0, 1) and on (0, 1], of `dtype`."""
    if dtype == float32:
        below = (words >> np.uint32(8)).astype(float32) * float32.type(2**-24)
        return below, words.astype(float32) * float32.type(2**-32) + float32.type(2**-33)
    below = (_pairs(words) >> np.uint64(11)).astype(float64) * 2**-53
    return below, below + 2**-54


def _pairs(words: np.ndarray) -> np.ndarray:
    """Pairs of words as uint64, the lower half first."""
    return words[1::2].astype(np.uint64) << np.uint64(32) | words[::2].astype(np.uint64)
