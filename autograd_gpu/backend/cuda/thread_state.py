"""CuPy's thread-local state, transferred to a helper thread that works for the thread while it waits.

    the current device             set
    the current stream per device  entered, so that a stream that a hook makes current is restored
    the per-thread default stream  cannot be shared: events order the helper's after the caller's, and back
    the allocator                  of `cupy.cuda.using_allocator`
    memory hooks                   those registered by `with hook:`
    cupyx.errstate                 whether cupy.linalg raises

Not transferred: handles and plans of CuPy's libraries (cuSOLVER, cuFFT), which it makes per thread; the contexts of
`cupyx.optimizing`, which choose launch shapes and change no result; the tracing state of `cupy.fuse`, which does not
trace a backward; and `cupyx.allow_synchronize`, which is deprecated and cannot be read. Per-thread default streams of
devices other than the current one are not ordered: recording an event there would initialize a device that may be
unused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from ..transfer import copy_engine
from . import runtime

_STREAM_PER_THREAD = 2  # cudaStreamPerThread, the handle of every thread's own default stream


class CupyThreadState:
    """What CuPy keeps for the thread that makes this; nothing where CuPy is not in use."""

    def __init__(self) -> None:
        self.module = runtime.loaded() if runtime.is_available() else None
        self._ended: Any = None  # the end of the helper's work on its own stream
        if self.module is None:
            return
        module = self.module.cuda
        self.device, self.allocator = module.Device(), module.get_allocator()
        self.streams = [module.get_current_stream(index) for index in range(module.runtime.getDeviceCount())]
        self.hooks, self.errors = dict(module.memory_hook.get_memory_hooks()), runtime.cupyx().geterr()
        self._own = self.streams[self.device.id] if self.streams[self.device.id].ptr == _STREAM_PER_THREAD else None
        self._began = None if self._own is None else copy_engine.record(self._own)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Called on the helper thread: sets the state inside the block."""
        if self.module is None:
            yield
            return
        module = self.module.cuda
        self.device.use()
        with ExitStack() as stack:
            for index, stream in enumerate(self.streams):
                if stream.ptr != module.get_current_stream(index).ptr:  # otherwise the device may be unused
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
        """Called on the original thread after the helper has ended: orders later work after the helper's."""
        if self._ended is not None:
            with self.device:
                copy_engine.wait(self._own, self._ended)
