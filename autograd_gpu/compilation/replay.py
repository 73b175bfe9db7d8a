"""A compiled call: guards, a program, and how its arrays become results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.graph.storage import storage_of
from ..core.tensor import Tensor, alias, wrap
from . import graph
from .graph import ARGUMENT, CAPTURED, CONSTANT, GRAD, RESULT, Output, Trace, Value
from .program import Program

Make = Callable[[Sequence[Any], Any, Sequence[Any]], Any]  # of the leaves, the array and the results before: a result


class Replay:
    """What does again what a trace has done."""

    def __init__(self, name: str, trace: Trace) -> None:
        self.trace = trace
        self._places = [v.place for v in trace.arguments]
        self._spec = trace.spec
        outside = [v for v in trace.values if v.kind != RESULT]
        returned = list(dict.fromkeys(o.value for o in trace.outputs if o.value is not None))
        returned = [v for v in returned if v.kind not in (ARGUMENT, CAPTURED)]
        self.program = Program(name, trace.nodes, trace.arguments, returned, outside)
        at = {v: i for i, v in enumerate(returned)}
        owners = {v.root: v for v in outside if v.kind in (ARGUMENT, CAPTURED)}
        self._makers = [(-1 if o.value is None else at.get(o.value, -1), self._maker(i, o, owners))
                        for i, o in enumerate(trace.outputs)]
        self._simple = trace.spec.num_leaves == 1 and trace.spec.is_leaf()

    def __call__(self, leaves: Sequence[Any]) -> Any:
        """Runs the program with these leaves of the arguments."""
        arrays = self.program(*[leaves[place] for place in self._places])
        results: list[Any] = []
        for place, make in self._makers:
            results.append(make(leaves, arrays[place] if place >= 0 else None, results))
        return results[0] if self._simple else self._spec.unflatten(results)

    def holds(self) -> bool:
        """Whether what the trace depended on is as it was."""
        return self.reason() is None

    def reason(self) -> str | None:
        """What has changed since the trace, or None."""
        for v in self._captured:
            if v.tensor._array is not v.array:
                return f"{v.name} has other memory"
            if (v.tensor._fn is not None) is not v.records:
                return f"{v.name} has another requires_grad"
        return None

    def _maker(self, i: int, output: Output, owners: dict[int, Value]) -> Make:
        """How result i is made."""
        value, made = output.value, output.tensor
        if value is None:
            constant = output.constant
            return lambda leaves, array, results: constant
        earlier = next((j for j, o in enumerate(self.trace.outputs[:i]) if o.tensor is made), None)
        if earlier is not None:
            return lambda leaves, array, results: results[earlier]
        if value.kind == ARGUMENT:
            place, same = value.place, made is value.tensor
            return lambda leaves, array, results: leaves[place] if same else alias(leaves[place])
        if value.kind == CAPTURED:
            tensor, same = value.tensor, made is value.tensor
            return lambda leaves, array, results: tensor if same else alias(tensor)
        leaf = next((n.leaf for n in self.trace.nodes if isinstance(n, graph.SetGrad) and n.value is value), None)
        if value.kind == GRAD or leaf is not None:
            return _grad_maker(value if leaf is None else leaf)
        if value.kind == CONSTANT:
            return lambda leaves, array, results: wrap(array.copy())
        owner = owners.get(value.root)
        if owner is not None:
            return _view_maker(owner)
        sharing = next((j for j, o in enumerate(self.trace.outputs[:i])
                        if o.value is not None and o.value.root == value.root), None)
        return _plain if sharing is None else lambda leaves, array, results: _sharing(array, results[sharing])


def _plain(leaves: Sequence[Any], array: Any, results: Sequence[Any]) -> Tensor:
    return wrap(array)


def _sharing(array: Any, other: Tensor) -> Tensor:
    result = wrap(array)
    result._storage = storage_of(other)
    return result


def _grad_maker(of: Value) -> Make:
    """A result that is the `.grad` of a leaf."""

    def make(leaves: Sequence[Any], array: Any, results: Sequence[Any]) -> Tensor:
        tensor = leaves[of.place] if of.kind == ARGUMENT else of.tensor
        grad: Tensor | None = tensor._grad
        return grad if grad is not None and grad._array is array else wrap(array)

    return make


def _view_maker(owner: Value) -> Make:
    """A result that is a view of an argument or of a tensor from outside."""

    def make(leaves: Sequence[Any], array: Any, results: Sequence[Any]) -> Tensor:
        tensor = leaves[owner.place] if owner.kind == ARGUMENT else owner.tensor
        result = _sharing(array, tensor)
        if not result.is_inference():
            result._base = tensor if tensor._base is None else tensor._base
            result._made, result._seen = 0, storage_of(tensor).version
        return result

    return make
