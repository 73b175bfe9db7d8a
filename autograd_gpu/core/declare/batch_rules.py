"""Batching: how an op runs on many examples at once, by the word `batch` of its block.

A batched input has its examples along a new leading dimension of size n, and so has every output.

* BROADCASTING: the inputs broadcast against each other, and the attributes name no dimension.
* LEADING: the op works on the last dimensions of each input; what stands before them is a batch anyway.
* along("dim", ...): the named attributes hold dimensions (an int, a tuple, None), all else is as in LEADING; they are
  counted from the right before the call.
* REDUCING: along("dim") where None and () mean all dimensions.
* MATRICES: the op works on the last two dimensions of each input, and what stands before them broadcasts.
* LOOP: one example after the other; for ops that nobody calls in a hot path.
* impossible("reason"): the op cannot, and says why.
* a function `batch(F, n, batched, inputs..., *, attributes...)`, where `batched` says which inputs are; a list input
  is `*tensors`, as in forward.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...errors import MissingRuleError
from .op import OpDef


class BatchWord:
    """A word with its meaning: run(F, op, n, batched, inputs, attributes) -> what the op answers."""

    def __init__(self, name: str, run: Callable[..., Any]) -> None:
        self.name, self.run = name, run

    def __repr__(self) -> str:
        return self.name


def run_batched(
    F: Any, op: OpDef, n: int, batched: Sequence[bool], inputs: Sequence[Any], attributes: dict[str, Any]
) -> Any:
    """The op on n examples; `inputs` are the elements of a list input, else the arguments.

    MissingRuleError if its block has no `batch`; RuntimeError, with the reason, if it cannot be batched.
    """
    if op.batch is None:
        raise MissingRuleError(f"{op.name} has no batching rule; give its block a batch rule, or loop over the batch")
    attributes = op.filled(attributes)
    if isinstance(op.batch, BatchWord):
        return op.batch.run(F, op, n, tuple(batched), tuple(inputs), attributes)
    return op.batch(F, n, tuple(batched), *inputs, **attributes)


# ---- for the words, and for functions in their place ------------------------------------------------


def rank(x: Any, is_batched: bool) -> int:
    """How many dimensions one example of x has."""
    return len(x.shape) - is_batched


def example(x: Any, is_batched: bool = True) -> Any:
    """An array in the shape of one example, without memory: for what a forward finds out, or refuses, by the shape."""
    return np.broadcast_to(np.False_, x.shape[is_batched:])


def expanded(F: Any, n: int, batched: Sequence[bool], inputs: Sequence[Any]) -> list[Any]:
    """The inputs, each with a leading dimension of size n; numbers and None as they are."""
    return [
        F.expand(x, (n, *x.shape)) if hasattr(x, "shape") and not is_batched else x
        for x, is_batched in zip(inputs, batched, strict=True)
    ]


def aligned(F: Any, batched: Sequence[bool], inputs: Sequence[Any]) -> list[Any]:
    """The inputs as they broadcast example by example: batched ones of fewer dimensions get ones after the first."""
    pairs = list(zip(inputs, batched, strict=True))
    ndim = max(rank(x, b) for x, b in pairs if hasattr(x, "shape"))
    found = []
    for x, is_batched in pairs:
        if is_batched and (missing := ndim - rank(x, True)):
            x = F.reshape(x, (x.shape[0], *(1,) * missing, *x.shape[1:]))
        found.append(x)
    return found


def counted_from_right(dim: Any, ndim: int, reducing: bool = False) -> Any:
    """A dimension, or several, as negative numbers, valid with a batch in front; IndexError if out of range.

    None stays, and with `reducing` becomes all dimensions, as () does.
    """
    if isinstance(dim, np.integer):
        dim = int(dim)
    if dim is None or (reducing and not isinstance(dim, int) and not len(dim)):
        return tuple(range(-ndim, 0)) if reducing else None
    if not isinstance(dim, int):
        return tuple(counted_from_right(d, ndim) for d in dim)
    size = ndim or 1
    if not -size <= dim < size:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-size}, {size - 1}], but got {dim})")
    return dim if dim < 0 else dim - size


def moved(F: Any, x: Any, source: int, target: int) -> Any:
    """x with dimension `source` at the place `target`, both counted from the left; the others keep their order."""
    if source == target:
        return x
    order = [d for d in range(len(x.shape)) if d != source]
    order.insert(target, source)
    return F.permute(x, tuple(order))


def one_by_one(F: Any, name: str, function: Callable[..., Any], n: int, batched: Sequence[bool], inputs: Any) -> Any:
    """function(*inputs) for one example after the other, stacked; `name` is the op's."""
    if not n:
        raise RuntimeError(f"{name}: a batch of no examples has no result; it runs example by example")
    outs = [
        function(*(F.basic_index(x, i) if b else x for x, b in zip(inputs, batched, strict=True))) for i in range(n)
    ]
    if isinstance(outs[0], tuple):
        return tuple(F.stack(list(parts)) for parts in zip(*outs, strict=True))
    return F.stack(outs)


def call(F: Any, op: OpDef, inputs: Sequence[Any], attributes: dict[str, Any]) -> Any:
    """The op through F."""
    return getattr(F, op.name)(*([list(inputs)] if op.variadic else inputs), **attributes)


# ---- the words --------------------------------------------------------------------------------------


def _broadcasting(F: Any, op: OpDef, n: int, batched: Any, inputs: Any, attributes: Any) -> Any:
    return call(F, op, aligned(F, batched, inputs), attributes)


def _leading(F: Any, op: OpDef, n: int, batched: Any, inputs: Any, attributes: Any) -> Any:
    return call(F, op, expanded(F, n, batched, inputs), attributes)


def along(*names: str, reducing: bool = False) -> BatchWord:
    """The word for an op whose attributes `names` hold dimensions of its inputs, which have one rank."""

    def run(F: Any, op: OpDef, n: int, batched: Any, inputs: Any, attributes: Any) -> Any:
        ndim = max(rank(x, b) for x, b in zip(inputs, batched, strict=True) if hasattr(x, "shape"))
        found = {name: counted_from_right(attributes[name], ndim, reducing) for name in names}
        inputs = expanded(F, n, batched, inputs)
        if ndim:
            return call(F, op, inputs, attributes | found)
        # 0-d examples have a dimension to name all the same: as vectors of one element
        found = {name: -1 if dim is not None else None for name, dim in found.items()}
        out = call(F, op, [F.reshape(x, (n, 1)) if hasattr(x, "shape") else x for x in inputs], attributes | found)
        return F.reshape(out, (n,)) if op.single else tuple(F.reshape(o, (n,)) for o in out)

    return BatchWord("REDUCING" if reducing else f"along({', '.join(names)})", run)


def _loop(F: Any, op: OpDef, n: int, batched: Any, inputs: Any, attributes: Any) -> Any:
    return one_by_one(F, op.name, lambda *example: call(F, op, example, attributes), n, batched, inputs)


def _matrices(F: Any, op: OpDef, n: int, batched: Any, inputs: Any, attributes: Any) -> Any:
    if any(rank(x, b) < 2 for x, b in zip(inputs, batched, strict=True) if hasattr(x, "shape")):
        return _loop(F, op, n, batched, inputs, attributes)  # no matrices: the op refuses them in its own words
    return call(F, op, aligned(F, batched, inputs), attributes)


def impossible(reason: str) -> BatchWord:
    """The word for an op that cannot run on a batch; `reason` ends the sentence "<op> cannot be batched: "."""

    def run(F: Any, op: OpDef, n: int, batched: Any, inputs: Any, attributes: Any) -> Any:
        raise RuntimeError(f"{op.name} cannot be batched: {reason}")

    return BatchWord("impossible", run)


BROADCASTING = BatchWord("BROADCASTING", _broadcasting)
LEADING = BatchWord("LEADING", _leading)
REDUCING = along("dim", reducing=True)
MATRICES = BatchWord("MATRICES", _matrices)
LOOP = BatchWord("LOOP", _loop)
