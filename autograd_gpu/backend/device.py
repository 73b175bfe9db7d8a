"""Devices by name: "cpu", "cuda", "cuda:1"."""

from __future__ import annotations


class Device:
    """A place for arrays: `type` is "cpu" or "cuda", `index` the CUDA ordinal (None for the CPU).

    >>> ag.device("cuda:1").index
    1
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
            self.type, self.index = "cuda", int(ordinal or index or 0)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __str__(self) -> str:
        return "cpu" if self.index is None else f"cuda:{self.index}"

    def __repr__(self) -> str:
        return f"device({str(self)!r})"


CPU = Device("cpu")
