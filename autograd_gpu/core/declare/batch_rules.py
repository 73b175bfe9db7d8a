"""Batching: runs an op on a whole batch at once, as the spec `batch` of its block declares.

A batched input has a new leading dimension of size n, the batch dimension, and so has every output.

* BROADCASTING: the inputs broadcast against each other, and the attributes name no dimension.
* LEADING: the op works on the last dimensions of each input and treats all dimensions before them as batch dimensions.
* along("dim", ...): as LEADING, but the named attributes hold dimensions (an int, a tuple, None), which are converted
  to negative dimensions before the call.
* REDUCING: along("dim") where None and () mean all dimensions.
* MATRICES: the op works on the last two dimensions of each input, and the dimensions before them broadcast.
* LOOP: runs the op once per batch element; for ops outside hot paths.
* impossible("reason"): the op cannot be batched, for this reason.
* a function `batch(F, n, batched, inputs..., *, attributes...)`, where `batched` has one bool per input; a list input
  is `*tensors`, as in forward.

`as_it_is(fits)` decorates a function for the calls that need nothing else than the op itself on all examples: where
fits(batched, inputs, attributes) holds the function does not run. Named rules have such a test, too.

The rule of an op with `saved` extras returns (result, extras by name), as if the op had run on each example and the
extras had been stacked: an extra that is a tensor has the batch dimension, any other is the same for all examples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from ...errors import MissingRuleError
from .op import OpDef

Rule = TypeVar("Rule", bound=Callable[..., Any])


Test = Callable[[Sequence[bool], Sequence[Any], dict[str, Any]], bool]


def as_it_is(fits: Test) -> Callable[[Rule], Rule]:
    """Decorates a batch rule: the op itself runs on all examples where fits(batched, inputs, attributes) holds.

    `inputs` are tensors or arrays: a test may read their shapes.
    """

    def decorated(rule: Rule) -> Rule:
        rule.as_it_is = fits  # type: ignore[attr-defined]
        return rule

    return decorated


class BatchWord:
    """A named batch rule: run(F, op, n, batched, inputs, attributes) returns the result of the op."""

    def __init__(self, name: str, run: Callable[..., Any], as_it_is: Test | None = None) -> None:
        self.name, self.run, self.as_it_is = name, run, as_it_is

    def __repr__(self) -> str:
        return self.name


def run_batched(
    F: Any, op: OpDef, n: int, batched: Sequence[bool], inputs: Sequence[Any], attributes: dict[str, Any]
) -> Any:
    """Runs the op on a batch of size n; `inputs` are the elements of a list input, otherwise the arguments.

    MissingRuleError if its block has no `batch`; RuntimeError, with the reason, if the op cannot be batched.
    """
    rule = op.batch
    if rule is None:
        raise MissingRuleError(f"{op.name} has no batching rule; give its block a batch rule, or loop over the batch")
    if len(attributes) < len(op.attributes):
        attributes = op.filled(attributes)
    if op.as_it_is is not None and op.as_it_is(batched, inputs, attributes):
        return call(F, op, inputs, attributes)
    if type(rule) is BatchWord:
        return rule.run(F, op, n, batched, inputs, attributes)
    return rule(F, n, tuple(batched), *inputs, **attributes)


def run_drawing_once(
    F: Any, op: OpDef, n: int, batched: Sequence[bool], inputs: Sequence[Any], attributes: dict[str, Any]
) -> Any:
    """Runs a random op as `run_batched`, but all examples get the same numbers; RuntimeError if it cannot."""
    if not callable(op.random):
        raise RuntimeError(f"{op.name}: vmap does not support same randomness with a batched tensor input, which gives "
                           "the distribution; use randomness='different', or draw the numbers out of vmap")
    return op.random(F, n, tuple(batched), *inputs, **op.filled(attributes))


# ---- helpers for named rules and for functions --------------------------------------------------------


def rank(x: Any, is_batched: bool) -> int:
    """The number of dimensions of x without the batch dimension."""
    return len(x.shape) - is_batched


_BYTE = bytes(1)


def example(x: Any, is_batched: bool = True) -> Any:
    """An array with the shape of one batch element and no memory of its own, for checks that need only the shape."""
    shape = x.shape[is_batched:]
    return np.ndarray(shape, bool, _BYTE, 0, (0,) * len(shape))


def expanded(F: Any, n: int, batched: Sequence[bool], inputs: Sequence[Any]) -> list[Any]:
    """The inputs, each expanded to a leading dimension of size n; numbers and None are unchanged."""
    return [
        F.expand(x, (n, *x.shape)) if hasattr(x, "shape") and not is_batched else x
        for x, is_batched in zip(inputs, batched, strict=True)
    ]


def aligned(F: Any, batched: Sequence[bool], inputs: Sequence[Any]) -> list[Any]:
    """Makes the inputs broadcast per batch element: inserts dimensions of size 1 after the batch dimension."""
    ndim, uneven = -1, False
    for x, is_batched in zip(inputs, batched, strict=True):
        found_ndim = getattr(x, "ndim", None)
        if found_ndim is not None and found_ndim - is_batched != ndim:
            uneven = ndim >= 0
            ndim = max(ndim, found_ndim - is_batched)
    if not uneven:
        return list(inputs)
    results = []
    for x, is_batched in zip(inputs, batched, strict=True):
        if is_batched and (missing := ndim - rank(x, True)):
            x = F.reshape(x, (x.shape[0], *(1,) * missing, *x.shape[1:]))
        results.append(x)
    return results


def counted_from_right(dim: Any, ndim: int, reducing: bool = False) -> Any:
    """Converts one or several dimensions to negative ones, valid with a batch dimension; IndexError if out of range.

    None is unchanged; with `reducing`, None and () become all dimensions.
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
    """Moves dimension `source` of x to position `target`, both non-negative; the other dimensions keep their order."""
    if source == target:
        return x
    order = [d for d in range(len(x.shape)) if d != source]
    order.insert(target, source)
    return F.permute(x, tuple(order))


def one_by_one(F: Any, name: str, function: Callable[..., Any], n: int, batched: Sequence[bool], inputs: Any) -> Any:
    """Runs function(*inputs) once per batch element and stacks the results; `name` is the name of the op."""
    if not n:
        raise RuntimeError(f"{name}: a batch of no examples has no result; it runs example by example")
    return _stacked(F, [
        function(*(F.basic_index(x, i) if b else x for x, b in zip(inputs, batched, strict=True))) for i in range(n)
    ])  # fmt: skip


def _stacked(F: Any, results: Sequence[Any]) -> Any:
    """Stacks what a function returned for each example: a tensor, or a tuple or dict of them."""
    if isinstance(results[0], tuple):
        return tuple(_stacked(F, parts) for parts in zip(*results, strict=True))
    if isinstance(results[0], dict):
        return {name: _stacked(F, [result[name] for result in results]) for name in results[0]}
    return F.stack(list(results)) if hasattr(results[0], "shape") else results[0]


def call(F: Any, op: OpDef, inputs: Sequence[Any], attributes: dict[str, Any]) -> Any:
    """Calls the op through F; for an op with saved extras returns (result, extras by name)."""
    if op.saved:
        return F.keeping_saved(op.name, inputs, attributes)
    return getattr(F, op.name)(*([list(inputs)] if op.variadic else inputs), **attributes)


# ---- the named rules --------------------------------------------------------------------------------


def _are_aligned(batched: Sequence[bool], inputs: Sequence[Any], attributes: dict[str, Any]) -> bool:
    """Whether no input has more dimensions than each batched one, without the batch dimension."""
    ranks = [rank(x, b) if hasattr(x, "shape") else 0 for x, b in zip(inputs, batched, strict=True)]
    most = max(ranks)
    return most == min([r for r, b in zip(ranks, batched, strict=True) if b])


def _are_batched(batched: Sequence[bool], inputs: Sequence[Any], attributes: dict[str, Any]) -> bool:
    return all(b or not hasattr(x, "shape") for x, b in zip(inputs, batched, strict=True))


def _broadcasting(F: Any, op: OpDef, n: int, batched: Any, inputs: Any, attributes: Any) -> Any:
    return call(F, op, aligned(F, batched, inputs), attributes)


def _leading(F: Any, op: OpDef, n: int, batched: Any, inputs: Any, attributes: Any) -> Any:
    return call(F, op, expanded(F, n, batched, inputs), attributes)


def along(*names: str, reducing: bool = False) -> BatchWord:
    """Makes the batch rule for an op whose attributes `names` hold dimensions of its inputs, all of the same rank."""

    def run(F: Any, op: OpDef, n: int, batched: Any, inputs: Any, attributes: Any) -> Any:
        ndim = max(rank(x, b) for x, b in zip(inputs, batched, strict=True) if hasattr(x, "shape"))
        dims = {name: counted_from_right(attributes[name], ndim, reducing) for name in names}
        inputs = expanded(F, n, batched, inputs)
        if ndim:
            return call(F, op, inputs, attributes | dims)
        # a 0-d tensor accepts dim 0 and -1, too: run on vectors of one element
        dims = {name: -1 if dim is not None else None for name, dim in dims.items()}
        out = call(F, op, [F.reshape(x, (n, 1)) if hasattr(x, "shape") else x for x in inputs], attributes | dims)
        return _as_numbers(F, n, out)

    return BatchWord("REDUCING" if reducing else f"along({', '.join(names)})", run)


def _as_numbers(F: Any, n: int, result: Any) -> Any:
    """Results of vectors of one element, as those of 0-d tensors."""
    if isinstance(result, tuple):
        return tuple(_as_numbers(F, n, part) for part in result)
    if isinstance(result, dict):
        return {name: _as_numbers(F, n, part) for name, part in result.items()}
    return F.reshape(result, (n,)) if hasattr(result, "shape") else result


def _loop(F: Any, op: OpDef, n: int, batched: Any, inputs: Any, attributes: Any) -> Any:
    return one_by_one(F, op.name, lambda *example: call(F, op, example, attributes), n, batched, inputs)


def _matrices(F: Any, op: OpDef, n: int, batched: Any, inputs: Any, attributes: Any) -> Any:
    if any(rank(x, b) < 2 for x, b in zip(inputs, batched, strict=True) if hasattr(x, "shape")):
        return _loop(F, op, n, batched, inputs, attributes)  # not matrices: the op raises its own error
    return call(F, op, aligned(F, batched, inputs), attributes)


def impossible(reason: str) -> BatchWord:
    """Makes the batch rule for an op that cannot run on a batch; `reason` follows "<op> cannot be batched: "."""

    def run(F: Any, op: OpDef, n: int, batched: Any, inputs: Any, attributes: Any) -> Any:
        raise RuntimeError(f"{op.name} cannot be batched: {reason}")

    return BatchWord("impossible", run)


BROADCASTING = BatchWord("BROADCASTING", _broadcasting, _are_aligned)
LEADING = BatchWord("LEADING", _leading, _are_batched)
REDUCING = along("dim", reducing=True)
MATRICES = BatchWord("MATRICES", _matrices)
LOOP = BatchWord("LOOP", _loop)
