"""The second derivative of one call of an op: whether it is zero, its factors if elementwise, its value along pairs.

The second derivative of a call along (v, w) is the tangent along w of the op's jvp along v, so the op's own rules give
it. What a rule reads must carry the tangents, too: inputs, and the results that the call saved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...core.declare.jvp_rules import ELEMENTWISE, LINEAR, MULTILINEAR, push_forward
from ...core.declare.op import RECORD
from ...core.declare.op_call import Call
from ...core.declare.vjp_rules import apply_rules, pull_back
from ...core.interpret.batched import Batching, batched
from ...core.interpret.duals import Forward, attach, tangent_of
from ...core.interpret.interpreters import entered
from ...core.interpret.level_tensor import zeros_like
from ...core.tensor import Tensor
from ...modes import no_grad
from ...ops.nn.linear_activation import ACTIVATIONS, by_result

Tangents = Sequence[Tensor | None]

_BY_STRUCTURE: dict[Any, bool] = {}
MOST = 4096  # entries of _BY_STRUCTURE


class Activation(NamedTuple):
    """A call that is one of ACTIVATIONS: its name, its parameters, and what its derivatives are computed from."""

    name: str
    parameters: tuple[Any, ...]
    saved: Tensor
    bias: Tensor | None


def activation_of(call: Call, live: Sequence[int]) -> Activation | None:
    """The activation that a call computes of its input 0, the only one that depends on x; otherwise None."""
    fused = call.op.name in ("bias_activation", "bias_activation_by_sum")
    if list(live) != [0] or not (fused or call.op.name in ACTIVATIONS):
        return None
    if fused:
        name, parameters = call.attributes["activation"], call.attributes["parameters"]
    else:
        name, parameters = call.op.name, tuple(call.attributes.values())
    saved, bias = (call.outs[0], None) if by_result(name) else (call.inputs[0], call.inputs[1] if fused else None)
    return Activation(name, parameters, saved, bias)


def is_elementwise(call: Call, live: Sequence[int]) -> bool:
    """Whether each element of the result depends on x by the same element of one input only."""
    if activation_of(call, live) is not None:
        return True
    return call.op.jvp is ELEMENTWISE and len(live) == 1 and call.inputs[live[0]].shape == call.outs[0].shape


def has_second_derivative(call: Call, live: Sequence[int]) -> bool:
    """Whether the second derivative of a call by its inputs `live` is not zero, as far as its rules tell.

    1. LINEAR ops, MULTILINEAR ones of one live input, `linear` and piecewise linear activations have none.
    2. For the others the rules run once, on tangents that are zero: a zero that follows from the rules alone is None.
    """
    if call.op.jvp is LINEAR or (call.op.jvp is MULTILINEAR and len(live) == 1) or takes_rows(call, live):
        return False
    activation = activation_of(call, live)
    if activation is not None:
        return ACTIVATIONS[activation.name].bends
    key = _key(call, live)
    known = _BY_STRUCTURE.get(key)
    if known is None:
        known = _has_second_derivative_by_rules(call, live)
        if key is not None:
            if len(_BY_STRUCTURE) >= MOST:
                _BY_STRUCTURE.clear()
            _BY_STRUCTURE[key] = known
    return known


def _key(call: Call, live: Sequence[int]) -> Any:
    """What the structure of a call's derivatives may depend on; None if that has no hash."""
    inputs = [tuple([min(size, 2) for size in x.shape]) if isinstance(x, Tensor) else x for x in call.inputs]
    key = call.op.name, tuple(live), tuple(inputs), tuple(call.attributes.items())
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _has_second_derivative_by_rules(call: Call, live: Sequence[int]) -> bool:
    with no_grad():
        zeros = [RECORD.unsqueeze(zeros_like(x), 0) if i in live else None for i, x in enumerate(call.inputs)]
        return any(t is not None for t in second_derivative(call, zeros, zeros, push_batched(call, zeros, 1), 1))


def takes_rows(call: Call, live: Sequence[int]) -> bool:
    """Whether the rules of a call take any further leading dimensions of tangents and of gradients as they are.

    Those of `linear` do, for its input. Tangents that are the same in all examples then stay so.
    """
    return call.op.name == "linear" and list(live) == [0]


def expanded(t: Any, x: Any) -> Any:
    """Tangents of x, (n, *x.shape), from some that may have size 1 in place of the sizes of x; None for None."""
    return t if t is None or t.shape[1:] == x.shape else RECORD.expand(t, (t.shape[0], *x.shape))


def push_batched(call: Call, tangents: Tangents, n: int) -> list[Any]:
    """The tangents of the results, (n, *shape), from n tangents of each input; None means zero."""
    if takes_rows(call, [i for i, t in enumerate(tangents) if t is not None]):
        return [call.op.jvp(RECORD, tuple(tangents), *call.answers(call.op.jvp))]
    moved = [expanded(t, x) for t, x in zip(tangents, call.inputs, strict=True)]
    with entered(Batching(n)) as level:
        pushed = push_forward(RECORD, call, [None if t is None else batched(level, t) for t in moved])
    return [None if t is None else level.whole(t) for t in pushed]


def pull_batched(call: Call, grads: Sequence[Any], need: Sequence[bool]) -> Sequence[Any]:
    """The gradients of the inputs that `need` marks, (n, *shape), from n gradients of each result; None means zero."""
    n = next(g.shape[0] for g in grads if g is not None)
    live = [i for i, needed in enumerate(need) if needed]
    if takes_rows(call, live) and grads[0] is not None:
        return apply_rules(RECORD, call, grads[0], need)
    grads = [expanded(g, out) for g, out in zip(grads, call.outs, strict=True)]
    with entered(Batching(n)) as level:
        pulled = pull_back(RECORD, call, [None if g is None else batched(level, g) for g in grads], need)
    return [None if g is None else level.whole(g) for g in pulled]


def second_derivative(call: Call, along: Tangents, also: Tangents, outs: Tangents, n: int) -> list[Any]:
    """The second derivative of a call for n pairs of tangents, (n, *shape) per result; None means zero.

    along, also: (n, *shape) per input. outs: the tangents of the results along `also`.
    """
    with entered(Batching(n)) as pairs, entered(Forward()) as level:
        inputs = [_dual(x, level, pairs, t) for x, t in zip(call.inputs, also, strict=True)]
        results = [_dual(x, level, pairs, t) for x, t in zip(call.outs, outs, strict=True)]
        moved = Call(call.op, (inputs,) if call.op.variadic else inputs, call.attributes, results, call.extras)
        pushed = push_forward(RECORD, moved, [None if t is None else batched(pairs, t) for t in along])
        tangents = [None if t is None else tangent_of(t, level) for t in pushed]
    return [None if t is None else pairs.whole(t) for t in tangents]


def _dual(x: Any, level: Forward, pairs: Batching, tangent: Tensor | None) -> Any:
    """An alias of x with a tangent for each pair; x itself if that is zero."""
    if tangent is None:
        return x
    alias = RECORD.basic_index(x, ...)
    attach(alias, level, batched(pairs, tangent))
    return alias


def slopes(call: Call, live: Sequence[int]) -> tuple[Tensor, Tensor | None]:
    """The first and second derivatives of an elementwise call, of the result's shape; None means zero."""
    activation = activation_of(call, live)
    out = call.outs[0]
    ones = RECORD.constant_like(out, 1.0)
    if activation is not None:
        family, at = ACTIVATIONS[activation.name], activation.saved
        if activation.bias is not None:
            at = at + activation.bias
        first = family.at(RECORD, 1)(ones, at, *activation.parameters)
        if not family.bends:
            return first, None
        second = family.at(RECORD, 2)(ones, at, *activation.parameters)
        return first, second * first if by_result(activation.name) else second
    i = live[0]
    need = [j == i for j in range(len(call.inputs))]
    first = apply_rules(RECORD, call, ones, need)[i]
    with entered(Forward()) as level:
        inputs, result = list(call.inputs), RECORD.basic_index(out, ...)
        inputs[i] = RECORD.basic_index(inputs[i], ...)
        attach(inputs[i], level, ones)
        attach(result, level, first)
        moved = Call(call.op, inputs, call.attributes, (result,), call.extras)
        second = tangent_of(apply_rules(RECORD, moved, ones, need)[i], level)
    return first, second
