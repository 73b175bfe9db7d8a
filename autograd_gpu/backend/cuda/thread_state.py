"""What CuPy keeps for a thread, taken along to another thread that does its work while it waits.

    the current device             made current
    the current stream of each     entered: what a hook makes current goes back to it
    the thread's own stream        cannot be shared: events order the helper's behind the caller's, and back
    the allocator                  of `cupy.cuda.using_allocator`
    memory hooks                   those that are registered by `with hook:`
    cupyx.errstate                 whether cupy.linalg raises

Left behind: handles and plans of CuPy's own libraries (cuSOLVER, cuFFT), which it makes for each thread; the contexts
of `cupyx.optimizing`, which choose the shape of launches and change no result; what `cupy.fuse` traces, which is no
backward; and `cupyx.allow_synchronize`, which is deprecated and cannot be asked. On other devices than the current one
the threads' own streams are not ordered: to record an event there would start a device that nobody may use.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from ..transfer import copy_engine
from . import runtime

_PER_THREAD = 2  # the number of every thread's own default stream


class CupyThreadState:
    """What CuPy keeps for the thread that makes this; nothing where CuPy is not in use."""

    def __init__(self) -> None:
        self.module = runtime.loaded() if runtime.is_available() else None
        self._ended: Any = None  # where the helper's own stream ended
        if self.module is None:
            return
        module = self.module.cuda
        self.device, self.allocator = module.Device(), module.get_allocator()
        self.streams = [module.get_current_stream(index) for index in range(module.runtime.getDeviceCount())]
        self.hooks, self.errors = dict(module.memory_hook.get_memory_hooks()), runtime.cupyx().geterr()
        self._own = self.streams[self.device.id] if self.streams[self.device.id].ptr == _PER_THREAD else None
        self._began = None if self._own is None else copy_engine.record(self._own)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """On the helper: the state of the other thread, to the end of the block."""
        if self.module is None:
            yield
            return
        module = self.module.cuda
        self.device.use()
        with ExitStack() as stack:
            for index, stream in enumerate(self.streams):
                if stream.ptr != module.get_current_stream(index).ptr:  # else the device may be one that nobody uses
                    with module.Device(index):
                        stack.enter_context(stream)
            if self.allocator != module.get_allocator():
                stack.enter_context(module.using_allocator(self.allocator))
            module.memory_hook.get_memory_hooks().update(self.hooks)
            runtime.cupyx().seterr(**self.errors)
            if self._own is not None:
                copy_engine.wait(self._own, self._began)
                stack.callback(self._end)
            yield

    def _end(self) -> None:
        with self.device:
            self._ended = copy_engine.record(self._own)

    def rejoin(self) -> None:
        """Back on the thread itself, when the helper has ended: what comes is behind what that has queued."""
        if self._ended is not None:
            with self.device:
                copy_engine.wait(self._own, self._ended)
