"""The libraries that stand beside ours: loaded if installed, else reported as absent."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from .timing import Clock, cupy_clock, host_clock, jax_clock, torch_clock

MODULES = {"torch": "torch", "torch.func": "torch", "jax": "jax", "jax eager": "jax", "numpy": "numpy"}
ALL = tuple(MODULES)


def load_peers(
    requested: Iterable[str], measured: Iterable[str], device: str
) -> tuple[dict[str, ModuleType], dict[str, str]]:
    """Import the requested peers of a workload that measures `measured`.

    Answers {peer: module} and, for those that cannot be measured, {peer: reason}.
    """
    present: dict[str, ModuleType] = {}
    absent: dict[str, str] = {}
    for name in requested:
        if name not in measured:
            absent[name] = "this workload has no version for it"
            continue
        try:
            module = importlib.import_module(MODULES[name])
        except ImportError as error:
            absent[name] = f"not installed ({error})"
            continue
        if device != "cpu" and not has_cuda(module):
            absent[name] = f"installed without CUDA, cannot run on {device}"
        else:
            present[name] = module
    return present, absent


def has_cuda(module: ModuleType) -> bool:
    """Whether this installation of a peer can use a CUDA device."""
    if module.__name__ == "torch":
        return module.cuda.is_available()
    if module.__name__ == "jax":
        return any(device.platform == "gpu" for device in module.devices())
    return False


def clock_for(module: ModuleType, device: str) -> Clock:
    """The clock for a library on a device: CUDA events where the library has them."""
    if module.__name__ == "jax":
        return jax_clock
    if device == "cpu":
        return host_clock
    return torch_clock if module.__name__ == "torch" else cupy_clock


def jax_device(jax: ModuleType, device: str) -> Any:
    """JAX's name for `device`."""
    kind, _, index = device.partition(":")
    return jax.devices("cpu" if kind == "cpu" else "gpu")[int(index or 0)]
