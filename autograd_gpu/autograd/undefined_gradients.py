"""The check of gradcheck that backward accepts None as the gradient of an output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

from ..backend import to_numpy
from ..core.graph.node import Node
from ..core.tensor import Tensor
from ..errors import GradcheckError
from ..modes import no_grad
from .backward import grad

HINT = "; gradcheck(check_undefined_grad=False) does not ask for this"


def check_undefined(outputs_at: Callable[[], list[Tensor]], inputs: Sequence[Tensor]) -> None:
    """GradcheckError unless None as the gradient of all outputs, or of each of several, gives None or zeros.

    outputs_at runs the function and returns the outputs that require grad. Operations skip a gradient of None, so the
    case of all None is checked on the Functions in the graph.
    """
    for node in _functions(outputs_at(), inputs):
        nothing = None if node.outputs == 1 else [None] * node.outputs
        with no_grad():
            _check(node.name(), node.run_raw, nothing, node.mask, False)
    outputs = outputs_at()
    for k in range(len(outputs) if len(outputs) > 1 else 0):
        others = [o for i, o in enumerate(outputs_at()) if i != k]
        zeros = [o.new_zeros(o.shape) for o in others]
        _check(f"the node of output {k}", partial(grad, allow_unused=True), others, inputs, zeros)


def _functions(outputs: list[Tensor], inputs: Sequence[Tensor]) -> list[Node]:
    """The Function nodes between outputs and inputs, in backward order."""
    leads: set[Node | None] = {x._node for x in inputs}
    seen = {o._node for o in outputs if o._node is not None} - leads
    stack = list(seen)
    while stack:
        new = {child for child in stack.pop().edges if child is not None} - seen - leads
        seen |= new
        stack += new
    for node in sorted(seen, key=attrgetter("sequence_nr")):
        if any(child is not None and child in leads for child in node.edges):
            leads.add(node)
    return sorted([n for n in seen if n.materialize and n in leads], key=attrgetter("sequence_nr"), reverse=True)


def _check(what: str, backward: Callable[..., Iterable[Any]], *args: Any) -> None:
    try:
        grads = backward(*args)
    except RuntimeError as error:
        raise GradcheckError(f"Expected backward function to handle undefined output grads: {what} raised "
                             f"{error}{HINT}") from error
    except Exception as error:
        error.add_note(f"gradcheck called {what} with None for a gradient{HINT}")
        raise
    if any(g is not None and to_numpy(g.array if isinstance(g, Tensor) else g).any() for g in grads):
        raise GradcheckError("Expected all input grads to be undefined or zero when all output grads are undefined or "
                             f"zero: {what} gave others{HINT}")
