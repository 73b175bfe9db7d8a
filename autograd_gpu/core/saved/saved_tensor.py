"""SavedTensor: keeps one input or output of a node for backward. Users access it through SavedTensorHandle.

Note [No cycles]
A node may hold an input tensor itself: the input's history was complete before the node existed. For a view it holds
a plain tensor, since the view holds its base, and the result of the node may be written into that base. For an output
it holds a detached alias that shares array and storage; unpacking returns an alias with the grad_fn.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from ... import errors
from ...backend.counters import TRACING
from ...modes import ANOMALY, GRAD_OFF, MODES
from ..declare.op import RECORD
from ..graph.node import Node
from ..graph.storage import FollowingStorage, Storage, version_of
from ..graph.tensor_base import Duals
from ..history.rebase import refresh_if_stale
from ..tensor import Float8Tensor, Tensor, alias, wrap, wrap_codes
from ..thread_state import ModesBefore, user_code

_new = object.__new__


KEPT = object()  # what a pack hook of this package returns for a tensor that it does not pack


class Packed(NamedTuple):
    """The result of a pack hook, and the properties of the tensor that the unpack hook has to return."""

    packed: Any
    unpack: Callable[[Any], Any]
    shape: tuple[int, ...]
    dtype: Any
    device: Any
    fn: Node | None  # for an input; an output gets the node that unpacks it
    nr: int
    original: weakref.ref[Tensor] | None  # the user's tensor object, for a constant input


class SavedTensor:
    """A saved input: the tensor itself and its version at the time of the save.

    If hooks packed the tensor, `tensor` is None, and `packed` holds the result.
    """

    __slots__ = ("packed", "tangents", "tensor", "version")

    tensor: Tensor | None
    version: int
    packed: Packed
    tangents: dict[Any, Any]  # of a packed tensor, if it is dual: they stay with this object

    def unpack(self, node: Node | None) -> Tensor:
        """Returns the saved tensor, linked to its graph.

        RuntimeError if its memory was written to since, `detach_()` detached it, or the buffers were freed.
        """
        tensor = self.tensor
        if tensor is None:
            return self._from_hook(node)
        if version_of(tensor) != self.version:
            if isinstance(tensor._storage, FollowingStorage) and tensor._storage.ahead and tensor.is_leaf:
                raise errors.detached_since()
            kind = f"autograd_gpu.{tensor.dtype}"
            version, anomaly = version_of(tensor), bool(MODES.bits & ANOMALY)
            raise errors.modified_in_place(kind, tensor.shape, self._where(), version, self.version, anomaly)
        return tensor

    def of_leaf(self) -> bool:
        """Whether the saved tensor is a leaf; a constant counts as one."""
        return self.tensor is not None and self.tensor.is_leaf

    def _where(self) -> str:
        producer = None if self.tensor is None else self.tensor.grad_fn
        return "" if producer is None else f"output {self.tensor.output_nr} of {producer.name()}"  # type: ignore[union-attr]

    def hand_to(self, pack: Callable[..., Any], unpack: Callable[[Any], Any], *info: Any) -> None:
        """Keeps pack(tensor, *info) instead of the tensor, unless that is KEPT."""
        tensor = self.tensor
        assert tensor is not None
        aliased = alias(tensor)
        before, bits = version_of(aliased), MODES.bits
        MODES.bits = bits | GRAD_OFF
        try:
            tracer = TRACING.tracer
            packed = pack(aliased, *info) if tracer is None else tracer.packing(pack, aliased, info)
        finally:
            MODES.bits = bits
        if version_of(aliased) != before:
            raise RuntimeError("A saved tensor pack hook is modifying its input in place. Tensors provided as input to "
                               "pack hook cannot be modified by in-place operations as this can lead to unexpected "
                               "side-effects. Clone the input in the hook before writing to it.")
        if packed is KEPT:
            return
        described = tensor.shape, tensor.dtype, tensor.device, tensor._fn, tensor._nr
        self.packed = Packed(packed, unpack, *described, self._original())
        if Duals.made and hasattr(tensor, "_tangents"):
            self.tangents = tensor._tangents
        self.tensor = None

    def _original(self) -> weakref.ref[Tensor] | None:
        """A reference to the user's object, for a constant: it is unpacked again if a hook returns the same array."""
        return weakref.ref(self.tensor) if self.tensor is not None and self.tensor._fn is None else None

    def _from_hook(self, node: Node | None) -> Tensor:
        """Returns the result of the unpack hook, linked to the graph."""
        if not hasattr(self, "packed"):
            raise errors.freed_twice()
        packed, unpack, *expected, fn, nr, original = self.packed
        before = ModesBefore()
        try:
            with user_code(False):
                tracer = TRACING.tracer
                tensor = unpack(packed) if tracer is None else tracer.unpacking(unpack, packed)
        except BaseException:
            before.put_back()
            raise
        if not isinstance(tensor, Tensor):
            raise TypeError("Output of saved tensor unpack_hook expected to be a Tensor but got result of type "
                            f"{type(tensor).__name__}")
        if [tensor.shape, tensor.dtype, tensor.device] != expected:
            shape, dtype, device = expected
            raise RuntimeError(f"Output of saved tensor unpack_hook is {list(tensor.shape)} {tensor.dtype} on "
                               f"{tensor.device}, but {list(shape)} {dtype} on {device} was packed; return a tensor of "
                               "that content")
        source = None if original is None else original()
        if source is not None and source._fn is None and source._array is tensor._array:
            return source
        result = alias(tensor)
        result._fn, result._nr = fn, nr
        if hasattr(self, "tangents"):
            result._tangents = self.tangents
        return result


class SavingNode(Node):
    """A node that keeps tensors for backward."""

    __slots__ = ()

    def saved_by_name(self) -> list[tuple[str, SavedTensor]]:
        raise NotImplementedError(self.name())

    def saved_outputs(self) -> list[SavedOutput]:
        """The outputs of this node that it saves."""
        return [kept for _, kept in self.saved_by_name() if isinstance(kept, SavedOutput)]

    def keep_extras(self) -> None:
        """Turns the extra arrays that forward left for backward into saved tensors."""


def save_value(tensor: Tensor) -> SavedTensor:
    """Keeps `tensor`, an input."""
    refresh_if_stale(tensor)
    result = SavedTensor()
    result.tensor, result.version = tensor if tensor._base is None else plain(tensor), version_of(tensor)
    return result


def saved_for_user(tensor: Tensor) -> SavedTensor:
    """Keeps `tensor`, an input, for user code. A view is unpacked as the same object if it is still alive."""
    if tensor._base is None:
        return save_value(tensor)
    refresh_if_stale(tensor)
    result = SavedView()
    result.tensor, result.version, result.view = plain(tensor), version_of(tensor), weakref.ref(tensor)
    return result


def constant(array: Any) -> Tensor:
    """Makes a tensor that may be saved, even in inference mode."""
    result = wrap(array)
    result._storage = None
    return result


def copied(tensor: Tensor, copies: dict[int, Tensor]) -> Tensor:
    """Makes a constant copy; `copies` shares it among all that saved the same array."""
    key, array = id(tensor._array), tensor._array
    if key not in copies:
        codes = type(tensor) is Float8Tensor
        copies[key] = wrap_codes(array.copy(), tensor.dtype) if codes else constant(array.copy())
    return copies[key]


def plain(view: Tensor) -> Tensor:
    """Converts a view to a tensor that does not hold its base (Note [No cycles])."""
    result = _new(Tensor)
    result._array, result._storage, result._fn, result._nr = view._array, view._storage, view._fn, view._nr
    result._grad = result._base = None
    if Duals.made and hasattr(view, "_tangents"):
        result._tangents = view._tangents
    return result


class SavedView(SavedTensor):
    """A saved input that is a view, for user code. It holds the view itself weakly (Note [No cycles])."""

    __slots__ = ("view",)

    view: weakref.ref[Tensor]

    def unpack(self, node: Node | None) -> Tensor:
        tensor, view = super().unpack(node), self.view()
        return view if view is not None and view._fn is tensor._fn and view._array is tensor._array else tensor

    def _original(self) -> weakref.ref[Tensor] | None:
        return None if super()._original() is None else self.view


class SavedOutput(SavedTensor):
    """A saved output of the node that holds it, without its grad_fn (Note [No cycles])."""

    __slots__ = ("__weakref__", "kind", "nr")

    nr: int  # as Tensor._nr
    kind: type[Node]  # for messages

    def unpack(self, node: Node | None) -> Tensor:
        kept = super().unpack(node)
        result = alias(kept)
        result._fn, result._nr = node, self.nr
        if Duals.made and hasattr(kept, "_tangents"):
            result._tangents = kept._tangents
        return result

    def of_leaf(self) -> bool:
        return False

    def _original(self) -> None:
        return None

    def move_to(self, tensor: Tensor) -> None:
        """Points to the memory of `tensor`, into which the output was written."""
        self.tensor, self.version = alias(tensor), version_of(tensor)
        if Duals.made and hasattr(tensor, "_tangents"):
            self.tensor._tangents = tensor._tangents

    def keep(self, copies: dict[int, Tensor] | None = None) -> None:
        """Takes a copy, once, because the memory is about to be written to; reuses a copy in `copies`."""
        tensor = self.tensor
        if tensor is not None and tensor._storage is not None and version_of(tensor) == self.version:
            self.tensor, self.version = copied(tensor, {} if copies is None else copies), 0
            if Duals.made and hasattr(tensor, "_tangents"):
                self.tensor._tangents = {level: RECORD.clone(t) for level, t in tensor._tangents.items()}

    def _where(self) -> str:
        return f"output {max(self.nr - 1, 0)} of {self.kind.__name__}"


class SavedIntoView(SavedOutput):
    """A saved output that was written into a view: unpacking links it to the node of that view."""

    __slots__ = ("at", "view")

    def __init__(self, output: SavedOutput, view: Tensor) -> None:
        self.nr, self.kind = output.nr, output.kind
        self.view, self.at = weakref.ref(view), version_of(view)
        self.move_to(view)

    def unpack(self, node: Node | None) -> Tensor:
        result, view = super().unpack(node), self.view()
        if view is not None and version_of(view) == self.at:  # otherwise the view has changed, and this holds a copy
            result._fn, result._nr = view._node, view._nr
        return result


FREED = SavedTensor()  # in a node's slots after its buffers were released
NOTHING = SavedTensor()  # in the slot of an input that was None, or that no needed rule reads
FREED.tensor = NOTHING.tensor = None
FREED.version = NOTHING.version = 0


class SavedTensorHandle:
    """The value of `grad_fn._raw_saved_NAME`: sets hooks of one saved tensor. It keeps the node, not the tensor."""

    __slots__ = ("_index", "_node", "_slot")

    def __init__(self, node: Node, slot: str, index: int | None = None) -> None:
        self._node, self._slot, self._index = node, slot, index  # index: in the slot's list

    def register_hooks(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        """Keeps pack_hook(tensor) instead of the tensor; unpack_hook converts it back to the tensor for backward.

        RuntimeError if hooks were set before, the buffers were freed, nothing is saved, or pack_hook wrote to its
        input. If pack_hook raises, the saved tensor is unchanged.

        >>> x = ag.ones(2, requires_grad=True)
        >>> y = x.exp()
        >>> y.grad_fn._raw_saved_out.register_hooks(lambda t: t.numpy(), lambda packed: ag.as_tensor(packed))
        >>> y.sum().backward()
        """
        for hook in (pack_hook, unpack_hook):
            if not callable(hook):
                raise TypeError(f"register_hooks(): expected two functions, pack_hook and unpack_hook, got {hook!r}")
        kept = getattr(self._node, self._slot)
        if self._index is not None and kept is not FREED:
            kept = kept[self._index]
        if kept is None or kept is NOTHING:
            raise RuntimeError("Calling register_hooks on a saved tensor with value None is forbidden")
        if kept is FREED:
            raise RuntimeError("Calling register_hooks on a saved tensor after it has been freed. "
                               f"{errors.FREED_HINT}")
        if kept.tensor is None:
            raise RuntimeError("Calling register_hooks on a saved tensor whose hooks have already been set. Hint: "
                               "only one pair of hooks is allowed at a time.")
        kept.hand_to(pack_hook, unpack_hook)


def handles(node: Node, slot: str) -> SavedTensorHandle | tuple[SavedTensorHandle, ...]:
    """The handle of the saved tensor in `slot` of `node`, or a tuple of them for a list."""
    kept = getattr(node, slot)
    if isinstance(kept, (list, tuple)):
        return tuple([SavedTensorHandle(node, slot, i) for i in range(len(kept))])
    return SavedTensorHandle(node, slot)


def save_output(tensor: Tensor, node: Node) -> SavedOutput:
    """Keeps `tensor`, a new output of `node`: no other thread can access it yet, so no lock is needed."""
    storage = tensor._storage
    if storage is None:
        storage = tensor._storage = _new(Storage)
        storage.version = 0
        storage.write_listeners = None
    saved = SavedOutput()
    saved.tensor = detached = _new(Tensor)
    detached._array, detached._storage, detached._nr = tensor._array, storage, 0
    detached._fn = detached._grad = detached._base = None
    saved.version = storage.version
    saved.nr, saved.kind = tensor._nr, type(node)
    return saved
