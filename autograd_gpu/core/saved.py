"""SavedTensor: what a node keeps of one of its inputs or outputs.

Note [No cycles]
A node may hold an input tensor itself: the input's own history was complete before the node existed. An output it
holds as a detached alias that shares array and storage; the alias gets its grad_fn back when it is unpacked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import errors
from ..config import ANOMALY, MODES
from .tensor import Tensor, alias
from .views import Storage, version_of

if TYPE_CHECKING:
    from .node import Node

_new = object.__new__


class SavedTensor:
    """An input, kept as the tensor itself with its version at the time of the save."""

    __slots__ = ("tensor", "version")

    tensor: Tensor | None
    version: int

    def unpack(self, node: Node) -> Tensor:
        """The tensor as it was saved, linked to the graph it came from.

        RuntimeError: its memory was written to since, or the node's buffers were freed.
        """
        tensor = self.tensor
        if tensor is None:
            raise errors.freed_twice()
        if version_of(tensor) != self.version:
            kind = f"autograd_gpu.{tensor.dtype}"
            found, anomaly = version_of(tensor), bool(MODES.bits & ANOMALY)
            raise errors.modified_in_place(kind, tensor.shape, self._where(), found, self.version, anomaly)
        return tensor

    def _where(self) -> str:
        producer = None if self.tensor is None else self.tensor.grad_fn
        return "a leaf" if producer is None else f"output {self.tensor.output_nr} of {producer.name()}"  # type: ignore[union-attr]


def saved(tensor: Tensor) -> SavedTensor:
    """Keeps `tensor`, an input."""
    result = SavedTensor()
    result.tensor, result.version = tensor, version_of(tensor)
    return result


class SavedOutput(SavedTensor):
    """An output of the node that holds it, kept without its grad_fn (Note [No cycles])."""

    __slots__ = ("kind", "nr")

    nr: int  # as Tensor._nr
    kind: type[Node]  # for messages

    def unpack(self, node: Node) -> Tensor:
        result = alias(super().unpack(node))
        result._node, result._nr = node, self.nr
        return result

    def _where(self) -> str:
        return f"output {max(self.nr - 1, 0)} of {self.kind.__name__}"


class _Freed(SavedTensor):
    __slots__ = ()


FREED = _Freed()  # what a node's slots hold after its buffers were released
FREED.tensor, FREED.version = None, 0


def save_output(tensor: Tensor, node: Node) -> SavedOutput:
    """Keeps `tensor`, an output that `node` has just made: nobody else has it, so that no lock is needed."""
    storage = tensor._storage
    if storage is None:
        storage = tensor._storage = _new(Storage)
        storage.version = 0
    saved = _new(SavedOutput)
    saved.tensor = detached = _new(Tensor)
    detached._array, detached._storage, detached._nr = tensor._array, storage, 0
    detached._node = detached._grad = None
    saved.version = storage.version
    saved.nr, saved.kind = tensor._nr, type(node)
    return saved
