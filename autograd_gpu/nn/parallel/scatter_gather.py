"""PyTorch's functions that spread the arguments of a module over devices, for one device."""

from __future__ import annotations

from typing import Any


def scatter(inputs: Any, target_gpus: Any, dim: int = 0) -> list[Any]:
    """[inputs]: all of it goes to the one device."""
    return [inputs]


def gather(outputs: list[Any], target_device: Any, dim: int = 0) -> Any:
    """The one result; ValueError for several."""
    if len(outputs) != 1:
        raise ValueError(f"gather: got the results of {len(outputs)} devices, and a program runs on one; "
                         "concatenate them by cat")
    return outputs[0]


def scatter_kwargs(inputs: Any, kwargs: Any, target_gpus: Any, dim: int = 0) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """((inputs,), (kwargs,)) for the one device."""
    return (tuple(inputs or ()),), (dict(kwargs or {}),)
