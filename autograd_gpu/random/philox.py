"""The stream of a CUDA generator: a seed, and the offset of the next unused Philox counter.

Every call takes the next range of counters, from which a kernel computes the numbers (backend/kernels/random.py), or a
dropout mask at each use (backend/kernels/dropout.py). The state is two integers on the host. While a CUDA graph is
captured a `CapturedStream` takes its place: then the seed and the first counter are known at each replay only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..backend import kernels
from ..backend.arrays.dtypes import bool_, float64, int64, uint64
from ..backend.cuda.live_numbers import LiveNumbers

Array = Any  # cupy.ndarray
Shape = int | Sequence[int]
DISTRIBUTIONS = {"random": "Uniform", "standard_normal": "Normal", "standard_exponential": "Exponential"}


class PhiloxStream:
    """Draws on the current device, with the names and arguments of numpy.random.Generator."""

    def __init__(self, seed: int) -> None:
        self.seed, self.offset = seed, 0

    @property
    def state(self) -> Any:
        """Seed and offset, as two uint64."""
        return np.array([self.seed, self.offset], np.uint64)

    @state.setter
    def state(self, state: Any) -> None:
        self.seed, self.offset = map(int, state)

    def take(self, counters: int) -> tuple[int, int]:
        """Reserves `counters` counters; returns the seed and the first one."""
        start = self.offset
        self.offset = (start + counters) % 2**64
        return self.seed, start

    def random(self, size: Shape = (), dtype: Any = float64) -> Array:
        """Uniform on [0, 1)."""
        return self.numbers("random", size, dtype)

    def standard_normal(self, size: Shape = (), dtype: Any = float64) -> Array:
        return self.numbers("standard_normal", size, dtype)

    def standard_exponential(self, size: Shape = (), dtype: Any = float64) -> Array:
        return self.numbers("standard_exponential", size, dtype)

    def numbers(
        self, distribution: str, size: Shape, dtype: Any, scale: float = 1.0, shift: float = 0.0
    ) -> Array:
        """shift + scale * numbers of a standard distribution, by NumPy's name of it, in any floating dtype."""
        shape, dtype = _shape(size), np.dtype(dtype)
        taken = self.take(kernels.counters_for(math.prod(shape), dtype))
        return kernels.random_numbers(DISTRIBUTIONS[distribution], shape, dtype, *taken, scale, shift)

    def integers(self, low: int, high: int, size: Shape = (), dtype: Any = int64) -> Array:
        """Uniform integers in [low, high); ValueError for bounds out of the range of int64."""
        shape, low, high = _shape(size), int(low), int(high)
        for name, bound, limit in (("low", low, low + 2**63), ("high", high, 2**63 - high)):
            if limit < 0:
                raise ValueError(f"{name} is out of bounds for int64: {bound}")
        taken = self.take(kernels.counters_for(math.prod(shape), int64))
        return kernels.random_integers(shape, low, high, *taken).astype(dtype, copy=False)

    def bits(self, keep: float, size: Shape = ()) -> Array:
        """A bool array, True with probability `keep`: the same bits as those of `mask`."""
        shape = _shape(size)
        return kernels.random_bits(shape, keep, *self.take(kernels.counters_for(math.prod(shape), bool_)))

    def mask(self, keep: float, count: int, per_bit: int = 1) -> kernels.Mask:
        """A mask of `count` bits computed at each use; a bit applies to `per_bit` adjacent elements."""
        return kernels.Mask(*self.take(kernels.counters_for(count, bool_)), keep, count, per_bit)

    def poisson(self, rates: Array) -> Array:
        """Poisson-distributed numbers with these `rates`, float64."""
        return kernels.random_events(kernels.contiguous(rates), *self.take(rates.size))

    def standard_gamma(self, alphas: Array) -> Array:
        """Gamma-distributed numbers of scale 1 with these shape parameters, float64."""
        return kernels.random_gammas(kernels.contiguous(alphas), *self.take(alphas.size))

    def binomial(self, counts: Array, probabilities: Array) -> Array:
        """Numbers of successes in so many trials, of the same shape as `probabilities`, float64."""
        arrays = kernels.contiguous(counts), kernels.contiguous(probabilities)
        return kernels.random_successes(*arrays, *self.take(counts.size))


class CapturedStream(PhiloxStream):
    """The stream of a generator in the capture of a CUDA graph: it counts from where the generator is at a replay.

    `advance(counters)` is called before each launch: it takes as many counters as the capture did from the generator,
    and returns the seed and the first one; `advance(-counters)` gives them back if no launch comes. The state is the
    stream itself, and the offset.
    """

    def __init__(self, live: LiveNumbers, advance: Callable[[int], tuple[int, int]]) -> None:
        super().__init__(0)

        def refresh() -> np.ndarray:
            return np.array(advance(self.offset), np.uint64)

        def undo() -> None:
            advance(-self.offset)

        self._words = live.array(refresh, 2, uint64, undo)

    def take(self, counters: int) -> tuple[Any, int]:
        """The array of the seed and the generator's next counter, and the first counter behind that one."""
        return self._words, super().take(counters)[1]

    @property
    def state(self) -> Any:
        """For streams in the same capture."""
        return self, self.offset

    @state.setter
    def state(self, state: Any) -> None:
        stream, self.offset = state
        self._words = stream._words

    def beside(self) -> CapturedStream:
        """A stream that draws the same numbers, which the generator does not count."""
        result = object.__new__(CapturedStream)
        result.seed, result.offset, result._words = 0, self.offset, self._words
        return result


def _shape(size: Shape) -> tuple[int, ...]:
    """The shape as Python ints: NumPy's would overflow in the number of counters."""
    return tuple(map(int, size)) if isinstance(size, Sequence) else (int(size),)
