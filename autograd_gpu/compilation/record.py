"""Records a call: runs it as it is, with a tracer below all other interpreters."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .. import pytrees
from ..core.graph import journals
from ..core.graph.tensor_base import TensorBase
from ..core.interpret.interpreters import entered
from ..core.interpret.tracing import tracer as current_tracer
from ..core.tensor import Tensor
from ..modes import MODES
from .graph import ARGUMENT, CAPTURED, CONSTANT, GRAD, Output, Trace
from .tracer import Tracer, options_of
from .watching import Watch

_LOCK = threading.Lock()
_OPEN: list[Tracer] = []
_UNWATCHED: Any = TensorBase.__dict__["array"]


def _read(self: TensorBase) -> Any:
    """`array`, while a call is traced anywhere: a read on the thread of the trace is told."""
    if MODES.stack and (level := current_tracer()) is not None:
        level.read(self)
    return self._array


@contextmanager
def reads_told(tracer: Tracer) -> Iterator[None]:
    """Has `Tensor.array` tell tracers of reads; it costs nothing while none is on."""
    with _LOCK:
        _OPEN.append(tracer)
        TensorBase.array = property(_read, doc=_UNWATCHED.__doc__)  # type: ignore[assignment,method-assign]
    try:
        yield
    finally:
        with _LOCK:
            _OPEN.remove(tracer)
            if not _OPEN:
                TensorBase.array = _UNWATCHED  # type: ignore[method-assign]


def record(
    fn: Callable[..., Any], args: Any, kwargs: Any, leaves: Sequence[Any], optimizers: Iterable[Any], fullgraph: bool
) -> tuple[Trace, Any]:
    """Runs fn(*args, **kwargs), and returns what it did and its result.

    leaves: those of the arguments. optimizers: those that earlier calls have stepped.
    """
    tracer = Tracer(fullgraph)
    arguments = [tracer.argument(i, x) for i, x in enumerate(leaves) if isinstance(x, Tensor)]
    for optimizer in optimizers:
        tracer.notice(optimizer)
    watch = Watch(tracer.refuse)
    for x in (fn, *leaves):
        watch.function(x)
    with reads_told(tracer), journals.keeping(tracer.journal), entered(tracer, above=len(MODES.stack)):
        with watch:
            result = fn(*args, **kwargs)
        tracer.flush()
    found, spec = pytrees.flatten(result)
    outputs = [_output(tracer, x) for x in found]
    trace = Trace(list(dict.fromkeys(arguments)), list(tracer.values.values()), tracer.nodes, outputs, spec)
    trace.grads_at_entry = {id(e.leaf): (e.leaf, e.before) for e in tracer.journal.values()}
    for v in trace.values:
        if v.kind == GRAD:
            trace.grads_at_entry.setdefault(id(v.tensor), (v.tensor, v.tensor._grad))
    trace.settings, trace.guards = tracer.settings, list(watch.items.values())
    _check(tracer, watch, trace)
    trace.refused = tracer.refused
    return trace, result


def _output(tracer: Tracer, x: Any) -> Output:
    if not isinstance(x, Tensor):
        return Output(None, x)
    return Output(tracer.value(x), None, x, x.requires_grad)


def _check(tracer: Tracer, watch: Watch, trace: Trace) -> None:
    """Refuses what the trace does not show."""
    changed = watch.changed()
    if changed:
        tracer.refuse(f"the call changes {', '.join(changed[:3])}, which is no tensor",
                      "return it, or change it outside of the function")
    if tracer.unnoted_writes():
        tracer.refuse("memory of a tensor is written to beside the operations", "write with in-place operations")
    for optimizer, options in trace.settings.values():
        if options_of(optimizer) != options:
            tracer.refuse("the call changes options of an optimizer", "change them outside of the function")
    given = {v.root for v in trace.arguments}
    if any(v.root in given for v in trace.values if v.kind in (CAPTURED, CONSTANT, GRAD)):
        tracer.refuse("an argument shares memory with a tensor that the function knows by itself",
                      "pass another tensor, or pass both")


__all__ = ["ARGUMENT", "record"]
