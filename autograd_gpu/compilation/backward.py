"""CompiledBackward: the node of the results of a compiled call whose backward comes outside of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import errors
from ..backend import make
from ..core.engine.execute import execute
from ..core.graph.node import Node, behind, next_sequence_nr
from ..core.graph.storage import INFERENCE_STORAGE, Storage, storage_of
from ..core.tensor import Tensor, wrap
from ..modes import GRAD_OFF, MODES, enable_grad
from ..random.replay import GeneratorReplay, GeneratorSnapshot

Again = Callable[[], list[Tensor]]


class CompiledBackward(Node):
    """Computes the gradients of the tensors in `inputs` from those of the results.

    zeros                       further inputs, whose gradient is zero by declaration
    compute(gs, need, release)  the gradients as arrays, for the bits in `need`; `release`: it is the last time. None if
                                a backward inside of the call has freed them
    again()                     the results once more, with history, for derivatives of higher order
    """

    __slots__ = ("_again", "_compute", "_homes", "_inputs", "_versions", "outputs", "zero_edges")

    outputs: int
    _compute: Any
    _again: Again
    _versions: list[tuple[Storage, int, Any, Any]]

    def __init__(self, results: Sequence[Tensor], inputs: Sequence[Tensor], zeros: Sequence[Tensor]) -> None:
        self._inputs = tuple(inputs)
        self._homes = [t.device for t in results]
        self.outputs = len(results)
        shapes, dtypes = tuple([t.shape for t in results]), tuple([t.dtype for t in results])
        self.shape, self.dtype = (shapes[0], dtypes[0]) if len(results) == 1 else (shapes, dtypes)
        self.edges = tuple([x._node for x in inputs])
        nrs = tuple([x._nr for x in inputs])
        self.nrs = nrs if any(nrs) else None
        beyond = [(node, x._nr) for x in zeros if (node := x._node) is not None]
        self.zero_edges = tuple([(i, node, nr) for i, (node, nr) in enumerate(beyond, len(inputs))])
        self.mask = (1 << len(self.edges)) - 1
        children = [*filter(None, self.edges), *(node for node, _ in beyond)]
        self.topological_nr = 1 + max([0, *(node.topological_nr for node in children)])

    def for_call(
        self, results: Sequence[Tensor], kept: Sequence[Tensor], compute: Any, again: Again
    ) -> CompiledBackward:
        """A node with the same edges for results of the same shapes, which gets them; `kept`: what the program reads.

        All that is the same in another call is copied, which takes a tenth of the time.
        """
        node = object.__new__(CompiledBackward)
        node._compute, node._again = compute, again
        # What the program reads of tensors that somebody outside can write to.
        storages = {id(s): (s, t.dtype, t.shape) for t in kept if (s := storage_of(t)) is not INFERENCE_STORAGE}
        node._versions = [(s, s.version, dtype, shape) for s, dtype, shape in storages.values()]
        node._inputs, node._homes, node.outputs = self._inputs, self._homes, self.outputs
        node.shape, node.dtype, node.edges, node.nrs = self.shape, self.dtype, self.edges, self.nrs
        node.zero_edges, node.mask, node.topological_nr = self.zero_edges, self.mask, self.topological_nr
        node.shapes = node.extra = None
        node.sequence_nr = next_sequence_nr()
        for nr, t in enumerate(results, 1):
            t._fn, t._nr = node, nr if self.outputs > 1 else 0
        return node

    def run_raw(self, g: Any, need: int, release: bool) -> tuple[Any, ...]:
        compute = self._checked()
        if release:
            self._compute = None
        grads: tuple[Any, ...] = compute(self._filled(g, lambda x: x), need, release)
        return grads

    def run_recorded(self, g: Any, need: int, release: bool) -> tuple[Any, ...]:
        self._checked()
        gs = self._filled(g, lambda x: x)
        gs = [x if isinstance(x, Tensor) else wrap(x) for x in gs]
        with enable_grad():
            outs = self._again()
        roots = [(out._node, out._nr, g) for out, g in zip(outs, gs, strict=True) if out._node is not None]
        wanted = [i for i in range(len(self._inputs)) if need >> i & 1]
        self._refuse_shared(wanted)
        captures = [(self._inputs[i]._node, self._inputs[i]._nr, self._inputs[i]._array) for i in wanted]
        found = execute(roots, captures, False, True, not MODES.bits & GRAD_OFF, on_tensors=True)  # type: ignore[arg-type]
        grads: list[Any] = [None] * len(self._inputs)
        for i, grad in zip(wanted, found, strict=True):
            grads[i] = grad
        return tuple(grads)

    def _refuse_shared(self, wanted: Sequence[int]) -> None:
        """RuntimeError if the history of an input reaches another input: the two gradients could not be told apart."""
        nodes = {self.edges[i] for i in wanted}
        if nodes.intersection(behind(child for i in wanted for child in self.edges[i].edges)):  # type: ignore[union-attr]
            raise RuntimeError("a derivative of higher order of a compiled function whose argument was computed from a "
                               "tensor that the function uses itself, too: call it without ag.compile, or compile what "
                               "encloses both")

    def _checked(self) -> Any:
        """What computes the gradients; RuntimeError if it was freed, or if what it reads was written to."""
        if self._compute is None:
            raise errors.freed_twice()
        for storage, version, dtype, shape in self._versions:
            if storage.version != version:
                raise errors.modified_in_place(str(dtype), shape, "", storage.version, version)
        return self._compute

    def _filled(self, g: Any, of: Callable[[Any], Any]) -> list[Any]:
        """The gradients of all results, with zeros for None."""
        gs = [g] if self.outputs == 1 else g
        described = [(self.shape, self.dtype)] if self.outputs == 1 else zip(self.shape, self.dtype, strict=True)
        return [make(home, "zeros", shape, dtype) if x is None else of(x)
                for x, home, (shape, dtype) in zip(gs, self._homes, described, strict=True)]

    def rules(self, need: int) -> list[str]:
        return [self.name()]


def repeated(run: Again, snapshot: GeneratorSnapshot | None) -> Again:
    """`run` with the random numbers of the first time."""

    def again() -> list[Tensor]:
        if snapshot is None:
            return run()
        with GeneratorReplay(snapshot):
            return run()

    return again
