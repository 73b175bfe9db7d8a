"""Devices by name: "cpu", "cuda", "cuda:1"."""

from __future__ import annotations

import threading


class Device:
    """A place for arrays: `type` is "cpu" or "cuda", `index` the CUDA ordinal.

    The CPU has no index, and "cuda" without one means the device that is current where it is used.

    As a context it is where this thread's factories make tensors, as `set_default_device` says for the process.

    >>> ag.device("cuda:1").index
    1
    >>> with ag.device("cpu"):
    ...     ag.ones(2).device
    device('cpu')
    """

    __slots__ = ("index", "type")

    type: str
    index: int | None

    def __init__(self, name: str | Device, index: int | None = None) -> None:
        if isinstance(name, Device):
            self.type, self.index = name.type, name.index
            return
        kind, _, ordinal = name.partition(":") if isinstance(name, str) else ("", "", "")
        valid = kind in ("cpu", "cuda") and (not ordinal or (ordinal.isdigit() and index is None))
        if not valid:
            raise RuntimeError(f"invalid device {name!r}; expected 'cpu', 'cuda' or 'cuda:N'")
        if kind == "cpu":
            self.type, self.index = "cpu", None
        else:
            self.type, self.index = "cuda", int(ordinal) if ordinal else index

    def __enter__(self) -> Device:
        with _COUNT:
            _Default.contexts += 1
        _ENTERED.devices.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _ENTERED.devices.pop()
        with _COUNT:
            _Default.contexts -= 1

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        return f"device({str(self)!r})"


CPU = Device("cpu")


class _Default:
    device = CPU
    contexts = 0  # in which some thread is; without any nobody asks for the thread's own


class _Entered(threading.local):
    """The devices whose contexts this thread is in, the innermost last."""

    def __init__(self) -> None:
        self.devices: list[Device] = []


_COUNT, _ENTERED = threading.Lock(), _Entered()


def get_default_device() -> Device:
    """Where a factory makes its tensors unless it is told.

    >>> ag.get_default_device()
    device('cpu')
    """
    if _Default.contexts and _ENTERED.devices:
        return _ENTERED.devices[-1]
    return _Default.device


def set_default_device(device: Device | str) -> None:
    """Sets where factories, random functions and modules make tensors unless they are told; for the whole process.

    NumPy arrays and Python data given to `tensor` and `as_tensor` go there, too; CuPy arrays and tensors stay where
    they are.

    >>> ag.set_default_device("cpu")
    """
    _Default.device = Device(device)


def or_default(device: Device | str | None) -> Device:
    """`device`, or the default one for None."""
    if device is None:
        return get_default_device() if _Default.contexts else _Default.device
    return device if type(device) is Device else Device(device)
