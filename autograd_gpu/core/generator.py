"""GeneratorLike: the interface of a random number generator for the layers below `random`."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from ..backend.arrays.device import Device

StreamPosition = tuple[int, Any]  # seed and state
Self = TypeVar("Self", bound="GeneratorLike")


class GeneratorLike(Protocol):
    """A stream of random numbers on one device, such as `ag.Generator`."""

    device: Device

    def draw(self, distribution: str, *args: Any, **kwargs: Any) -> Any:
        """Calls the method `distribution` of numpy.random.Generator and returns its result."""

    def place(self) -> StreamPosition:
        """The position of the stream for this thread: inside a replay that of the substitute generator."""

    def _place(self) -> StreamPosition:
        """The position of the stream itself."""

    def return_to(self, place: StreamPosition) -> None:
        """Sets the position of the stream."""

    def at(self: Self, place: StreamPosition) -> Self:
        """Makes another generator on the same device, at position `place`."""
