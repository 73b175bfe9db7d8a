"""MemoryHook: saved-tensor hooks that pack each saved memory once per version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..autograd.graph import saved_tensors_hooks
from ..core.graph.hooks import RemovableHandle
from .codec import Stage
from .pack_cache import PackCache

Self = TypeVar("Self", bound="MemoryHook")


class MemoryHook:
    """Base of the hooks in `ag.hooks`: a context manager that packs tensors saved for backward inside the block.

    It is reentrant, and several threads may enter it; `attach` enables it for the calls of one module. Memory that
    several nodes save, or views of it, is packed once per version. Backward may run outside the block.
    """

    def __init__(self, stages: tuple[Stage, ...]) -> None:
        self.stages = stages
        self._cache = PackCache(stages)
        self._hooks = saved_tensors_hooks(self._cache.pack, self._cache.unpack, with_info=True)

    def __enter__(self: Self) -> Self:
        self._hooks.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._hooks.__exit__(*exc)

    def __deepcopy__(self: Self, memo: dict[int, Any]) -> Self:
        return self  # a copy of a module shares the hook attached to it

    def __reduce__(self) -> tuple[Any, ...]:
        return MemoryHook, (self.stages,)  # without packed tensors, since graphs cannot be pickled

    def attach(self, module: Any) -> RemovableHandle:
        """Enables the hook during the calls of `module`, an `nn.Module`, until the handle's `remove()`.

        TypeError if `module` is not a module.

        >>> model = ag.nn.Sequential(ag.nn.Linear(64, 64), ag.nn.Tanh(), ag.nn.Linear(64, 1))
        >>> hook = ag.hooks.quantize(ag.bfloat16)
        >>> handle = hook.attach(model)
        >>> y = model(ag.ones(32, 64))
        >>> hook.bytes_held, hook.bytes_saved
        (4096, 4096)
        >>> handle.remove()
        """
        return attachable("attach", module)(self)

    @property
    def bytes_held(self) -> int:
        """Bytes of packed data that graphs hold now on the devices of the tensors."""
        return sum([packed.encoded.device_bytes for packed in self._cache.living()])

    @property
    def bytes_saved(self) -> int:
        """Bytes that graphs would hold now in addition to `bytes_held` if these tensors were saved unpacked.

        Negative if views of the same memory were packed separately and take more. Does not count memory that another
        node saves unpacked because no codec was chosen for it.
        """
        return self._cache.shown_bytes() - self.bytes_held

    @property
    def bytes_on_host(self) -> int:
        """Bytes of packed data that graphs hold now in host memory, of tensors on other devices."""
        return sum([packed.encoded.host_bytes for packed in self._cache.living()])


def attachable(name: str, module: Any) -> Callable[[Any], RemovableHandle]:
    """The `register_forward_context` method of `module`; TypeError if it is not a module."""
    register = getattr(module, "register_forward_context", None)
    if register is None or isinstance(module, type):
        kind = f"the class {module.__name__}: make one" if isinstance(module, type) else type(module).__name__
        raise TypeError(f"{name}: expected an nn.Module, got {kind}")
    return register
