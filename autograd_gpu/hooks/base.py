"""MemoryHook: saved-tensor hooks that pack what is saved, once per memory and version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..autograd.graph import saved_tensors_hooks
from ..core.graph.hooks import RemovableHandle
from .codec import Stage
from .pack_cache import Table

Self = TypeVar("Self", bound="MemoryHook")


class MemoryHook:
    """What `ag.hooks` offers: a context manager, under which what is saved for backward is packed.

    It can be entered again, within itself, and by several threads; `attach` turns it on for the calls of one module.
    Memory that several nodes save is packed once per version, views of it with it. Backward needs no context.
    """

    def __init__(self, stages: tuple[Stage, ...]) -> None:
        self.stages = stages
        self._table = Table(stages)
        self._hooks = saved_tensors_hooks(self._table.pack, self._table.unpack, with_info=True)

    def __enter__(self: Self) -> Self:
        self._hooks.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._hooks.__exit__(*exc)

    def __deepcopy__(self: Self, memo: dict[int, Any]) -> Self:
        return self  # a copy of a module that it is attached to has the same

    def __reduce__(self) -> tuple[Any, ...]:
        return MemoryHook, (self.stages,)  # of what it holds nothing, as graphs cannot be pickled

    def attach(self, module: Any) -> RemovableHandle:
        """Turns the hook on for the calls of `module`, an `nn.Module`, until the handle's `remove()`.

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
        """Bytes that what graphs hold packed takes now on the devices of the tensors."""
        return sum([packed.encoded.device_bytes for packed in self._table.living()])

    @property
    def bytes_saved(self) -> int:
        """Bytes that graphs would hold now beyond `bytes_held`, had these tensors been saved as they are.

        Less than nothing where views of the same memory were packed apart, and take more so. Memory that another node
        keeps as it is, since no codec was chosen for that, is not known here.
        """
        return self._table.shown_bytes() - self.bytes_held

    @property
    def bytes_on_host(self) -> int:
        """Bytes that what graphs hold packed takes now in host memory, of tensors of other devices."""
        return sum([packed.encoded.host_bytes for packed in self._table.living()])


def attachable(name: str, module: Any) -> Callable[[Any], RemovableHandle]:
    """What registers a context of the calls of `module`; TypeError if that is no module."""
    register = getattr(module, "register_forward_context", None)
    if register is None or isinstance(module, type):
        found = f"the class {module.__name__}: make one" if isinstance(module, type) else type(module).__name__
        raise TypeError(f"{name}: expected an nn.Module, got {found}")
    return register
