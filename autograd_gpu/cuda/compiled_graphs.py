"""mode="reduce-overhead" of `ag.compile`: programs on CUDA arrays become CUDA graphs on memory of their own.

Forward and backward of a program share a pool, which no other program uses: what a forward saves for its backward, and
the `.grad`s that it sets, stay where they are until the next replay of the same program. If the backward of the call
before is still to come then, what it needs is copied first.
"""

from __future__ import annotations

import itertools
import logging
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..backend.arrays.strides import address, extent, is_expanded, strided
from ..backend.cuda import capture, runtime
from ..compilation.graph import CAPTURED, CONSTANT, GRAD, Routine, SetGrad, Trace, Value, root_of
from ..compilation.program import Program
from ..compilation.replay import Replay
from ..core.graph.storage import before_write, storage_of
from ..core.tensor import Tensor, wrap
from ..errors import warn_user
from .capture_errors import CaptureError
from .graphed_step import copied
from .graphs import CUDAGraph, graph

LOGGER = logging.getLogger("autograd_gpu.compilation")
MOST = 4  # graphs of a program: one for each set of `.grad`s that it adds to
HOST = "no graph: on the CPU"


class Copies:
    """Copies of arrays in the memory of a graph: with the same layouts, and shared where they share memory."""

    def __init__(self, arrays: Sequence[Any]) -> None:
        self._xp, self._arrays = runtime.cupy(), arrays
        self._regions: dict[int, tuple[int, int]] = {}
        for array in arrays:
            (begin, end), key = extent(array), root_of(array)
            known = self._regions.setdefault(key, (begin, end))
            self._regions[key] = min(known[0], begin), max(known[1], end)

    def __call__(self, stream: Any) -> list[Any]:
        xp, made = self._xp, dict[int, Any]()
        for array in self._arrays:
            key = root_of(array)
            begin, end = self._regions[key]
            if key not in made:
                made[key] = xp.empty((end - begin,), "uint8")
                made[key].data.copy_from_device_async(array.data + (begin - address(array)), end - begin, stream)
        return [xp.ndarray(array.shape, array.dtype, made[key].data + (address(array) - self._regions[key][0]),
                           array.strides) for array in self._arrays for key in (root_of(array),)]


class ProgramGraph:
    """A captured program. `given`: what it gets, tensors and arrays in the graph's memory; `arrays`: its results."""

    def __init__(self, program: Program, given: Sequence[Any], known: Sequence[Tensor], pool: Any, stream: Any) -> None:
        self._pool, self._graph = pool, CUDAGraph()
        before = [(x, x._version) for x in {id(storage_of(x)): x for x in known}.values()]
        try:
            with graph(self._graph, pool, stream):
                self.arrays = program(*given)
            self._graph._journal.restore()  # nothing has run yet
        finally:
            counted = [(x, version, x._version - version) for x, version in before]
            for x, version, count in counted:
                if count:
                    storage_of(x).version = version
        self._writes = [(x, count) for x, _, count in counted if count]

    def launch(self, actual: dict[int, Tensor], stream: Any) -> None:
        """Replays it. `actual`: by id of a tensor in the graph's memory, the one that it stands for."""
        written = [(actual.get(id(x), x), count) for x, count in self._writes]
        before_write([x for x, _ in written])
        versions = [x._version + count for x, count in written]
        self._graph._launch(self._graph._recording_of("replay"), stream)
        for (x, _), version in zip(written, versions, strict=True):  # a captured step of an optimizer counts, too
            storage_of(x).version = version


class Held:
    """What the backward of one call reads; `owner` as long as that lies in the memory of the forward's graph."""

    __slots__ = ("__weakref__", "given", "owner", "saved", "thread")

    def __init__(self, given: Sequence[Any], saved: list[Any], owner: StaticProgram | None) -> None:
        self.given, self.saved, self.owner, self.thread = given, saved, owner, threading.get_ident()

    def leave(self) -> None:
        """Copies what lies in the graph's memory."""
        self.saved, self.owner = list(Copies(self.saved)(runtime.current.stream())), None


class StaticProgram:
    """The graphs of a program on one set of memory: of its forward, and of its backward by program."""

    def __init__(self, replay: GraphedReplay, given: Sequence[Tensor]) -> None:
        xp, trace = runtime.cupy(), replay.trace
        self._empty = xp.empty
        self.pool, self.stream = capture.GraphPool(), xp.cuda.Stream(non_blocking=True)
        self.inputs = [wrap(_static(xp, x._array)) for x in given]
        self._grads = [(v.tensor, v.tensor._grad) for v in replay.outside_of(GRAD)]
        known = [v.tensor for v in replay.outside_of(CAPTURED)] + [grad for _, grad in self._grads]
        program = replay.program
        self.forward = ProgramGraph(program, self.inputs, [*known, *self.inputs], self.pool, self.stream)
        written = {v.root for n in program.nodes for v in n.writes}
        self._written = [i for i, v in enumerate(trace.arguments) if v.root in written]
        places = {v.place: i for i, v in enumerate(trace.arguments)}
        self._set = {places[n.place] for n in program.nodes if isinstance(n, SetGrad) and n.place >= 0}
        self._backwards: dict[Program, ProgramGraph | None] = {}
        self._tangents = [xp.empty(v.shape, v.dtype) for _, v in trace.tangents]
        self.saved = self.forward.arrays[replay.count :]
        shown = self.forward.arrays[: replay.count]
        grads = [grad._array for _, grad in self.forward._graph._grads if grad is not None]
        stay = {v.root for v in replay.outside_of(CAPTURED, CONSTANT, GRAD)} | {root_of(grad) for grad in grads}
        self._shown = [None if root_of(array) not in stay else array for array in shown]
        self._results = Copies([array for array in shown if root_of(array) not in stay])

    def fits(self) -> bool:
        """Whether the `.grad`s that it reads are those of the capture."""
        return all(leaf._grad is grad for leaf, grad in self._grads)

    def __call__(self, given: Sequence[Tensor]) -> list[Any]:
        """The arrays of a replay: copies of the results, and what is saved in the graph's memory."""
        stream = runtime.current.stream()
        self.pool.order(stream)
        for x, static in zip(given, self.inputs, strict=True):
            copied(x._array, static._array, stream)
        self.forward.launch({id(s): x for x, s in zip(given, self.inputs, strict=True)}, stream)
        for i in self._written:
            copied(self.inputs[i]._array, given[i]._array, stream)
        for i in self._set:
            grad = self.inputs[i]._grad
            given[i]._grad = None if grad is None else wrap(self._copy(grad._array, stream))
        results = iter(self._results(stream))
        return [*(next(results) if array is None else array for array in self._shown), *self.saved]

    def _copy(self, array: Any, stream: Any) -> Any:
        return copied(array, self._empty(array.shape, array.dtype), stream)

    def backward(self, program: Program, gs: Sequence[Any]) -> list[Any]:
        """Copies of the gradients, by the program at the first time, then by a replay."""
        stream = runtime.current.stream()
        self.pool.order(stream)
        for static, g in zip(self._tangents, gs, strict=True):
            copied(g, static, stream)
        given = [*self.inputs, list(self.saved), *self._tangents]
        if program not in self._backwards:
            self._backwards[program] = None  # warm
            arrays = program(*given)
        else:
            captured = self._backwards[program]
            if captured is None:
                captured = self._backwards[program] = ProgramGraph(program, given, (), self.pool, self.stream)
            captured.launch({}, stream)
            arrays = captured.arrays
        return [self._copy(array, stream) for array in arrays]


class GraphedReplay(Replay):
    """A replay whose programs run as CUDA graphs: one call to warm up, one that is captured, then replays."""

    def __init__(self, fn: Callable[..., Any], name: str, structure: Any, trace: Trace) -> None:
        super().__init__(fn, name, structure, trace)
        self._unfit = self._reason()
        self.graph = "no graph yet" if self._unfit is None else f"no graph: {self._unfit}"
        if self._is_on_host():
            self.graph = HOST
        elif self._unfit is not None:
            self._warn()
        self._warm, self._made = False, list[StaticProgram]()
        self._pending: Callable[[], Held | None] = lambda: None
        self._last: StaticProgram | None = None  # whose memory the call that runs has used

    @property
    def count(self) -> int:
        """The number of arrays of the program that become results; those behind are saved."""
        return self._count

    def outside_of(self, *kinds: str) -> list[Value]:
        """The values from outside of these kinds."""
        return [v for v in self._outside if v.kind in kinds]

    def _is_on_host(self) -> bool:
        return all(isinstance(v.array, np.ndarray) for v in self.trace.values)

    def _reason(self) -> str | None:
        """Why no graph can be made, or None."""
        trace, program = self.trace, self.program
        touched = [v for n in program.nodes if not isinstance(n, Routine) for v in (*n.reads, *n.made())]
        if any(isinstance(v.array, np.ndarray) for v in touched if v.kind != CONSTANT) or self._is_on_host():
            return "it works with tensors in host memory; move them to the device first"
        arrays = [v.array for v in trace.arguments]
        if any(is_expanded(a) or min(a.strides, default=0) < 0 for a in arrays):
            return "an argument is expanded or flipped; pass its clone()"
        ends = sorted(extent(a) for a in arrays)
        if any(end > begin for (_, end), (begin, _) in itertools.pairwise(ends)):
            return "two arguments share memory; pass a clone() of one"
        roots = {v.root for v in trace.arguments}
        if any(v.root in roots for v in program.returns[: self._count]):
            return "a result is a view of an argument; return its clone()"
        own = {id(v.tensor) for v in trace.arguments}
        if any(id(v.tensor) in own for v in self.outside_of(GRAD)):
            return "the .grad of an argument is read; set it to None before the call"
        placed = {n.value.root for n in program.nodes if isinstance(n, SetGrad) and n.place >= 0 and n.value}
        if any(v.root in placed for v in program.returns):
            return "the .grad of an argument is a result, too; take it from the argument"
        return "its random numbers are drawn again for derivatives of higher order; call backward inside of it" \
            if self._redraws else None

    def _run(self, given: Sequence[Any]) -> Any:
        self._last = None
        if self._unfit is not None or capture.is_capturing():
            return super()._run(given)
        if not self._warm:
            self._warm = True
            return super()._run(given)
        held = self._pending()
        if held is not None and held.owner is not None:
            held.leave()
        static = next((made for made in self._made if made.fits()), None)
        try:
            if static is None:
                static = self._capture(given)
            arrays = static(given)
        except capture.StaleGraphError as error:
            LOGGER.info("%s: captured again: %s", self._name, error)
            self._made = [made for made in self._made if made is not static]
            return super()._run(given)
        except CaptureError as error:
            if not isinstance(error.__cause__, capture.NotReadyError):
                self._refuse(str(error))
            return super()._run(given)
        self._last = static
        return arrays

    def _capture(self, given: Sequence[Any]) -> StaticProgram:
        static = StaticProgram(self, given)
        self._made = [*self._made[-MOST + 1 :], static]
        self.graph = f"{len(self._made)} CUDA graph{'s'[: len(self._made) > 1]}"
        LOGGER.info("%s: captured; the memory of its graph is %.1f MiB", self._name,
                    static.pool.memory.total_bytes() / 2**20)
        return static

    def _refuse(self, reason: str) -> None:
        self._unfit, self._made = reason, []
        self.graph = f"no graph: {reason}"
        self._warn()

    def _warn(self) -> None:
        warn_user(f"{self._name} runs without a CUDA graph: {self._unfit}")

    def _runner(self, given: Sequence[Any], saved: list[Any]) -> Callable[[Program, list[Any], bool], Any]:
        held = Held(given, saved, self._last)
        if self._last is not None:
            self._pending = weakref.ref(held)

        def run(program: Program, gs: list[Any], release: bool) -> Any:
            owner = held.owner
            if owner is None:
                return program(*held.given, held.saved if release else list(held.saved), *gs)
            if capture.is_capturing() or held.thread != threading.get_ident():
                return program(*owner.inputs, list(held.saved), *gs)
            try:
                return owner.backward(program, gs)
            except CaptureError as error:
                self._refuse(f"its backward: {error}")
                return program(*owner.inputs, list(held.saved), *gs)

        return run


def _static(xp: Any, array: Any) -> Any:
    """Memory of its own with the layout of an array."""
    if array.flags.c_contiguous:
        return xp.zeros(array.shape, array.dtype)
    begin, end = extent(array)
    return strided(xp, xp.zeros(((end - begin) // array.itemsize,), array.dtype), array.shape, array.strides)
