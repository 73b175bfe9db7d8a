"""cupy.random: generators with NumPy's Philox inside; the numbers are not cuRAND's, their repeatability is.

The state of a Generator lies in device memory, as CuPy's does, and drawing is work for the stream. RandomState, whose
cuRAND generator lives on the host, draws at the call; like cuRAND it refuses to be captured.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from ._access import access
from ._array import ndarray, new
from ._call import given
from ._creation import array, shape_of
from ._state import current_device, current_queue

_GENERATOR_SIZE = 8 * 256 * 132  # samples that one launch of a real device draws


class BitGenerator:
    def __init__(self, seed: Any = None) -> None:
        self.lock = threading.Lock()
        seed = seed.get() if isinstance(seed, ndarray) else seed
        self._seed_seq = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
        self._current_device_id = current_device()

    def _check_device(self) -> None:
        if current_device() != self._current_device_id:
            raise RuntimeError("This Generator state is allocated in a different device")


class _CuRANDGenerator(BitGenerator):
    """`_state` on the device: the seed, and how often numbers were drawn."""

    def __init__(self, seed: Any = None, *, size: int = -1) -> None:
        super().__init__(seed)
        self._size = _GENERATOR_SIZE if size < 0 else size
        self._seed = self._seed_seq.generate_state(1, np.uint32)[0]
        self._state = array(np.array([self._seed, 0], np.uint64).view(np.int8))

    def _state_size(self) -> int:
        return self._size

    def state(self) -> int:
        self._check_device()
        return self._state.data.ptr

    def random_raw(self, size: Any = None, output: bool = True) -> ndarray | None:
        result = Generator(self)._draw("raw", size, np.int32, lambda g, n: g.integers(0, 2**31, n))
        return result if output else None


class XORWOW(_CuRANDGenerator):
    pass


class MRG32k3a(_CuRANDGenerator):
    pass


class Philox4x3210(_CuRANDGenerator):
    pass


class Generator:
    """Random numbers from a bit generator, with the methods and dtypes that CuPy's Generator has."""

    def __init__(self, bit_generator: _CuRANDGenerator) -> None:
        self.bit_generator = bit_generator

    def _draw(
        self, name: str, size: Any, dtype: Any, numbers: Callable[..., Any], out: Any = None,
        read: ndarray | None = None,
    ) -> ndarray:  # fmt: skip
        self.bit_generator._check_device()
        shape, dtype = shape_of(() if size is None else size), np.dtype(dtype)
        result = new(shape, dtype) if out is None else given(out, shape, dtype)
        state, raw = self.bit_generator._state._a.view(np.uint64), result._a

        def run() -> None:
            raw[...] = numbers(np.random.Generator(np.random.Philox(key=state.copy())), shape)
            state[1] += 1

        accesses = [access(result, True), access(self.bit_generator._state, True)]
        accesses += [access(read, False)] if read is not None else []
        current_queue().push(run, f"random.{name}", accesses)
        return result

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> ndarray:
        kind = np.float64 if np.dtype(dtype).char == "d" else np.float32
        result = self._draw("random", size, kind, lambda g, n: g.random(n, kind), out)
        return result.astype(dtype, copy=False)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None, dtype: Any = np.float64) -> ndarray:
        return self.random(size, dtype) * (high - low) + low

    def integers(
        self, low: int, high: int | None = None, size: Any = None, dtype: Any = np.int64, endpoint: bool = False
    ) -> ndarray:
        low, high = (0, low) if high is None else (low, high)
        high = int(high) if endpoint else int(high) - 1
        if low > high:
            raise ValueError("low >= high")
        info = np.iinfo(dtype)
        if low < info.min or high > info.max:
            raise ValueError(f"{'low' if low < info.min else 'high'} is out of bounds for {np.dtype(dtype)}")
        return self._draw("integers", size, dtype, lambda g, n: g.integers(low, high, n, dtype, endpoint=True))

    def standard_normal(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> ndarray:
        if np.dtype(dtype).char not in "fd":
            raise TypeError(f"Unsupported dtype {np.dtype(dtype)} for standard_normal")
        return self._draw("standard_normal", size, dtype, lambda g, n: g.standard_normal(n, dtype), out)


    def standard_exponential(
        self, size: Any = None, dtype: Any = np.float64, method: str = "inv", out: Any = None
    ) -> ndarray:
        if method == "zig":
            raise NotImplementedError("Ziggurat method is not supported")
        if np.dtype(dtype).char not in "fd":
            raise TypeError(f"Unsupported dtype {np.dtype(dtype)} for standard_exponential")
        return self._draw(
            "standard_exponential", size, dtype, lambda g, n: g.standard_exponential(n, dtype, method), out
        )

    def poisson(self, lam: Any = 1.0, size: Any = None) -> ndarray:
        if type(lam) is not ndarray:
            if type(lam) not in (float, int):
                raise TypeError("lam is required to be a cupy.ndarray or a scalar")
            lam = array(np.float64(lam))
        rates, size = lam._a, lam.shape if size is None else size
        return self._draw("poisson", size, np.int64, lambda g, n: g.poisson(rates, n), read=lam)


def default_rng(seed: Any = None) -> Generator:
    if isinstance(seed, Generator):
        return seed
    return Generator(seed if isinstance(seed, BitGenerator) else XORWOW(seed))


class RandomState:
    """The older interface; also behind the functions of this module."""

    def __init__(self, seed: Any = None, method: int = 100) -> None:
        self.seed(seed)

    def seed(self, seed: Any = None) -> None:
        self._generator = np.random.Generator(np.random.Philox(seed))

    def _draw(self, name: str, size: Any, dtype: Any, *args: Any) -> ndarray:
        if current_queue().capture is not None:
            raise NotImplementedError("calling cuRAND API during stream capture is currently unsupported")
        values = np.asarray(getattr(self._generator, name)(*args, size=shape_of(() if size is None else size)))
        result = new(values.shape, np.dtype(dtype))
        raw = result._a
        current_queue().push(lambda: np.copyto(raw, values, casting="unsafe"), f"random.{name}", [access(result, True)])
        return result

    def random_sample(self, size: Any = None, dtype: Any = float) -> ndarray:
        return self._draw("random", size, dtype)

    def rand(self, *size: int, **kwarg: Any) -> ndarray:
        return self.random_sample(size, **kwarg)

    def randn(self, *size: int, **kwarg: Any) -> ndarray:
        return self.standard_normal(size, **kwarg)

    def standard_normal(self, size: Any = None, dtype: Any = float) -> ndarray:
        return self._draw("standard_normal", size, dtype)

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None, dtype: Any = float) -> ndarray:
        return self._draw("normal", size, dtype, loc, scale)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None, dtype: Any = float) -> ndarray:
        return self._draw("uniform", size, dtype, low, high)

    def randint(self, low: int, high: int | None = None, size: Any = None, dtype: Any = int) -> ndarray:
        return self._draw("integers", size, dtype, low, high)

    def permutation(self, a: Any) -> ndarray:
        if not isinstance(a, int):
            return a[array(self._generator.permutation(len(a)))]
        return array(self._generator.permutation(a))


_default = RandomState()


def get_random_state() -> RandomState:
    return _default


random = _default.random_sample
globals().update({name: getattr(_default, name) for name in vars(RandomState) if not name.startswith("_")})
