"""Recorder: records spans and instants of one profile. It is the outermost interpreter of its thread's stack.

1. It sees a call of an op after all transforms, on the arrays that are computed with. While it is alone on the stack it
   runs the call as if no mode were on (`watch`), so the call does what it does without a profile.
2. The engine, the saved-tensor hooks and the optimizers tell the tracer in `backend.counters.TRACING`, on any thread.
3. Before each call it draws a sequence number: a node with a later number was made by this call or a later one.
"""

from __future__ import annotations

import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from ..backend.counters import Observer
from ..core.declare.op import RECORD, OpDef
from ..core.graph.node import Node, next_sequence_nr
from ..core.interpret.interpreters import Interpreter, Result, lower, replaced
from ..core.tensor import Tensor
from ..hooks.pack_cache import PackedTensor
from ..modes import MODES, TRANSFORMED
from .device_time import DeviceClock
from .log import COPY, FUNCTION, LAUNCH, NODE, OP, OPTIMIZER, PACK, PRODUCT, RANGE, SKIPPED, UNPACK, Log
from .memory import Ledger, held_bytes
from .reasons import NO_GRADIENT, UNNEEDED, rules_of

clock = time.perf_counter_ns
PACKAGE = str(Path(__file__).resolve().parent.parent)
_NONE: dict[str, Any] = {}
NEVER = sys.maxsize  # the sequence number of an AccumulateGrad


class Recorder(Interpreter, Observer):
    """The records of one profile, by thread, and the samples of live bytes."""

    is_transform = sees_backward = nests_reverse = False
    only_watches = True

    def __init__(self, limit: int, shapes: bool, stacks: bool, memory: bool, device: DeviceClock | None) -> None:
        self.limit, self.shapes, self.stacks, self.device = limit, shapes, stacks, device
        self.ledger = Ledger() if memory else None
        self.samples: deque[tuple[int, dict[str, tuple[int, ...]]]] = deque(maxlen=limit)
        self.logs: list[Log] = []
        self.packed: weakref.WeakSet[Any] = weakref.WeakSet()  # packed memory that was counted
        self.started, self.stopped = clock(), 0
        self._local, self._lock = threading.local(), threading.Lock()
        self._plain = not (shapes or stacks or memory) and device is None

    def log(self) -> Log:
        """The log of this thread."""
        try:
            log: Log = self._local.log
        except AttributeError:
            log = self._local.log = Log(self.limit)
            with self._lock:
                self.logs.append(log)
        return log

    # ---- calls of ops ----------------------------------------------------------------------------

    def watch(self, op: OpDef, args: tuple[Any, ...], attributes: tuple[Any, ...]) -> Any:
        """Runs and records a call, outside of transforms."""
        modes = MODES.__dict__  # this thread's: half the time of six accesses to attributes
        stack, bits = modes["stack"], modes["bits"]
        modes["stack"], modes["bits"] = (), bits & ~TRANSFORMED
        if not self.alive:  # it ended where modes were put back afterwards
            stack, bits = (), bits & ~TRANSFORMED
        try:
            function = getattr(RECORD, op.name)
            operands, named = (list(args),) if op.variadic else args, _NONE
            if attributes and op.optional:  # they may be keyword-only
                named = dict(zip(op.attributes, attributes, strict=True))
            elif attributes:
                operands = (*operands, *attributes)
            return self._call(op.name, args, function, operands, named)
        finally:
            modes["stack"], modes["bits"] = stack, bits

    def run(
        self, op: OpDef, args: Sequence[Any], attributes: dict[str, Any],
        wrap: Callable[..., Any] | None = None,
    ) -> Result:  # fmt: skip
        """Runs and records a call inside of transforms, as it arrives below them."""
        result: Result = self._call(op.name, args, lower, (op, args, attributes, wrap), {})
        return result

    def _call(self, name: str, args: Sequence[Any], function: Any, operands: Any, named: dict[str, Any]) -> Any:
        """Records function(*operands, **named), which makes the results, or (results, extras), of a call with args."""
        if not self.alive:
            return function(*operands, **named)
        try:
            log = self._local.log
        except AttributeError:
            log = self.log()
        order = log.order = log.order + 1
        depth = log.depth
        log.depth = depth + 1
        if self._plain:
            shapes = stack = mark = None
        else:
            shapes, stack, mark = self._before(name, args)
        drawn = next_sequence_nr()
        start = clock()
        try:
            outs = function(*operands, **named)
        except BaseException as error:
            end, log.depth = clock(), depth
            marks = None if self.device is None else self.device.end(mark)
            log.records.append((order, depth, OP, name, start, end, None, drawn, shapes, stack, marks,
                                {"error": type(error).__name__}))  # fmt: skip
            raise
        end, log.depth = clock(), depth
        node = outs._fn if type(outs) is Tensor else _node_of(outs)
        sequence = None if node is None or not drawn < node.sequence_nr < NEVER else node.sequence_nr
        if self._plain:
            marks = facts = None
        else:
            marks = None if self.device is None else self.device.end(mark)
            facts = self._allocated(args, outs[0] if function is lower else outs)
        log.records.append((order, depth, OP, name, start, end, sequence, drawn, shapes, stack, marks, facts))
        return outs

    def _before(self, name: str, args: Sequence[Any]) -> tuple[Any, Any, Any]:
        shapes = tuple([x.shape if isinstance(x, Tensor) else () for x in args]) if self.shapes else None
        return shapes, self.frames() if self.stacks else None, None if self.device is None else self.device.begin(name)

    def _allocated(self, args: Sequence[Any], outs: Any) -> dict[str, Any] | None:
        if self.ledger is None:
            return None
        new = self.ledger.call(args, outs if isinstance(outs, (tuple, list)) else (outs,))
        self.sample()
        return {"allocated": new} if new else None

    def frames(self) -> tuple[tuple[str, int, str], ...]:
        """The user's frames, innermost first."""
        frames, frame = [], sys._getframe(2)
        walked: FrameType | None = frame
        while walked is not None:
            code = walked.f_code
            if not code.co_filename.startswith((PACKAGE, "<generated", "<frozen")):
                frames.append((code.co_filename, walked.f_lineno, code.co_name))
            walked = walked.f_back
        return tuple(frames)

    def function(self, cls: Any, args: tuple[Any, ...]) -> Any:
        """Runs and records a custom Function, whose forward it sees."""
        if not self.alive:
            return cls._call(args)
        with self.span(FUNCTION, cls.__name__, args) as span, replaced((self,)):
            result = cls._call(args, below=False)
            outs = result[0] if isinstance(result[0], tuple) else (result[0],)
            span.made(next((x._fn for x in outs if isinstance(x, Tensor) and x._fn is not None), None))
            return result

    # ---- the engine ------------------------------------------------------------------------------

    def node(self, task: Any, node: Node, need: int, run: Callable[..., Any], g: Any, adds: bool) -> Any:
        """Runs a node of a task by run(task, node, g, need, adds)."""
        try:
            log = self._local.log
        except AttributeError:
            log = self.log()
        rules, skipped = rules_of(node, need)
        order = log.order = log.order + 1
        depth = log.depth
        log.depth = depth + 1
        name, sequence, facts = node.name(), node.sequence_nr, rules
        mark = None if self.device is None else self.device.begin(name)
        start = clock()
        if skipped:
            for rule, why in skipped:
                log.note(SKIPPED, rule, start, why)
        try:
            grads = run(task, node, g, need, adds)
            if self.ledger is not None:
                facts = self._after_node(task, node, grads, rules)
            return grads
        except BaseException as error:
            facts = {**rules, "error": type(error).__name__}
            raise
        finally:
            end, log.depth = clock(), depth
            marks = None if self.device is None else self.device.end(mark)
            log.records.append((order, depth, NODE, name, start, end, sequence, -1, None, None, marks, facts))

    def _after_node(self, task: Any, node: Node, grads: Any, rules: dict[str, Any]) -> dict[str, Any]:
        assert self.ledger is not None
        new = self.ledger.gradients(grads)
        if not task.keep:
            self.ledger.release(node)
        self.sample()
        return {**rules, "allocated": new} if new else rules

    def leaf(self, leaf: Any, fire: Callable[[Any], None]) -> None:
        """Runs the AccumulateGrad of a leaf by fire(leaf)."""
        with self.span(NODE, "AccumulateGrad"):
            fire(leaf)
            variable = leaf.variable
            if self.ledger is not None and variable is not None:
                self.ledger.call([variable], ())
                self.ledger.gradients([variable._grad])
                self.sample()

    def unneeded(self, nodes: Sequence[Node]) -> None:
        """Notes the nodes that a task reaches and does not run."""
        log, now = self.log(), clock()
        for node in nodes:
            log.note(SKIPPED, node.name(), now, {"reason": UNNEEDED, "sequence": node.sequence_nr})

    def without_gradient(self, node: Node) -> None:
        """Notes a node that does not run since no gradient arrived."""
        self.log().note(SKIPPED, node.name(), clock(), {"reason": NO_GRADIENT, "sequence": node.sequence_nr})

    # ---- hooks and optimizers --------------------------------------------------------------------

    def packing(self, pack: Callable[..., Any], tensor: Tensor, info: tuple[Any, ...]) -> Any:
        """Runs a pack hook."""
        saved = {"op": info[0].op, "name": info[0].name} if info else {}
        with self.span(PACK, "pack") as span:
            packed = pack(tensor, *info)
            shared = packed.packed if isinstance(packed, PackedTensor) else None  # by several nodes, and packed once
            held = {"device": 0, "host": 0} if shared is not None and shared in self.packed else held_bytes(packed)
            if shared is not None:
                self.packed.add(shared)
            span.facts.update(saved, bytes=tensor.nbytes, held=held["device"], held_on_host=held["host"])
            if self.ledger is not None:
                self.ledger.packed(packed, tensor)
            return packed

    def unpacking(self, unpack: Callable[[Any], Any], packed: Any) -> Any:
        """Runs an unpack hook."""
        with self.span(UNPACK, "unpack") as span:
            tensor = unpack(packed)
            span.facts["bytes"] = getattr(tensor, "nbytes", 0)
            if self.ledger is not None and isinstance(tensor, Tensor):
                self.ledger.call((), [tensor])
            return tensor

    def step(self, step: Callable[..., Any], optimizer: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Runs the step of an optimizer."""
        with self.span(OPTIMIZER, f"Optimizer.step#{type(optimizer).__name__}.step"):
            result = step(optimizer, *args, **kwargs)
            if self.ledger is not None:
                self.ledger.state(optimizer)
                self.sample()
            return result

    # ---- spans of `with` statements, and instants ------------------------------------------------

    def span(self, kind: str, name: str, inputs: Sequence[Any] = (), **facts: Any) -> Span:
        """A context manager that records a span of this thread."""
        return Span(self, kind, name, inputs, facts)

    def saw_matmul(self, shape: tuple[int, ...]) -> None:
        self.log().note(PRODUCT, "product", clock(), shape)

    def saw_launch(self, kernel: str) -> None:
        self.log().note(LAUNCH, kernel, clock())

    def saw_copy(self, way: str, nbytes: int) -> None:
        self.log().note(COPY, way, clock(), {"bytes": nbytes})

    def sample(self) -> None:
        """Samples the live bytes if they have changed."""
        assert self.ledger is not None
        totals = self.ledger.totals()
        if not self.samples or self.samples[-1][1] != totals:
            self.samples.append((clock(), totals))

    def finish(self) -> None:
        """Ends the recording; spans that are open end now."""
        self.alive, self.stopped = False, clock()
        if self.ledger is not None:
            self.sample()
        for log in self.logs:
            for span in reversed(log.open):
                span.facts["unfinished"] = True
                span.record(self.stopped)
            log.open = []


def _node_of(outs: Any) -> Node | None:
    """The node of the first of several results, or of (results, extras)."""
    while type(outs) is tuple and outs:
        outs = outs[0]
    return getattr(outs, "_fn", None)


class Span:
    """A span of a `with` statement."""

    __slots__ = ("_depth", "_drawn", "_inputs", "_kind", "_log", "_mark", "_name", "_order", "_recorder", "_sequence",
                 "_shapes", "_stack", "_start", "facts")  # fmt: skip

    def __init__(self, recorder: Recorder, kind: str, name: str, inputs: Sequence[Any], facts: dict[str, Any]) -> None:
        self._recorder, self._kind, self._name, self._inputs, self.facts = recorder, kind, name, inputs, facts
        self._sequence: int | None = None

    def __enter__(self) -> Span:
        recorder = self._recorder
        log = self._log = recorder.log()
        log.order += 1
        self._order, self._depth = log.order, log.depth
        self._shapes, self._stack, self._mark = recorder._before(self._name, self._inputs)
        self._inputs = ()
        log.depth += 1
        log.open.append(self)
        self._drawn, self._start = next_sequence_nr(), clock()
        return self

    def made(self, node: Node | None) -> None:
        """Notes the node that the call made."""
        if node is not None and self._drawn < node.sequence_nr < NEVER:
            self._sequence = node.sequence_nr

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: Any) -> None:
        if self not in self._log.open:
            return  # the profile has stopped
        if kind is not None:
            self.facts["error"] = kind.__name__
        self._log.open.remove(self)
        self._log.depth = self._depth
        self.record(clock())

    def record(self, end: int) -> None:
        """Records the span."""
        device = self._recorder.device
        marks = None if device is None else device.end(self._mark)
        drawn = self._drawn if self._kind == FUNCTION else -1
        shapes = self._shapes if self._kind == FUNCTION else None
        self._log.records.append((self._order, self._depth, self._kind, self._name, self._start, end, self._sequence,
                                  drawn, shapes, self._stack, marks, self.facts or None))  # fmt: skip


__all__ = ["RANGE", "Recorder", "Span"]
