"""Arrays of random numbers on the current device, by Philox counters."""

from __future__ import annotations

import math

import numpy as np

from ..arrays.dtypes import DIGITS, HALF, bool_, float32, float64, int64, uint64, wide
from ..cuda import runtime
from .constants import THREADS
from .instances import C_NAMES, Parameter, declare
from .launcher import Array, c_name, check_array, launch
from .philox import COUNTERS, threshold, words_reference
from .tiles import VECTOR, Launch

DISTRIBUTIONS = ("Uniform", "Normal", "Exponential")
WORD = 4  # bytes
LENGTH = Parameter("size", "scalar", int64)


def _declare() -> None:
    for dtype, name in C_NAMES.items():
        numbers = Parameter("scale", "scalar", wide(dtype)), Parameter("shift", "scalar", wide(dtype))
        parameters = (Parameter("out", "write", dtype), *COUNTERS, *numbers, LENGTH)
        for distribution in DISTRIBUTIONS:
            instance = f"random_numbers<{distribution}, {name}>"
            declare(instance, "random.cu", "random_numbers", parameters, unit=name)
    bits = (Parameter("out", "write", bool_), *COUNTERS, Parameter("threshold", "scalar", int64), LENGTH)
    declare("random_bits", "random.cu", "random_bits", bits)
    span = Parameter("range", "scalar", uint64), Parameter("uneven", "scalar", uint64)
    integers = (Parameter("out", "write", int64), *COUNTERS, Parameter("low", "scalar", int64), *span, LENGTH)
    declare("random_integers", "random.cu", "random_integers", integers)
    events = (Parameter("rates", "read", float64), Parameter("out", "write", float64), *COUNTERS, LENGTH)
    declare("random_events<double>", "random.cu", "random_events", events, unit="events")
    gammas = (Parameter("alphas", "read", float64), Parameter("out", "write", float64), *COUNTERS, LENGTH)
    declare("random_gammas<double>", "random.cu", "random_gammas", gammas, unit="gammas")
    trials = Parameter("counts", "read", float64), Parameter("probabilities", "read", float64)
    successes = (*trials, Parameter("out", "write", float64), *COUNTERS, LENGTH)
    declare("random_successes<double>", "random.cu", "random_successes", successes, unit="successes")


_declare()


def counters_for(size: int, dtype: np.dtype) -> int:
    """The number of counters that an array uses: each gives 16 bytes, for two 8-byte numbers or four smaller ones."""
    return -(-size // (VECTOR // max(dtype.itemsize, WORD)))


def _threads(count: int) -> Launch:
    return (-(-count // THREADS), 1), (THREADS, 1)


def random_numbers(
    distribution: str, shape: tuple[int, ...], dtype: np.dtype, seed: int, start: int, scale: float = 1.0,
    shift: float = 0.0,
) -> Array:  # fmt: skip
    """Standard "Uniform" (on [0, 1)), "Normal" or "Exponential" random numbers, times scale plus shift.

    Half types are computed in float32 and rounded once; uniform numbers are truncated before scale and shift.
    """
    instance = f"random_numbers<{distribution}, {c_name('random_numbers', dtype)}>"
    out, size = runtime.cupy().empty(shape, dtype), math.prod(shape)
    launch(instance, _threads(counters_for(size, dtype)), out, seed, start, scale, shift, size)
    return out


def random_numbers_reference(
    distribution: str, shape: tuple[int, ...], dtype: np.dtype, seed: int, start: int, scale: float = 1.0,
    shift: float = 0.0,
) -> np.ndarray:  # fmt: skip
    size = math.prod(shape)
    below_one, above_zero = _units(words_reference(seed, start, counters_for(size, dtype)).ravel(), wide(dtype))
    if dtype in HALF and distribution == "Uniform":
        below_one = np.floor(below_one * 2 ** DIGITS[dtype]) / 2 ** DIGITS[dtype]
    values = below_one if distribution == "Uniform" else -np.log(above_zero)
    if distribution == "Normal":
        radius, turns = np.sqrt(2 * values[::2]), 2 * np.pi * below_one[1::2].astype(float64)
        values = np.stack([radius * np.cos(turns), radius * np.sin(turns)], axis=-1).ravel()
    values = values.astype(wide(dtype)) * wide(dtype).type(scale) + wide(dtype).type(shift)
    return values[:size].astype(dtype).reshape(shape)


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


def random_bits(shape: tuple[int, ...], probability: float, seed: int, start: int) -> Array:
    """A bool array, True with this probability: the bits of a `Mask` with the same counters."""
    out, size = runtime.cupy().empty(shape, bool_), math.prod(shape)
    launch("random_bits", _threads(counters_for(size, bool_)), out, seed, start, threshold(probability), size)
    return out


def random_integers(shape: tuple[int, ...], low: int, high: int, seed: int, start: int) -> Array:
    """An int64 array of uniformly distributed integers in [low, high)."""
    out, size, span = runtime.cupy().empty(shape, int64), math.prod(shape), high - low
    shape_of_launch = _threads(counters_for(size, int64))
    launch("random_integers", shape_of_launch, out, seed, start, low, span % 2**64, 2**64 % span, size)
    return out


def random_integers_reference(shape: tuple[int, ...], low: int, high: int, seed: int, start: int) -> np.ndarray:
    span, size, numbers = high - low, math.prod(shape), []
    drawn = [_pairs(words_reference(seed, start, counters_for(size, int64)).ravel())]
    for i in range(size):
        turn = 0
        while True:
            if turn == len(drawn):
                drawn.append(_pairs(words_reference(seed, start, counters_for(size, int64), turn).ravel()))
            upper, lower = divmod(int(drawn[turn][i]) * span, 2**64)
            if lower >= 2**64 % span:
                break
            turn += 1
        numbers.append(low + upper)
    return np.array(numbers, int64).reshape(shape)


def random_events(rates: Array, seed: int, start: int) -> Array:
    """Poisson-distributed numbers with these rates, float64; 0 for a negative rate.

    An infinite or NaN rate is returned as it is. Uses one counter per element.
    """
    check_array("random_events", "rates", rates)
    out = runtime.cupy().empty(rates.shape, rates.dtype)
    launch("random_events<double>", _threads(rates.size), rates, out, seed, start, rates.size)
    return out


def random_gammas(alphas: Array, seed: int, start: int) -> Array:
    """Gamma-distributed numbers of scale 1 with these shape parameters, float64; NaN for a negative one.

    Uses one counter per element.
    """
    check_array("random_gammas", "alphas", alphas)
    out = runtime.cupy().empty(alphas.shape, alphas.dtype)
    launch("random_gammas<double>", _threads(alphas.size), alphas, out, seed, start, alphas.size)
    return out


def random_successes(counts: Array, probabilities: Array, seed: int, start: int) -> Array:
    """Numbers of successes in so many trials with these probabilities, float64; 0 for a negative count.

    A probability below 0 counts as 0, one above 1 as 1. NaN if the count is not finite or the probability is NaN.
    Uses one counter per element.
    """
    check_array("random_successes", "counts", counts)
    check_array("random_successes", "probabilities", probabilities, counts.shape)
    out = runtime.cupy().empty(counts.shape, counts.dtype)
    launch("random_successes<double>", _threads(counts.size), counts, probabilities, out, seed, start, counts.size)
    return out
