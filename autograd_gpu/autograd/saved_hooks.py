"""Hooks for all tensors that operations save for backward: saved_tensors_hooks, save_on_cpu and others.

For the hooks of one saved tensor see `grad_fn._raw_saved_NAME.register_hooks`.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from .. import errors
from ..backend.cuda import capture, runtime
from ..backend.transfer import offload
from ..core.graph.storage import bump_version, listen_to_writes, storage_of, version_of
from ..core.interpret.tracing import refuse
from ..core.saved import saved_tensor_hooks
from ..core.saved.saved_tensor import KEPT, copied
from ..core.tensor import Float8Tensor, Tensor, wrap, wrap_codes
from ..modes import ANOMALY, MODES
from .prefetch import Order


class saved_tensors_hooks:
    """Context manager that packs and unpacks tensors saved for backward with these hooks. Thread-local.

    pack_hook(tensor) gets each tensor that an operation saves, detached, and returns any object. unpack_hook(object)
    returns a tensor of the same shape, dtype, device and values each time backward needs it; RuntimeError for another
    shape, dtype or device. Both run without recording. Contexts nest; the innermost one applies. With with_info=True
    the call is pack_hook(tensor, info), where info is an `ag.autograd.graph.SaveInfo`: which operation saves the
    tensor, and whether it is a Parameter. Python numbers are not packed. Versions of packed tensors are not checked: if
    a pack hook keeps its input, later in-place writes change it. pack_hook must not write to its input.

    >>> x = ag.ones(2, requires_grad=True)
    >>> with ag.autograd.graph.saved_tensors_hooks(lambda t: t.half(), lambda packed: packed.float()):
    ...     y = (x * x).sum()
    >>> y.backward()
    >>> x.grad
    tensor([2., 2.])
    """

    def __init__(
        self, pack_hook: Callable[..., Any], unpack_hook: Callable[[Any], Tensor], with_info: bool = False
    ) -> None:
        for hook in (pack_hook, unpack_hook):
            if not callable(hook):
                raise TypeError(f"saved_tensors_hooks: expected two functions, pack_hook and unpack_hook, got {hook!r}")
        self.pack_hook, self.unpack_hook, self.with_info = pack_hook, unpack_hook, with_info

    def __enter__(self) -> None:
        saved_tensor_hooks.push(saved_tensor_hooks.Pair(self.pack_hook, self.unpack_hook, self.with_info))

    def __exit__(self, *exc: object) -> None:
        saved_tensor_hooks.pop()


class _Pageable(NamedTuple):
    """A copy in pageable host memory; float8 is the dtype of a float8 tensor, else None."""

    array: Any
    device: int
    float8: np.dtype | None


class _Pinned(NamedTuple):
    """A copy in page-locked host memory."""

    handle: offload.Offloaded
    node_seq: int
    float8: np.dtype | None


class _OnHost:
    """The hooks of a save_on_cpu; a separate object, so that there is no reference cycle."""

    def __init__(self, pinned: bool, prefetch: int) -> None:
        self.pinned, self.order = pinned, Order(prefetch)

    def pack(self, tensor: Tensor, info: saved_tensor_hooks.SaveInfo) -> Any:
        stays = self.pinned and (info.is_parameter or tensor.nbytes < offload.MIN_BYTES)
        if stays or not tensor.is_cuda or not tensor.nbytes:
            return KEPT
        float8 = tensor.dtype if isinstance(tensor, Float8Tensor) else None
        if not self.pinned and not capture.is_captured(runtime.current.stream()):
            return _Pageable(runtime.to_host(tensor.array), runtime.device_index(tensor.device), float8)
        packed = offload.pack(tensor.array, ahead=self.order.ahead)
        if packed.source is not None:
            listen_to_writes(info.storage, packed.source)
        self.order.add(info.node_seq, packed)
        return _Pinned(packed, info.node_seq, float8)

    def unpack(self, packed: _Pageable | _Pinned) -> Tensor:
        if isinstance(packed, _Pageable):
            array = runtime.from_host(packed.array, packed.device)
        else:
            self.order.advance(packed.node_seq)
            array = packed.handle.unpack()
        return wrap(array) if packed.float8 is None else wrap_codes(array, packed.float8)


class save_on_cpu(saved_tensors_hooks):
    """Keeps saved tensors in host memory, and copies each back to its device when backward needs it.

    pin_memory: use page-locked memory, and overlap copies with computation. 256 MiB are page-locked at the first use,
    and up to 2 GiB if these are full; tensors that do not fit go to pageable memory, and backward warns. prefetch: the
    number of nodes by which copies to the device start early, and the number of copies to the host in flight before the
    forward waits; ValueError if not 0 without pin_memory. Tensors on the CPU are not copied, and their version is
    checked; nor are, with pin_memory, Parameters and tensors smaller than 64 KiB. In a CUDA graph the memory is
    page-locked, also without pin_memory, since a captured copy needs that. `ag.hooks.offload` has options for
    these sizes, and copies memory that several nodes save once.

    >>> x = ag.ones(2, requires_grad=True)
    >>> with ag.autograd.graph.save_on_cpu():
    ...     y = (x * x).sum()
    >>> y.backward()
    >>> x.grad
    tensor([2., 2.])
    """

    def __init__(self, pin_memory: bool = False, prefetch: int = 0) -> None:
        errors.check_count("save_on_cpu", "prefetch", prefetch)
        if prefetch and not pin_memory:
            raise ValueError(f"save_on_cpu: prefetch={prefetch} needs pin_memory=True")
        hooks = _OnHost(pin_memory, prefetch)
        super().__init__(hooks.pack, hooks.unpack, with_info=True)


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Makes `saved_tensors_hooks` raise RuntimeError(error_message) inside the context, in this thread.

    Raises it at entry if hooks are active. Also a decorator. Does not affect `register_hooks`.

    >>> with ag.autograd.graph.disable_saved_tensors_hooks("not here"):
    ...     pass
    """
    if MODES.saving:
        raise RuntimeError(error_message)
    before, MODES.saving_refused = MODES.saving_refused, error_message
    try:
        yield
    finally:
        MODES.saving_refused = before


class _Handle:
    """The packed object of allow_mutation_on_saved_tensors: the tensor, or a copy made before a write to it."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor: Tensor | None = tensor
        self.version = version_of(tensor)
        listen_to_writes(storage_of(tensor), self)

    def keep(self, copies: dict[int, Tensor]) -> None:
        tensor = self.tensor
        if tensor is not None and version_of(tensor) == self.version:  # else backward raises
            self.tensor, self.version = copied(tensor, copies), 0


class MutationContext:
    """The context of allow_mutation_on_saved_tensors, which references the tensors saved inside."""

    def __init__(self) -> None:
        self._handles: weakref.WeakSet[_Handle] = weakref.WeakSet()

    def _pack(self, tensor: Tensor) -> _Handle:
        handle = _Handle(tensor)
        self._handles.add(handle)
        return handle

    def _unpack(self, handle: _Handle) -> Tensor:
        if handle.tensor is None:
            raise AssertionError("Trying to backward outside of the 'allow_mutation_on_saved_tensors' context in which "
                                 "the graph was originally recorded, or after its clear().")
        check_unmodified(handle.tensor, handle.version)
        return handle.tensor

    def clear(self) -> None:
        """Releases all tensors saved so far and their copies; backward through the recorded graph then raises."""
        for handle in list(self._handles):
            handle.tensor = None
        self._handles.clear()


@contextlib.contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[MutationContext]:
    """Context in which saved tensors may be modified in place: each is copied before the write, once.

    Backward must run inside, too, else AssertionError. Contexts do not nest. `clear()` of the context object releases
    the copies early. Does not detect writes to `tensor.array`. Also a decorator.

    >>> x = ag.ones(2, requires_grad=True)
    >>> with ag.autograd.graph.allow_mutation_on_saved_tensors():
    ...     y = x * 2
    ...     z = y.sin()
    ...     _ = y.zero_()
    ...     z.sum().backward()
    >>> x.grad
    tensor([-0.8323, -0.8323])
    """
    if any(isinstance(getattr(pair.pack, "__self__", None), MutationContext) for pair in MODES.saving):
        raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
    context = MutationContext()
    try:
        with saved_tensors_hooks(context._pack, context._unpack):
            yield context
    finally:
        context.clear()


def check_unmodified(tensor: Tensor, version: int) -> None:
    """RuntimeError if `tensor` was modified in place since it was packed at `version`."""
    if version_of(tensor) != version:
        kind = f"autograd_gpu.{tensor.dtype}"
        anomaly = bool(MODES.bits & ANOMALY)
        raise errors.modified_in_place(kind, tensor.shape, "", version_of(tensor), version, anomaly)


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Increments the version counter of one or more tensors, so that backward detects the modification.

    For writes that bypass the in-place methods: to `tensor.array`, or by a kernel. Skips inference tensors, which have
    no version. RuntimeError for other objects.

    >>> x = ag.ones(2)
    >>> x.array[0] = 5
    >>> ag.autograd.graph.increment_version(x)
    >>> x._version
    1
    """
    if not isinstance(tensor, (Tensor, Iterable)):
        raise RuntimeError("increment_version expect a Iterable[Tensor] as input")
    tensors = [tensor] if isinstance(tensor, Tensor) else list(tensor)
    if not all(isinstance(t, Tensor) for t in tensors):
        raise RuntimeError("increment_version expects each element of the iterable to be a tensor")
    refuse("a version is incremented by hand", "write with in-place operations")
    for t in tensors:
        bump_version(t)
