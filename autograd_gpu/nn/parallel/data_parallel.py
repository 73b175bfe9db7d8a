"""Calls of a module on the data of one device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..module import Module


def _check(device_ids: Sequence[Any] | None) -> None:
    if device_ids is not None and len(device_ids) > 1:
        raise NotImplementedError(f"nn.DataParallel: got the devices {list(device_ids)}, and a program runs on one "
                                  "device at a time; give device_ids of one device, or call the module itself")


class DataParallel(Module):
    """A module that calls `module`, for programs written for several devices: there is one here.

    The parameters have names that begin with "module.", as in PyTorch. NotImplementedError for several devices.

    >>> net = ag.nn.DataParallel(ag.nn.Linear(2, 1))
    >>> net(ag.ones(3, 2)).shape, list(net.state_dict())
    ((3, 1), ['module.weight', 'module.bias'])
    """

    def __init__(
        self, module: Module, device_ids: Sequence[Any] | None = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        _check(device_ids)
        self.module, self.device_ids, self.output_device, self.dim = module, device_ids or [], output_device, dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module, inputs: Any, device_ids: Sequence[Any] | None = None, output_device: Any = None, dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:  # fmt: skip
    """module(*inputs, **module_kwargs) on one device."""
    _check(device_ids)
    return module(*(inputs if isinstance(inputs, tuple) else (inputs,)), **(module_kwargs or {}))
