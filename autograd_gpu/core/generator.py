"""GeneratorLike: what the layers below `random` know of a generator of random numbers."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from ..backend.arrays.device import Device

StreamPosition = tuple[int, Any]  # seed and state
Self = TypeVar("Self", bound="GeneratorLike")


class GeneratorLike(Protocol):
    """A stream of random numbers on one device, such as `ag.Generator`."""

    device: Device

    def draw(self, distribution: str, *args: Any, **kwargs: Any) -> Any:
        """What the method `distribution` of numpy.random.Generator returns."""

    def place(self) -> StreamPosition:
        """Where the stream is, as this thread sees it: inside a replay the position of the stand-in."""

    def _place(self) -> StreamPosition:
        """Where the stream itself is."""

    def return_to(self, place: StreamPosition) -> None:
        """Goes on from a `place`."""

    def at(self: Self, place: StreamPosition) -> Self:
        """Another generator on the same device, at `place`."""
