"""Seeds and states of the CUDA generators; `ag.manual_seed` seeds the generators of all devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import random
from .devices import current_device, device_count


def manual_seed(seed: int) -> None:
    """Seeds the default generator of the current device; does nothing where CUDA is not available, as in PyTorch.

    >>> ag.cuda.manual_seed(0)
    """
    if device_count():
        random.default_generator(f"cuda:{current_device()}").manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Seeds the default generators of all CUDA devices; does nothing where CUDA is not available.

    Makes a generator, and so a CUDA context, on every device; `ag.manual_seed(seed)` does not.

    >>> ag.cuda.manual_seed_all(0)
    """
    for index in range(device_count()):
        random.default_generator(f"cuda:{index}").manual_seed(seed)


def seed() -> None:
    """Seeds the default generator of the current device with a random number; nothing where CUDA is not available.

    >>> ag.cuda.seed()
    """
    if device_count():
        random.default_generator(f"cuda:{current_device()}").seed()


def seed_all() -> None:
    """Seeds the default generators of all CUDA devices with one random number.

    >>> ag.cuda.seed_all()
    """
    if device_count():
        manual_seed_all(random.default_generator("cuda:0").seed())


def get_rng_state(device: Any = "cuda") -> Any:
    """The state of the default generator of `device`, as a uint8 tensor on the CPU for `set_rng_state`.

    >>> if ag.cuda.is_available():
    ...     state, first = ag.cuda.get_rng_state(), ag.rand(2, device="cuda")
    ...     ag.cuda.set_rng_state(state)
    ...     assert (ag.rand(2, device="cuda") == first).all()
    """
    return random.get_rng_state(_named(device))


def get_rng_state_all() -> list[Any]:
    """The states of the default generators of all CUDA devices.

    >>> len(ag.cuda.get_rng_state_all()) == ag.cuda.device_count()
    True
    """
    return [get_rng_state(index) for index in range(device_count())]


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """Restores the default generator of `device` to a state from `get_rng_state`.

    >>> if ag.cuda.is_available():
    ...     ag.cuda.set_rng_state(ag.cuda.get_rng_state())
    """
    random.set_rng_state(new_state, _named(device))


def set_rng_state_all(new_states: Sequence[Any]) -> None:
    """Restores the default generators of all CUDA devices to states from `get_rng_state_all`.

    >>> ag.cuda.set_rng_state_all(ag.cuda.get_rng_state_all())
    """
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def initial_seed() -> int:
    """The seed of the default generator of the current device.

    >>> ag.cuda.manual_seed(3)
    >>> if ag.cuda.is_available():
    ...     assert ag.cuda.initial_seed() == 3
    """
    return random.default_generator(f"cuda:{current_device()}").initial_seed()


def _named(device: Any) -> Any:
    return f"cuda:{device}" if isinstance(device, int) else device
