"""compose: a chain of memory hooks."""

from __future__ import annotations

from .base import MemoryHook


class compose(MemoryHook):
    """Packs with the first hook, and its result on the device with the next: quantize, then offload the codes.

    compose(*hooks): each hook packs the tensors that it would pack by itself, also those that an earlier hook skipped.
    The new hook counts `bytes_held` and `bytes_saved`, the given ones do not. Offloaded data is no longer on the device
    and is not passed on. TypeError for an object that is not a hook of this package.

    >>> small = ag.hooks.select(ag.hooks.quantize(ag.float8_e5m2), op="exp")
    >>> x = ag.ones(64, 64, requires_grad=True)
    >>> with ag.hooks.compose(small, ag.hooks.quantize(ag.bfloat16)) as hook:
    ...     y = x.exp()  # saves its result
    ...     z = (x * 1).sin().sum()  # saves its input
    >>> hook.bytes_held  # a byte for each element of y with a scale of 4 bytes, 2 of the other
    12292
    """

    def __init__(self, *hooks: MemoryHook) -> None:
        if not hooks:
            raise TypeError("compose: expected one hook or more, such as ag.hooks.quantize(ag.float16)")
        for hook in hooks:
            if not isinstance(hook, MemoryHook):
                raise TypeError(f"compose: expected hooks of ag.hooks, got {type(hook).__name__}; saved_tensors_hooks "
                                "do not nest")
        super().__init__(tuple([stage for hook in hooks for stage in hook.stages]))
