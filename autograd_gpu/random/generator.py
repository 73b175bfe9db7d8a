"""Generators of random numbers: NumPy's PCG64 on the CPU, Philox (philox.py) on CUDA, a default one per device."""

from __future__ import annotations

import contextlib
import copy
import os
import secrets
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from .. import backend
from ..backend.arrays.device import CPU, Device, or_default
from ..backend.cuda import live_numbers
from ..core.generator import StreamPosition
from ..core.interpret.tracing import refuse as refuse_traced
from ..core.tensor import Tensor
from ..modes import MODES
from .philox import CapturedStream, PhiloxStream
from .replay import used
from .state_bytes import as_bytes, from_bytes

_HIGHEST = 2**64  # seeds are taken modulo this, so that PyTorch's negative ones are valid


class Generator:
    """A stream of random numbers on one device; safe to share between threads.

    The initial seed is random, unlike PyTorch's: call `manual_seed` for reproducible numbers.

    >>> g = ag.random.Generator().manual_seed(0)
    >>> ag.rand(2, generator=g).shape
    (2,)
    """

    def __init__(self, device: Any = "cpu") -> None:
        self.device = backend.resolve(Device(device))
        self._lock = threading.Lock()
        self._begin(secrets.randbits(63))

    def manual_seed(self, seed: int) -> Generator:
        """Restarts the stream with `seed`, and returns this generator.

        RuntimeError unless -2^63 <= seed < 2^64.

        >>> g = ag.random.Generator()
        >>> bool((ag.rand(2, generator=g.manual_seed(7)) == ag.rand(2, generator=g.manual_seed(7))).all())
        True
        """
        seed = int(seed)
        if not -(2**63) <= seed < _HIGHEST:
            raise RuntimeError(f"manual_seed: Overflow when unpacking long, seed {seed} is not in [-2^63, 2^64)")
        self._refuse_in_capture("is seeded")
        (used(self) if MODES.drawing else self)._begin(seed)
        return self

    def _begin(self, seed: int) -> None:
        with self._lock:
            self._seed = seed % _HIGHEST
            self._stream = self._make()

    def _refuse_in_capture(self, what: str) -> None:
        refuse_traced(f"a generator {what}", "do it outside of the compiled function")
        if self.device != CPU:
            live_numbers.refuse(f"a generator on {self.device}", f"which {what} at the capture, but not at replays",
                                "do it outside of the captured code")

    def _captured(self, live: live_numbers.LiveNumbers) -> CapturedStream:
        """What stands for the stream in a capture: numbers are drawn at each replay."""
        stream = live.held.get(self)
        if stream is None:
            stream = live.held[self] = CapturedStream(live, self._taken)
        return stream

    def _taken(self, counters: int) -> tuple[int, int]:
        with self._lock:
            return self._stream.take(counters)

    def seed(self) -> int:
        """Restarts the stream with a random seed, and returns the seed.

        >>> g = ag.random.Generator()
        >>> g.seed() == g.initial_seed()
        True
        """
        return self.manual_seed(secrets.randbits(63)).initial_seed()

    def initial_seed(self) -> int:
        """The seed of the current stream.

        >>> ag.random.Generator().manual_seed(7).initial_seed()
        7
        """
        return (used(self) if MODES.drawing else self)._seed

    def _make(self) -> Any:
        if self.device == CPU:
            return np.random.Generator(np.random.PCG64(self._seed))
        backend.namespace_on(self.device)  # says what is missing where there is no such device
        return PhiloxStream(self._seed)

    def get_state(self) -> Tensor:
        """A copy of the generator's state, seed included, for `set_state`: a uint8 tensor on the CPU.

        >>> ag.random.Generator().get_state().dtype
        dtype('uint8')
        """
        self._refuse_in_capture("is read")
        return as_bytes(self.place())

    def set_state(self, state: Tensor) -> None:
        """Restores a state from `get_state` of a generator on a device of the same type.

        TypeError for what is no uint8 tensor, RuntimeError for one of another size.

        >>> g = ag.random.Generator()
        >>> state, first = g.get_state(), ag.rand(2, generator=g)
        >>> g.set_state(state)
        >>> bool((ag.rand(2, generator=g) == first).all())
        True
        """
        self.return_to(from_bytes(state, self.device == CPU))

    def place(self) -> StreamPosition:
        """Seed and state, for `return_to`."""
        return (used(self) if MODES.drawing else self)._place()

    def _place(self) -> StreamPosition:
        with self._lock:
            if self.device == CPU:
                return self._seed, copy.deepcopy(self._stream.bit_generator.state)
            live = live_numbers.current()
            return self._seed, (self._stream if live is None else self._captured(live)).state

    def return_to(self, place: StreamPosition) -> None:
        """Goes on from a `place`.

        >>> g = ag.random.Generator()
        >>> place, first = g.place(), ag.rand(2, generator=g)
        >>> g.return_to(place)
        >>> bool((ag.rand(2, generator=g) == first).all())
        True
        """
        (used(self) if MODES.drawing else self)._return_to(place)

    def _return_to(self, place: StreamPosition) -> None:
        with self._lock:
            seed, state = place
            if self.device == CPU:
                self._stream.bit_generator.state, self._seed = state, seed
            elif (live := live_numbers.current()) is not None:
                self._captured(live).state = state
            else:
                self._stream.state = state
                self._seed = self._stream.seed

    def at(self, place: StreamPosition) -> Generator:
        """Another generator on the same device, at `place`."""
        result = object.__new__(Generator)
        live = live_numbers.current()
        if live is not None and self.device != CPU:
            result._stand_in(self, live, place)
        else:
            result.__setstate__({"device": self.device, "seed": place[0], "state": place[1]})
        return result

    def _stand_in(self, generator: Generator, live: live_numbers.LiveNumbers, place: StreamPosition) -> None:
        """Begins at a `place` that was noted in the same capture."""
        self.device, self._lock = generator.device, threading.Lock()
        self._seed, self._stream = place[0], generator._stream
        stream = live.held[self] = generator._captured(live).beside()
        stream.state = place[1]

    def clone_state(self) -> Generator:
        """A new generator with the same state, as by `copy.deepcopy`.

        >>> g = ag.random.Generator()
        >>> twin = g.clone_state()
        >>> bool((ag.rand(2, generator=g) == ag.rand(2, generator=twin)).all())
        True
        """
        return copy.deepcopy(self)

    def __getstate__(self) -> dict[str, Any]:
        self._refuse_in_capture("is copied")
        return {"device": str(self.device), "seed": self.initial_seed(), "state": self.place()[1]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.device, self._lock = Device(state["device"]), threading.Lock()
        self._begin(state["seed"])
        self._return_to((state["seed"], state["state"]))

    def draw(self, distribution: str, *args: Any, **kwargs: Any) -> Any:
        """The result of the method `distribution` of numpy.random.Generator, or of `philox.PhiloxStream` on CUDA.

        >>> ag.random.Generator().draw("random", (2, 3)).shape
        (2, 3)
        """
        if MODES.drawing:
            self = used(self)
        with self._lock:
            stream = self._stream
            if type(stream) is np.random.Generator:
                if distribution == "binomial":
                    args = (args[0].astype(np.int64), *args[1:])  # NumPy's takes integers only
                return getattr(stream, distribution)(*args, **kwargs)
            live = live_numbers.current()
            if live is not None:
                stream = self._captured(live)
            with backend.namespace_on(self.device).cuda.Device(self.device.index):
                return getattr(stream, distribution)(*args, **kwargs)


class _Defaults:
    """The default generators, each made at the first use of its device."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.generators: dict[Device, Generator] = {}
        self.home: Generator | None = None  # the CPU's: it is never taken out
        self.seed: int | None = None

    def on(self, device: Device) -> Generator:
        generator = self.generators.get(device)
        if generator is not None:
            return generator
        with self.lock:
            generator = self.generators.get(device)
            if generator is None:
                generator = self.generators[device] = Generator(device)
                if self.seed is not None:
                    generator._begin(self.seed)
                if device == CPU:
                    self.home = generator
            return generator


    def after_fork(self) -> None:
        """In the child of a fork: threads that are not here may hold the locks, and CUDA cannot be used."""
        self.lock = threading.Lock()
        self.generators = {device: g for device, g in self.generators.items() if device == CPU}
        if self.home is not None:
            self.home._lock = threading.Lock()


_DEFAULTS = _Defaults()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_DEFAULTS.after_fork)


def default_generator(device: Any = "cpu") -> Generator:
    """The default generator of `device`.

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
    """The seed of the CPU's default generator.

    >>> ag.manual_seed(3) and ag.random.initial_seed()
    3
    """
    return default_generator().initial_seed()


def get_rng_state(device: Any = "cpu") -> Tensor:
    """The state of the default generator of `device`, as a copy: a uint8 tensor on the CPU.

    >>> ag.random.get_rng_state().dtype
    dtype('uint8')
    """
    return default_generator(device).get_state()


def set_rng_state(state: Tensor, device: Any = "cpu") -> None:
    """Restores the default generator of `device` to a state from `get_rng_state`.

    >>> state, first = ag.random.get_rng_state(), ag.rand(2)
    >>> ag.random.set_rng_state(state)
    >>> bool((ag.rand(2) == first).all())
    True
    """
    default_generator(device).set_state(state)


@contextlib.contextmanager
def fork_rng(devices: Iterable[Any] | None = None, enabled: bool = True) -> Iterator[None]:
    """Context that restores the states and seeds of default generators at exit.

    Applies to the CPU's and those of `devices`, by default of all devices; generators first used inside are discarded
    at exit. Does nothing if not `enabled`.

    >>> with ag.random.fork_rng():
    ...     first = ag.rand(2)
    >>> bool((ag.rand(2) == first).all())
    True
    """
    if not enabled:
        yield
        return
    chosen = None if devices is None else {CPU, *(Device(d if isinstance(d, str) else f"cuda:{d}") for d in devices)}
    _DEFAULTS.on(CPU)
    with _DEFAULTS.lock:
        seed = _DEFAULTS.seed
        kept = {d: g for d, g in _DEFAULTS.generators.items() if chosen is None or d in chosen}
        before = {d: g.place() for d, g in kept.items()}
    try:
        yield
    finally:
        with _DEFAULTS.lock:
            _DEFAULTS.seed = seed
            for device in [d for d in _DEFAULTS.generators if d not in before and (chosen is None or d in chosen)]:
                del _DEFAULTS.generators[device]
            for device, place in before.items():
                kept[device].return_to(place)
                _DEFAULTS.generators[device] = kept[device]


def source(device: Any, generator: Generator | None) -> Generator:
    """`generator`, or the default generator of `device`; RuntimeError if `generator` is on another device."""
    if generator is None:
        device = or_default(device)
        return (_DEFAULTS.home if device.type == "cpu" else None) or _DEFAULTS.on(backend.resolve(device))
    if device is not None and backend.resolve(Device(device)) != generator.device:
        raise RuntimeError(f"Expected a '{Device(device)}' generator but found one on '{generator.device}'; "
                           f"make it with ag.random.Generator({str(Device(device))!r})")
    return generator
