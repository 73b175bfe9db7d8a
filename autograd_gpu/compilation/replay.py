"""A compiled call: a program, how its arrays become results, and the backward that comes outside of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import errors
from ..backend import counters
from ..core.graph.leaf import AccumulateGrad
from ..core.graph.storage import storage_of
from ..core.tensor import Tensor, alias, wrap
from ..random.replay import GeneratorSnapshot
from . import graph
from .backward import CompiledBackward, repeated
from .graph import ARGUMENT, CAPTURED, CONSTANT, GRAD, OUTSIDE, RESULT, TANGENT, Output, Trace, Value
from .passes import Facts, dead, fewer_launches, fused, recomputed, simplify
from .program import Program
from .record import again, read_from_outside

Make = Callable[[Sequence[Any], Any, Sequence[Any]], Any]  # of the leaves, the array and the results before: a result


class Replay:
    """What does again what a trace has done. `structure`: of the arguments."""

    graph = ""  # in a mode that makes CUDA graphs: whether there is one, for `explain`

    def __init__(self, fn: Callable[..., Any], name: str, structure: Any, trace: Trace) -> None:
        self.trace, self._fn, self._structure, self._name = trace, fn, structure, name
        self.traced = len(trace.nodes)
        if not trace.simplified:
            simplify(trace)
        self._shown = Facts(trace).escaping
        for v in trace.values:
            if v.kind == CONSTANT and self._shown[v.root]:
                v.keep()
        self._places = [v.place for v in trace.arguments]
        self._all = self._places == list(range(structure.num_leaves))  # whether all leaves are different tensors
        self._spec, self._simple = trace.spec, trace.spec.is_leaf()
        self._outside = [v for v in trace.values if v.kind != RESULT]
        returned = dict.fromkeys(o.value for o in trace.outputs if o.value is not None)
        shown = [v for v in returned if v.kind not in (ARGUMENT, CAPTURED)]
        self._partition(shown)
        at = {v: i for i, v in enumerate(shown)}
        self._makers = [(-1 if o.value is None else at.get(o.value, -1), self._maker(i, o))
                        for i, o in enumerate(trace.outputs)]
        self._outside_read = read_from_outside(trace) if trace.tangents else []
        trace.grads_at_entry, trace.guards = {}, []
        for output in trace.outputs:
            output.tensor = None
        for v in trace.values:
            if v.kind in (RESULT, GRAD, TANGENT):  # what the traced call has made lives no longer than without a trace
                v.forget()

    def _partition(self, shown: list[Value]) -> None:
        """Makes the program of the call, which returns `shown` and what the backward outside needs besides."""
        trace = self.trace
        forward = [n for n in trace.nodes if n.phase != OUTSIDE]
        self._gradients = [g for _, g in trace.gradients if g is not None]
        self.later = dead([n for n in trace.nodes if n.phase == OUTSIDE], self._gradients)
        made = {v for n in forward for v in n.made()}
        reads = dict.fromkeys(v for n in self.later for v in n.reads)
        reads.update(dict.fromkeys(self._gradients))
        redone = recomputed(forward, reads, {*shown, *self._gradients})
        self.later = [*redone, *self.later]
        made -= {v for n in redone for v in n.made()}
        self.saved = [v for v in reads if v in made or v.kind == GRAD]
        self._count = len(shown)
        returns = [*shown, *self.saved]
        self.program = self._program(self._name, dead(forward, returns), trace.arguments, returns)
        self._backwards: dict[int, Program] = {}
        outside = {v.root for v in self._outside}
        self._writes_outside = any(v.root in outside for n in forward for v in n.writes)
        roots = {v.root for v in self.saved}
        self._numbers = [i for i, _ in trace.tangents]
        self._kept_results = [i for i in self._numbers if self._root_of(i) in roots]
        # Places among the leaves, or -1, and tensors: the inputs of the backward, those with zeros, and what it reads.
        kept = [v for v in reads if v.kind in (ARGUMENT, CAPTURED)]
        behind = [v for v, _ in trace.gradients], trace.zeros, kept
        self._behind: list[list[tuple[int, Any]]] = [
            [(v.place, None) if v.kind == ARGUMENT else (-1, v.tensor) for v in values] for values in behind
        ]
        self._node: CompiledBackward | None = None  # what calls copy, if all have nodes with the same edges
        self._has_one_node = self._ends_last()
        draws = any(isinstance(n, graph.Draw) or (isinstance(n, graph.Call) and n.op.random) for n in forward)
        self._redraws = draws and bool(trace.tangents) and not trace.freed  # the same numbers for higher derivatives

    def __call__(self, leaves: Sequence[Any]) -> Any:
        """Runs the program with these leaves of the arguments."""
        given = leaves if self._all else [leaves[place] for place in self._places]
        snapshot = None
        if self._redraws:
            snapshot = GeneratorSnapshot()
            with snapshot:
                arrays = self._run(given)
        else:
            arrays = self._run(given)
        results: list[Any] = []
        for place, make in self._makers:
            results.append(make(leaves, arrays[place] if place >= 0 else None, results))
        if self.trace.tangents:
            self._link(leaves, given, results, list(arrays[self._count :]), snapshot)
        return results[0] if self._simple else self._spec.unflatten(results)

    def _run(self, given: Sequence[Any]) -> Any:
        """The arrays that the program returns."""
        tracer = counters.TRACING.tracer
        if tracer is None:
            return self.program(*given)
        with tracer.span("replay", f"compiled {self._name}"):
            return self.program(*given)

    # ---- backward outside --------------------------------------------------------------------------

    def _link(self, leaves: Sequence[Any], given: Sequence[Any], results: list[Any], saved: Any, snapshot: Any) -> None:
        """Gives the results their node."""
        numbers = self._numbers
        linked = [results[i] for i in numbers]
        node = self._node or self._node_behind(linked, leaves)
        if self.trace.freed:  # nothing reads what was saved
            node.for_call(linked, (), None, _freed)
            return
        kept = [*_tensors(self._behind[2], leaves), *(results[i] for i in self._kept_results)]
        run_backward = self._runner(given, saved)

        def compute(gs: list[Any], need: int, release: bool) -> tuple[Any, ...]:
            program = self._backwards.get(need)
            if program is None:
                program = self._backwards[need] = self._backward(need)
            grads = iter(run_backward(program, gs, release))
            return tuple([next(grads) if need >> i & 1 and g is not None else None
                          for i, (_, g) in enumerate(self.trace.gradients)])

        run = again(self._fn, self._structure, leaves, numbers, self._outside_read)
        node.for_call(linked, kept, compute, repeated(self._refusing(run), snapshot))

    def _node_behind(self, linked: Sequence[Tensor], leaves: Sequence[Any]) -> CompiledBackward:
        """A node of such results, with edges to what they were computed from, which is kept where guards know that."""
        inputs, zeros = (_tensors(group, leaves) for group in self._behind[:2])
        node = CompiledBackward(linked, inputs, zeros)
        if self._has_one_node:
            self._node = node
        return node

    def _ends_last(self) -> bool:
        """Whether the results have the same shapes and leaves behind them in all calls that guards let in."""
        trace, guarded = self.trace, {id(x) for x, _ in self.trace.outside}
        varying = any(o.value is not None and o.value.layout is not None for o in trace.outputs)
        return not varying and all(v.kind == CAPTURED and id(v.tensor) in guarded and _is_plain_leaf(v.tensor)
                                   for v in (*(v for v, _ in trace.gradients), *trace.zeros))

    def _runner(self, given: Sequence[Any], saved: list[Any]) -> Callable[[Program, list[Any], bool], Any]:
        """What runs a program of the backward of one call, with the gradients of its results.

        The program empties the list of what was saved, so that each array dies at its last use in the last run.
        """
        return lambda program, gs, release: program(*given, saved if release else saved.copy(), *gs)

    def backwards(self) -> list[Program]:
        """The programs of the backward outside: those that have run, else that of all gradients."""
        if not self._backwards and self._gradients:
            everything = (1 << len(self.trace.gradients)) - 1
            self._backwards[everything] = self._backward(everything)
        return list(self._backwards.values())

    def _refusing(self, run: Callable[[], list[Tensor]]) -> Callable[[], list[Tensor]]:
        """`run`, unless the call writes to tensors outside, which would be written twice."""
        if not self._writes_outside:
            return run

        def refused() -> list[Tensor]:
            raise RuntimeError("a derivative of higher order of a compiled function that writes to tensors outside, "
                               "such as buffers of batch norm: call it without ag.compile, or compile the whole step")

        return refused

    def _backward(self, need: int) -> Program:
        """The program for the gradients in `need`."""
        wanted = [g for i, (_, g) in enumerate(self.trace.gradients) if need >> i & 1 and g is not None]
        parameters = [*self.trace.arguments, *(v for _, v in self.trace.tangents)]
        return self._program(f"{self._name}_backward", dead(self.later, wanted), parameters, wanted, self.saved)

    def _program(self, name: str, nodes: Any, parameters: Sequence[Value], returns: Sequence[Value],
                 saved: Sequence[Value] | None = None) -> Program:  # fmt: skip
        """The program of these nodes; a backward gets what the forward has saved in a list, and empties it."""
        joined = fewer_launches(fused(nodes, returns), returns)
        return Program(name, joined, parameters, returns, self._outside, self._shown, saved)

    def _root_of(self, i: int) -> int:
        value = self.trace.outputs[i].value
        return -1 if value is None else value.root

    @staticmethod
    def _tensor(v: Value, leaves: Sequence[Any]) -> Any:
        return leaves[v.place] if v.kind == ARGUMENT else v.tensor

    # ---- results -----------------------------------------------------------------------------------

    def _maker(self, i: int, output: Output) -> Make:
        """How result i is made."""
        value, made, before = output.value, output.tensor, self.trace.outputs[:i]
        if value is None:
            constant = output.constant
            return lambda leaves, array, results: constant
        earlier = next((j for j, o in enumerate(before) if o.tensor is made), None)
        if earlier is not None:
            return lambda leaves, array, results: results[earlier]
        if value.kind in (ARGUMENT, CAPTURED):
            same = made is value.tensor
            return lambda leaves, array, results: self._tensor(value, leaves) if same else alias(
                self._tensor(value, leaves))
        setting = next((n for n in self.trace.nodes if isinstance(n, graph.SetGrad) and n.value is value), None)
        if value.kind == GRAD or (setting is not None and not setting.inside):
            place, leaf = (-1, value.tensor) if setting is None else (setting.place, setting.tensor)
            return lambda leaves, array, results: _grad_of(leaf if place < 0 else leaves[place], array)
        owner = next((v for v in self._outside if v.kind in (ARGUMENT, CAPTURED) and v.root == value.root), None)
        if owner is not None:
            kind = None if made._base is None else made._made
            return lambda leaves, array, results: _view(array, self._tensor(owner, leaves), kind)
        sharing = next((j for j, o in enumerate(before) if o.value is not None and o.value.root == value.root), None)
        if sharing is None:
            return lambda leaves, array, results: wrap(array)
        return lambda leaves, array, results: _sharing(array, results[sharing])


def _tensors(group: Sequence[tuple[int, Any]], leaves: Sequence[Any]) -> list[Tensor]:
    """Tensors from outside, and arguments by their places."""
    return [leaves[place] if tensor is None else tensor for place, tensor in group]


def _is_plain_leaf(tensor: Tensor) -> bool:
    """Whether a tensor has the same node as long as that is its `_fn`."""
    return type(tensor._fn) is AccumulateGrad and tensor._base is None


def _freed() -> list[Tensor]:
    raise errors.freed_twice()


def _sharing(array: Any, other: Tensor) -> Tensor:
    result = wrap(array)
    result._storage = storage_of(other)
    return result


def _grad_of(leaf: Tensor, array: Any) -> Tensor:
    """A result that is the `.grad` of a leaf."""
    grad = leaf._grad
    return grad if grad is not None and grad._array is array else wrap(array)


def _view(array: Any, tensor: Tensor, made: int | None) -> Tensor:
    """A result in the memory of an argument or of a tensor from outside; a view of it, unless it is detached."""
    result = _sharing(array, tensor)
    if made is not None and not result.is_inference() and not tensor.requires_grad:
        result._base = tensor if tensor._base is None else tensor._base
        result._made, result._seen = made, storage_of(tensor).version
    return result

