"""Seeds of the CUDA generators alone; `ag.manual_seed` seeds those of every device."""

from __future__ import annotations

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

    Makes a generator, and so a CUDA context, on every device. `ag.manual_seed(seed)` seeds unused devices without.

    >>> ag.cuda.manual_seed_all(0)
    """
    for index in range(device_count()):
        random.default_generator(f"cuda:{index}").manual_seed(seed)
