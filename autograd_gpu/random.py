"""Seeds and random numbers: NumPy's PCG64 on the CPU, cuRAND's Philox on CUDA, one default generator per device."""

from __future__ import annotations

import copy
import secrets
import threading
from typing import Any

import numpy as np

from . import backend
from .backend import dtypes
from .backend.device import CPU, Device, or_default
from .core.tensor import Tensor, wrap

__all__ = [
    "Generator",
    "bernoulli_mask",
    "default_generator",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "normal",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "randperm",
    "seed",
    "set_rng_state",
    "uniform",
]

_HIGHEST = 2**64  # seeds are taken modulo this, so that PyTorch's negative ones are valid


class Generator:
    """A stream of random numbers on one device; safe to share between threads.

    >>> g = ag.random.Generator().manual_seed(0)
    >>> ag.rand(2, generator=g).shape
    (2,)
    """

    def __init__(self, device: Any = "cpu") -> None:
        self.device = backend.resolve(Device(device))
        self._lock = threading.Lock()
        self.seed()

    def manual_seed(self, seed: int) -> Generator:
        """Starts the stream that belongs to `seed`, and returns this generator.

        RuntimeError unless -2^63 <= seed < 2^64.

        >>> g = ag.random.Generator()
        >>> bool((ag.rand(2, generator=g.manual_seed(7)) == ag.rand(2, generator=g.manual_seed(7))).all())
        True
        """
        if not -(2**63) <= seed < _HIGHEST:
            raise RuntimeError(f"manual_seed: Overflow when unpacking long, seed {seed} is not in [-2^63, 2^64)")
        with self._lock:
            self._seed = seed % _HIGHEST
            self._stream = self._make()
        return self

    def seed(self) -> int:
        """Starts an unpredictable stream, and returns its seed, with which `manual_seed` starts it again.

        >>> g = ag.random.Generator()
        >>> g.seed() == g.initial_seed()
        True
        """
        self.manual_seed(secrets.randbits(63))
        return self._seed

    def initial_seed(self) -> int:
        """The seed that the current stream began with.

        >>> ag.random.Generator().manual_seed(7).initial_seed()
        7
        """
        return self._seed

    def _make(self) -> Any:
        if self.device == CPU:
            return np.random.Generator(np.random.PCG64(self._seed))
        xp = backend.namespace_on(self.device)
        with xp.cuda.Device(self.device.index):
            return xp.random.Generator(xp.random.Philox4x3210(self._seed))

    def get_state(self) -> Any:
        """Where in its stream the generator is, as a copy for `set_state`: a dict on the CPU, an array on CUDA.

        >>> ag.random.Generator().get_state()["bit_generator"]
        'PCG64'
        """
        with self._lock:
            if self.device == CPU:
                return copy.deepcopy(self._stream.bit_generator.state)
            return backend.to_numpy(self._stream.bit_generator._state)

    def set_state(self, state: Any) -> None:
        """Continues where a generator on a device of the same type was at its `get_state`.

        >>> g = ag.random.Generator()
        >>> state, first = g.get_state(), ag.rand(2, generator=g)
        >>> g.set_state(state)
        >>> bool((ag.rand(2, generator=g) == first).all())
        True
        """
        with self._lock:
            if self.device == CPU:
                self._stream.bit_generator.state = state
            else:
                self._stream.bit_generator._state[...] = backend.to_device(state, self.device)

    def draw(self, distribution: str, *args: Any, **kwargs: Any) -> Any:
        """An array on the generator's device from the method `distribution` of numpy.random.Generator.

        >>> ag.random.Generator().draw("random", (2, 3)).shape
        (2, 3)
        """
        with self._lock:
            if self.device == CPU:
                return getattr(self._stream, distribution)(*args, **kwargs)
            with backend.namespace_on(self.device).cuda.Device(self.device.index):
                return getattr(self._stream, distribution)(*args, **kwargs)


class _Defaults:
    """The generators behind calls without `generator=`, each made when its device is first used."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.generators: dict[Device, Generator] = {}
        self.seed: int | None = None

    def on(self, device: Device) -> Generator:
        with self.lock:
            found = self.generators.get(device)
            if found is None:
                found = self.generators[device] = Generator(device)
                if self.seed is not None:
                    found.manual_seed(self.seed)
            return found


_DEFAULTS = _Defaults()


def default_generator(device: Any = "cpu") -> Generator:
    """The generator that random functions use on `device` when they are given none.

    >>> ag.random.default_generator().device
    device('cpu')
    """
    return _DEFAULTS.on(backend.resolve(Device(device)))


def manual_seed(seed: int) -> Generator:
    """Seeds the default generators of all devices, also those not used yet; returns the CPU's.

    >>> a = ag.manual_seed(0) and ag.rand(3)
    >>> b = ag.manual_seed(0) and ag.rand(3)
    >>> bool((a == b).all())
    True
    """
    home = _DEFAULTS.on(CPU)
    home.manual_seed(seed)
    with _DEFAULTS.lock:
        _DEFAULTS.seed = seed
        for generator in _DEFAULTS.generators.values():
            if generator is not home:
                generator.manual_seed(seed)
    return home


def seed() -> int:
    """Seeds the default generators of all devices with one unpredictable number and returns it.

    >>> ag.random.seed() == ag.random.initial_seed()
    True
    """
    return manual_seed(secrets.randbits(63)).initial_seed()


def initial_seed() -> int:
    """The seed that the CPU's default generator began its stream with.

    >>> ag.manual_seed(3) and ag.random.initial_seed()
    3
    """
    return default_generator().initial_seed()


def get_rng_state(device: Any = "cpu") -> Any:
    """The state of the default generator of `device`, as a copy: a dict on the CPU, an array on CUDA.

    >>> ag.random.get_rng_state()["bit_generator"]
    'PCG64'
    """
    return default_generator(device).get_state()


def set_rng_state(state: Any, device: Any = "cpu") -> None:
    """Puts the default generator of `device` back to where `get_rng_state` found it.

    >>> state, first = ag.random.get_rng_state(), ag.rand(2)
    >>> ag.random.set_rng_state(state)
    >>> bool((ag.rand(2) == first).all())
    True
    """
    default_generator(device).set_state(state)


# ---- arrays ------------------------------------------------------------------------------------------


def _source(device: Any, generator: Generator | None) -> Generator:
    """The generator to draw from, after checking that it lives on `device` (default: where it lives)."""
    if generator is None:
        return _DEFAULTS.on(backend.resolve(or_default(device)))
    if device is not None and backend.resolve(Device(device)) != generator.device:
        raise RuntimeError(f"Expected a '{Device(device)}' generator but found one on '{generator.device}'; "
                           f"make it with ag.random.Generator({str(Device(device))!r})")
    return generator


def _floats(
    distribution: str, shape: tuple[int, ...], dtype: Any, source: Generator, scale: float = 1.0, shift: float = 0.0
) -> Any:
    """shift + scale * numbers of the standard `distribution`; half types are drawn in float32."""
    wanted = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    if wanted not in dtypes.FLOATS:
        raise RuntimeError(f"random numbers of dtype {wanted} are not implemented; draw float32 and convert")
    wide = wanted if wanted.itemsize > 2 else dtypes.float32
    array = source.draw(distribution, shape, dtype=wide)
    if scale != 1.0:
        array *= scale
    if shift != 0.0:
        array += shift
    return array.astype(wanted, copy=False)


def bernoulli_mask(shape: tuple[int, ...], keep: float, device: Any = None, generator: Generator | None = None) -> Any:
    """A bool array of `shape` (no tensor), each element True with probability `keep`.

    >>> ag.random.bernoulli_mask((2,), 1.0)
    array([ True,  True])
    """
    return _source(device, generator).draw("random", shape, dtype=dtypes.float32) < keep


# ---- tensors -----------------------------------------------------------------------------------------


def uniform(
    shape: tuple[int, ...], dtype: Any = None, device: Any = None, low: float = 0.0, high: float = 1.0,
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """A tensor of numbers uniform on [low, high).

    >>> ag.random.uniform((2,), low=1.0, high=1.0)
    tensor([1., 1.])
    """
    return wrap(_floats("random", tuple(shape), dtype, _source(device, generator), high - low, low))


def normal(
    shape: tuple[int, ...], dtype: Any = None, device: Any = None, mean: float = 0.0, std: float = 1.0,
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """A tensor of normally distributed numbers.

    >>> ag.random.normal((2,), mean=3.0, std=0.0)
    tensor([3., 3.])
    """
    return wrap(_floats("standard_normal", tuple(shape), dtype, _source(device, generator), std, mean))


def _shape(size: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(size[0]) if len(size) == 1 and not isinstance(size[0], (int, np.integer)) else size


def rand(
    *size: Any, generator: Generator | None = None, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Numbers uniform on [0, 1); the shape as integers or as one tuple.

    >>> ag.rand(2, 3).shape
    (2, 3)
    """
    return uniform(_shape(size), dtype, device, generator=generator).requires_grad_(requires_grad)


def randn(
    *size: Any, generator: Generator | None = None, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Standard normal numbers; the shape as integers or as one tuple.

    >>> ag.randn((2, 3), dtype=ag.float64).dtype
    dtype('float64')
    """
    return normal(_shape(size), dtype, device, generator=generator).requires_grad_(requires_grad)


def rand_like(x: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """`rand` with the shape, dtype and device of x.

    >>> ag.rand_like(ag.ones(2)).shape
    (2,)
    """
    return rand(x.shape, dtype=dtype or x.dtype, device=device or x.device, requires_grad=requires_grad)


def randn_like(x: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """`randn` with the shape, dtype and device of x.

    >>> ag.randn_like(ag.ones(2)).shape
    (2,)
    """
    return randn(x.shape, dtype=dtype or x.dtype, device=device or x.device, requires_grad=requires_grad)


def randint(
    low: int, high: Any = None, size: Any = None, *, generator: Generator | None = None, dtype: Any = None,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Integers in [low, high) as int64, or in another `dtype`: randint(low, high, size) or randint(high, size).

    >>> ag.randint(3, 4, (2,))
    tensor([3, 3])
    """
    if size is None:
        low, high, size = 0, low, high
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    array = _source(device, generator).draw("integers", low, high, tuple(size), dtype=dtypes.int64)
    wanted = dtypes.int64 if dtype is None else dtypes.as_dtype(dtype)
    return wrap(array.astype(wanted, copy=False)).requires_grad_(requires_grad)


def randint_like(
    x: Tensor, low: int, high: int | None = None, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Integers in [low, high), or [0, low), with the shape, dtype and device of x.

    >>> ag.randint_like(ag.zeros(2), 3, 4)
    tensor([3., 3.])
    """
    low, high = (0, low) if high is None else (low, high)
    return randint(low, high, x.shape, dtype=dtype or x.dtype, device=device or x.device, requires_grad=requires_grad)


def randperm(
    n: int, *, generator: Generator | None = None, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """The integers 0 ... n - 1 in random order, as int64 or in another `dtype`.

    >>> ag.randperm(4).sum()
    tensor(6)
    """
    source = _source(device, generator)
    # CuPy's Generator has no permutation; the order of random keys is one
    array = source.draw("permutation", n) if source.device == CPU else source.draw("random", (n,)).argsort()
    wanted = dtypes.int64 if dtype is None else dtypes.as_dtype(dtype)
    return wrap(array.astype(wanted, copy=False)).requires_grad_(requires_grad)
