"""Records a call: runs it as it is, with a tracer below all other interpreters."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .. import pytrees
from ..backend import make
from ..core.engine.execute import execute
from ..core.graph import journals
from ..core.graph.leaf import AccumulateGrad
from ..core.graph.node import behind, has_hooks
from ..core.graph.tensor_base import TensorBase
from ..core.interpret.interpreters import entered
from ..core.interpret.sized import Sized, plain
from ..core.interpret.tracing import refuse
from ..core.interpret.tracing import tracer as current_tracer
from ..core.saved.saved_tensor import FREED
from ..core.tensor import Tensor, wrap
from ..modes import GRAD_OFF, MODES
from .backward import CompiledBackward
from .graph import ARGUMENT, CAPTURED, CONSTANT, GRAD, OUTSIDE, RESULT, TANGENT, Output, SetGrad, Trace, Value
from .items import Item, ParametersItem, tensors_in
from .key import modes
from .saving import saving_by
from .sizes import sizes_told
from .tracer import Tracer, options_of
from .watching import Watch

_LOCK = threading.Lock()
_OPEN: list[Tracer] = []
_UNWATCHED: Any = TensorBase.__dict__["array"]
_GRAD: Any = Tensor.__dict__["grad"]
_DATA: Any = Tensor.__dict__["data"]


def _read(self: TensorBase) -> Any:
    """`array`, while a call is traced anywhere: a read on the thread of the trace is told."""
    if MODES.stack and (level := current_tracer()) is not None:
        level.read(self)
    return self._array


def _grad(self: Tensor) -> Any:
    """`grad` in the same time: whether there is one counts."""
    if MODES.stack and (level := current_tracer()) is not None:
        level.asked_grad(self)
    return _GRAD.fget(self)


def _set_data(self: Tensor, value: Any) -> None:
    """`data = value` in the same time."""
    refuse("the data of a tensor is replaced", "write in place: x.data.copy_(value)")
    _DATA.fset(self, value)


@contextmanager
def reads_told(tracer: Tracer) -> Iterator[None]:
    """Has `Tensor.array` tell tracers of reads; it costs nothing while none is on."""
    with _LOCK:
        _OPEN.append(tracer)
        TensorBase.array = property(_read, doc=_UNWATCHED.__doc__)  # type: ignore[assignment,method-assign]
        Tensor.grad = property(_grad, _GRAD.fset, _GRAD.fdel, _GRAD.__doc__)  # type: ignore[assignment,method-assign]
        Tensor.data = property(_DATA.fget, _set_data, _DATA.fdel, _DATA.__doc__)  # type: ignore[assignment,method-assign]
    try:
        with sizes_told(tracer):
            yield
    finally:
        with _LOCK:
            _OPEN.remove(tracer)
            if not _OPEN:
                TensorBase.array, Tensor.grad, Tensor.data = _UNWATCHED, _GRAD, _DATA  # type: ignore[method-assign]


def record(
    fn: Callable[..., Any], given: Sequence[Any], structure: Any, optimizers: Iterable[Any], tracer: Tracer
) -> tuple[Trace, Any]:
    """Calls fn with the arguments of that structure, and returns what it did and its result.

    given: the leaves of the arguments. optimizers: those that earlier calls have stepped. An argument with a history is
    replaced by a leaf, so that the backward that is recorded ends there.
    """
    before = modes()
    leaves = [_leaf(x) for x in given]
    args, kwargs = structure.unflatten(leaves)
    arguments = [tracer.argument(i, x) for i, x in enumerate(leaves) if isinstance(x, Tensor)]
    for optimizer in optimizers:
        tracer.notice(optimizer)
    watch = tracer.dependencies
    for x in (fn, *leaves):
        watch.function(x)
    tracer.relies_on(getattr(fn, "__self__", None))  # a module that is compiled in place, which nothing calls here
    try:
        with reads_told(tracer), journals.keeping(tracer.journal), entered(tracer, above=len(MODES.stack)):
            with watch:
                result = fn(*args, **kwargs)
            tracer.flush()
    except RuntimeError as error:
        replaced = any(x is not y for x, y in zip(leaves, given, strict=True))
        if not replaced or tracer.refused is not None or _has_effects(tracer, watch):
            raise
        return _unrecorded(fn, structure.unflatten(given), tracer, error)
    if modes() != before:
        tracer.refuse("the call leaves a mode of the thread changed", "set it outside of the function")
    if [id(x) for x in pytrees.flatten((args, kwargs))[0]] != [id(x) for x in leaves]:
        tracer.refuse("the call changes a container among its arguments", "return what is new")
    parts, spec = pytrees.flatten(result)
    if any(isinstance(x, Sized) for x in parts):
        parts = [plain(x) for x in parts]
        result = spec.unflatten(parts)
    outputs = [_output(tracer, x) for x in parts]
    if any(o.requires_grad for o in outputs):
        _record_backward(tracer, outputs)
    trace = _trace(tracer, watch, arguments, outputs, spec)
    _check(tracer, watch, trace, given)
    trace.refused = tracer.refused
    if any(x is not y for x, y in zip(leaves, given, strict=True)):
        result = spec.unflatten(_linked(fn, structure, given, leaves, trace))
    return trace, result


def _trace(tracer: Tracer, watch: Watch, arguments: list[Value], outputs: list[Output], spec: Any) -> Trace:
    """What a tracer and a watch have taken down of a call."""
    trace = Trace(list(dict.fromkeys(arguments)), list(tracer.values.values()), tracer.nodes, outputs, spec)
    trace.grads_at_entry = {id(e.leaf): (e.leaf, e.before) for e in tracer.journal.values()}
    trace.tensors = tracer.tensors
    trace.tangents, trace.gradients, trace.zeros = tracer.tangents, tracer.gradients, tracer.zeros
    trace.freed = tracer.freed
    optimizers = [ParametersItem(optimizer) for optimizer, _ in tracer.settings.values()]
    trace.settings, trace.guards = tracer.settings, [*watch.items.values(), *optimizers]
    return trace


def _has_effects(tracer: Tracer, watch: Watch) -> bool:
    """Whether a call that was recorded in part has changed anything, so that it cannot be made anew."""
    return any(node.has_effect for node in tracer.nodes) or bool(tracer.journal or watch.changed())


def _unrecorded(fn: Any, given: Any, tracer: Tracer, failure: RuntimeError) -> tuple[Trace, Any]:
    """A call that failed with leaves in place of arguments with a history, as it is: it may need that history.

    It may write to such an argument in place, or differentiate by what one was computed from.
    """
    args, kwargs = given
    result = fn(*args, **kwargs)  # raises again if that was not the reason
    tracer.refuse(f"it needs the history of an argument, without which it raises: {failure}",
                  "compile what encloses both")
    return Trace([], [], [], refused=tracer.refused), result


def _leaf(x: Any) -> Any:
    """A leaf in place of a tensor with a history; anything else as it is."""
    if not isinstance(x, Tensor) or x.is_leaf or MODES.bits & GRAD_OFF:
        return x
    return x.detach().requires_grad_()


def _record_backward(tracer: Tracer, outputs: Sequence[Output]) -> None:
    """Records the backward of the results that require grad, which comes after the call."""
    made = [(i, o) for i, o in enumerate(outputs)
            if o.value is not None and o.requires_grad and o.tensor._node is not o.value.node]
    if not made:
        return
    nodes = behind([o.tensor._node for _, o in made])
    if any(map(has_hooks, nodes)):
        tracer.refuse("the graph of a result has hooks", "register them on the result")
        return
    variables = [x for node in nodes if isinstance(node, AccumulateGrad) and (x := node.variable) is not None]
    if len(variables) != len({id(x._array) for x in variables}):  # a value has the gradient of one leaf
        tracer.refuse("two leaves show one array", "clone() the array for one of them")
        return
    roots = []
    for i, o in made:
        tangent = wrap(make(o.tensor.device, "ones", o.tensor.shape, o.tensor.dtype))
        tracer.tangents.append((i, tracer.new("tangent", TANGENT, tangent._array, place=i)))
        roots.append((o.tensor._node, o.tensor._nr, tangent))
    leaves = [v for v in tracer.values.values() if v.kind in (ARGUMENT, CAPTURED) and v.tensor.requires_grad]
    ends = {v.tensor._node for v in leaves}
    if ends.intersection(behind(child for node in ends for child in node.edges)):
        tracer.refuse("a tensor from outside was computed from another one that the function uses, too",
                      "compile what encloses both, or pass one as an argument")
        return
    captures = [(v.tensor._node, v.tensor._nr, v.array) for v in leaves]
    tracer.phase = OUTSIDE
    freed = [_is_freed(o.tensor._node) for _, o in made]
    if any(freed):
        if not all(freed):
            tracer.refuse("the graph of one result was freed by a backward, and that of another one was not",
                          "detach() one of them")
        tracer.gradients, tracer.freed = [(v, None) for v in leaves], True
        return
    with reads_told(tracer), entered(tracer, above=len(MODES.stack)):
        try:
            grads = execute(roots, captures, False, True, False)
        except RuntimeError as error:  # whoever calls that backward gets it from the eager call
            tracer.refuse(f"the backward of a result raises: {error}", "detach() the result")
            return
    _note_gradients(tracer, outputs, leaves, grads)


def _note_gradients(tracer: Tracer, outputs: Sequence[Output], leaves: Sequence[Value], grads: Sequence[Any]) -> None:
    """Takes down what the backward has computed for each leaf."""
    for v, g in zip(leaves, grads, strict=True):
        value = None if g is None else tracer.value(g)
        if value is not None and value.kind == CONSTANT:  # zeros that no op has made
            tracer.zeros.append(v)
        else:
            tracer.gradients.append((v, value))
    shown = {id(o.tensor._node) for o in outputs if o.requires_grad}
    sums = {v for node in tracer.nodes if node.phase == OUTSIDE and node.name == "add" for v in node.outs}
    if any(g in sums and id(v.tensor._node) in shown for v, g in tracer.gradients):
        tracer.refuse("a leaf is returned beside what is computed from it", "take it from outside: the order in which "
                      "its gradients are added would be another one")


def _is_freed(root: Any) -> bool:
    """Whether a backward has freed what the nodes of a graph had saved."""
    slots = [(node, slot) for node in behind([root]) for slot in ("saved", *getattr(node, "saved_slots", {}).values())]
    return any(getattr(node, slot, None) is FREED for node, slot in slots)


def _linked(fn: Any, structure: Any, given: Sequence[Any], leaves: Sequence[Any], trace: Trace) -> list[Any]:
    """The results of a call some of whose arguments were replaced by leaves, with a history up to the arguments."""
    original = {id(y): x for x, y in zip(given, leaves, strict=True)}
    results = [original.get(id(o.tensor), o.tensor) if o.value is not None else o.constant for o in trace.outputs]
    numbers = [i for i, o in enumerate(trace.outputs) if o.requires_grad and id(o.tensor) not in original]
    inner = [trace.outputs[i].tensor for i in numbers]
    known = [v.tensor for v, _ in trace.gradients]
    inputs = [original.get(id(x), x) for x in known]

    def compute(gs: list[Any], need: int, release: bool) -> tuple[Any, ...]:
        roots = [(out._node, out._nr, wrap(g)) for out, g in zip(inner, gs, strict=True)]
        wanted = [i for i in range(len(known)) if need >> i & 1]
        captures = [(known[i]._node, known[i]._nr, known[i]._array) for i in wanted]
        grads: list[Any] = [None] * len(known)
        for i, g in zip(wanted, execute(roots, captures, False, True, False), strict=True):
            grads[i] = None if g is None else g._array
        return tuple(grads)

    made = [_alias(x) for x in inner]
    zeros = [original.get(id(v.tensor), v.tensor) for v in trace.zeros]
    if made and (inputs or zeros):
        rerun = again(fn, structure, given, numbers, read_from_outside(trace))
        CompiledBackward(made, inputs, zeros).for_call(made, (), compute, rerun)
        for i, x in zip(numbers, made, strict=True):
            results[i] = x
    for x, y in zip(given, leaves, strict=True):
        if x is not y and y._grad is not None:
            execute([(x._node, x._nr, y._grad)], None, True, True, False)
    return results


def _alias(x: Tensor) -> Tensor:
    result = wrap(x._array)
    result._storage = x._storage
    return result


def read_from_outside(trace: Trace) -> list[Item]:
    """The globals, cells and attributes with tensors that the call has named, as far as it has not changed them."""
    return [item for item in trace.guards if any(True for _ in tensors_in(item.expected)) and item.holds()]


def again(
    fn: Any, structure: Any, leaves: Sequence[Any], numbers: Sequence[int], outside: Sequence[Item]
) -> Callable[[], list[Tensor]]:
    """A function that calls fn anew, with the hooks that are on now, and returns the results with these numbers.

    It raises RuntimeError if one of `outside` is another tensor than in the call.
    """
    pairs = MODES.saving

    def run() -> list[Tensor]:
        changed = [item.name for item in outside if not item.holds()]
        if changed:
            raise RuntimeError("a derivative of higher order of a compiled function, which runs again for it, but "
                               f"{changed[0]} is another tensor than in the call, as after func.functional_call around "
                               "it: call it without ag.compile, or compile what encloses both")
        args, kwargs = structure.unflatten(leaves)
        with saving_by(pairs):
            found, _ = pytrees.flatten(fn(*args, **kwargs))
        return [found[i] for i in numbers]

    return run


def _output(tracer: Tracer, x: Any) -> Output:
    if not isinstance(x, Tensor):
        return Output(None, x)
    return Output(tracer.value(x), None, x, x.requires_grad)


def _check(tracer: Tracer, watch: Watch, trace: Trace, leaves: Sequence[Any]) -> None:
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
    if any(isinstance(n, SetGrad) and n.place >= 0 and n.tensor is not leaves[n.place] for n in trace.nodes):
        tracer.refuse("backward() inside of the call reaches the history of an argument", "compile what encloses both")
    if any(v.tensor._fn is not v.node for v in trace.arguments):
        tracer.refuse("an argument gets another history, or another requires_grad",
                      "write to a clone() of it, or do it outside of the function")
    if any(o.value is not None and o.value.kind == RESULT and o.requires_grad and o.tensor.is_leaf
           for o in trace.outputs):  # fmt: skip
        tracer.refuse("a result is a leaf that requires grad and was made by the call",
                      "return it without, and call requires_grad_() outside of the function")
    if any(o.tensor is not None and o.tensor._grad is not None and id(o.tensor) not in trace.tensors
           and id(o.tensor) not in tracer.places for o in trace.outputs):
        tracer.refuse("a result has a .grad", "return the .grad as a result of its own")
    roots = {v.root for v in trace.arguments}
    if any(v.root in roots for v in trace.values if v.kind in (CAPTURED, CONSTANT, GRAD)):
        tracer.refuse("an argument shares memory with a tensor that the function knows by itself",
                      "pass another tensor, or pass both")

