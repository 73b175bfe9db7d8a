"""The Device class ("cpu", "cuda", "cuda:1"), and the default device."""

from __future__ import annotations

import functools
import threading


class Device:
    """The device of an array or tensor: `type` is "cpu" or "cuda", `index` the CUDA device's number.

    The CPU has no index; "cuda" without an index means the current device at the time of use. A number is that of a
    CUDA device. RuntimeError for an invalid name. "meta" is a name to compare with: nothing can be made there.

    As a context manager it sets the default device of this thread; `set_default_device` sets that of the process.

    >>> ag.device("cuda:1").index
    1
    >>> with ag.device("cpu"):
    ...     ag.ones(2).device
    device('cpu')
    """

    __slots__ = ("index", "type")

    type: str
    index: int | None

    def __init__(self, name: str | int | Device, index: int | None = None) -> None:
        if isinstance(name, Device):
            self.type, self.index = name.type, name.index
            return
        if isinstance(name, int) and not isinstance(name, bool) and name >= 0 and index is None:
            name = f"cuda:{name}"
        kind, _, ordinal = name.partition(":") if isinstance(name, str) else ("", "", "")
        valid = kind in ("cpu", "cuda", "meta") and (not ordinal or (ordinal.isdigit() and index is None))
        if not valid:
            raise RuntimeError(f"invalid device {name!r}; expected 'cpu', 'cuda' or 'cuda:N'")
        if kind != "cuda":
            self.type, self.index = kind, None
        else:
            self.type, self.index = "cuda", int(ordinal) if ordinal else index

    def __enter__(self) -> Device:
        require_memory(self)
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


def require_memory(device: Device) -> None:
    """Raises NotImplementedError for the device "meta"."""
    if device.type == "meta":
        raise NotImplementedError('the device "meta" is a name only, for comparisons: a tensor has memory on "cpu" or '
                                  '"cuda"; make a module on the CPU, or pass it through copy.deepcopy')


def is_device(value: object) -> bool:
    """Whether an argument that may be a device or a dtype is a device: a Device, its name or its number."""
    if isinstance(value, str):
        return value.partition(":")[0] in ("cpu", "cuda", "meta")
    return isinstance(value, Device) or (isinstance(value, int) and not isinstance(value, bool))


@functools.cache
def cuda(index: int) -> Device:
    """The Device of a CUDA device, one object: parsing a name takes longer than any other step of `Tensor.device`."""
    return Device("cuda", index)


class _Default:
    device = CPU
    contexts = 0  # entered by all threads together; at 0 get_default_device skips the thread-local lookup


class _Entered(threading.local):
    """The devices whose contexts this thread has entered, innermost last."""

    def __init__(self) -> None:
        self.devices: list[Device] = []


_COUNT, _ENTERED = threading.Lock(), _Entered()


def get_default_device() -> Device:
    """The device on which factory functions make tensors by default.

    >>> ag.get_default_device()
    device('cpu')
    """
    if _Default.contexts and _ENTERED.devices:
        return _ENTERED.devices[-1]
    return _Default.device


def set_default_device(device: Device | str) -> None:
    """Sets the default device of factories, random functions and modules for the whole process.

    `tensor` and `as_tensor` copy NumPy arrays and Python data to it, too; CuPy arrays and tensors stay on their
    device.

    >>> ag.set_default_device("cpu")
    """
    named = Device(device)
    require_memory(named)
    _Default.device = named


def or_default(device: Device | str | None) -> Device:
    """`device` as a Device; the default device for None."""
    if device is None:
        return get_default_device() if _Default.contexts else _Default.device
    return device if type(device) is Device else Device(device)
