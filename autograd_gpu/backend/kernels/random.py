"""Arrays of random numbers on the current device, by Philox counters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..arrays.dropout_mask import threshold
from ..arrays.dtypes import bool_, float64, int64, uint64, wide
from ..cuda import runtime
from .constants import COUNTERS_PER_THREAD, THREADS
from .instances import C_NAMES, COUNTERS, Parameter, declare
from .launcher import Array, c_name, check_array, launch
from .tiles import VECTOR, Launch

DISTRIBUTIONS = ("Uniform", "Normal", "Exponential")
WORD = 4  # bytes
Seed = Any  # an int, or while a CUDA graph is captured an array of the seed, and what is to be added to the counters
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


def words_of(seed: Seed, start: int) -> tuple[int, int, Array | None]:
    """The arguments for COUNTERS."""
    return (seed, start, None) if isinstance(seed, int) else (0, start, seed)


def _filling(counters: int) -> Launch:
    """The launch of a kernel that fills an array with random numbers."""
    return _threads(-(-counters // COUNTERS_PER_THREAD))


def _threads(count: int) -> Launch:
    return (-(-count // THREADS), 1), (THREADS, 1)


def random_numbers(
    distribution: str, shape: tuple[int, ...], dtype: np.dtype, seed: Seed, start: int, scale: float = 1.0,
    shift: float = 0.0,
) -> Array:  # fmt: skip
    """Standard "Uniform" (on [0, 1)), "Normal" or "Exponential" random numbers, times scale plus shift.

    Half types are computed in float32 and rounded once; uniform numbers are truncated before scale and shift.
    """
    instance = f"random_numbers<{distribution}, {c_name('random_numbers', dtype)}>"
    out, size = runtime.cupy().empty(shape, dtype), math.prod(shape)
    launch(instance, _filling(counters_for(size, dtype)), out, *words_of(seed, start), scale, shift, size)
    return out


def random_bits(shape: tuple[int, ...], probability: float, seed: Seed, start: int) -> Array:
    """A bool array, True with this probability: the bits of a `Mask` with the same counters."""
    out, size = runtime.cupy().empty(shape, bool_), math.prod(shape)
    arguments = (out, *words_of(seed, start), threshold(probability), size)
    launch("random_bits", _filling(counters_for(size, bool_)), *arguments)
    return out


def random_integers(shape: tuple[int, ...], low: int, high: int, seed: Seed, start: int) -> Array:
    """An int64 array of uniformly distributed integers in [low, high)."""
    out, size, span = runtime.cupy().empty(shape, int64), math.prod(shape), high - low
    shape_of_launch = _filling(counters_for(size, int64))
    launch("random_integers", shape_of_launch, out, *words_of(seed, start), low, span % 2**64, 2**64 % span, size)
    return out


def random_events(rates: Array, seed: Seed, start: int) -> Array:
    """Poisson-distributed numbers with these rates, float64; 0 for a negative rate.

    An infinite or NaN rate is returned as it is. Uses one counter per element.
    """
    check_array("random_events", "rates", rates)
    out = runtime.cupy().empty(rates.shape, rates.dtype)
    launch("random_events<double>", _threads(rates.size), rates, out, *words_of(seed, start), rates.size)
    return out


def random_gammas(alphas: Array, seed: Seed, start: int) -> Array:
    """Gamma-distributed numbers of scale 1 with these shape parameters, float64; NaN for a negative one.

    Uses one counter per element.
    """
    check_array("random_gammas", "alphas", alphas)
    out = runtime.cupy().empty(alphas.shape, alphas.dtype)
    launch("random_gammas<double>", _threads(alphas.size), alphas, out, *words_of(seed, start), alphas.size)
    return out


def random_successes(counts: Array, probabilities: Array, seed: Seed, start: int) -> Array:
    """Numbers of successes in so many trials with these probabilities, float64; 0 for a negative count.

    A probability below 0 counts as 0, one above 1 as 1. NaN if the count is not finite or the probability is NaN.
    Uses one counter per element.
    """
    check_array("random_successes", "counts", counts)
    check_array("random_successes", "probabilities", probabilities, counts.shape)
    out = runtime.cupy().empty(counts.shape, counts.dtype)
    arguments = (counts, probabilities, out, *words_of(seed, start), counts.size)
    launch("random_successes<double>", _threads(counts.size), *arguments)
    return out
