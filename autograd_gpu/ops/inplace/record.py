"""Records operations that write into their first operand.

The op runs out of place on an alias of the tensor, its result is written into the tensor's memory, and
core/history/rebase.py rewrites the history. Inside of transforms core/interpret/writes.py does the same for each level.
"""

from __future__ import annotations

import sys
from typing import Any

from ... import errors
from ...backend.arrays import dtypes, strides
from ...backend.cuda import exact
from ...core.extend import (
    INFERENCE_STORAGE,
    RECORD,
    EnoughSaved,
    Float8Tensor,
    LevelTensor,
    OpNode,
    SavedIntoView,
    SavedOutput,
    Storage,
    Tensor,
    bump_version,
    check_inplace,
    concerns_level,
    give,
    notify_write_listeners,
    only_watched,
    overwrite,
    plain,
    push_written,
    rebase_history,
    refuse_inner,
    set_apart,
    storage_of,
    tracer,
    value_for,
    withholding,
    write_lifted,
)
from ...modes import GRAD_OFF, INFERENCE, MODES, SAVING, TRANSFORMED

# What `check_writable` answers about a write that `record` has to do, and why.
IN_GRAPH, IN_LEVEL = 1, 2


def refuse_stretched(name: str, array: Any) -> None:
    """RuntimeError for an array whose elements share memory."""
    if strides.is_expanded(array):
        raise RuntimeError(f"{name}: unsupported operation: more than one element of the written-to tensor refers to a "
                           "single memory location. Please clone() the tensor before performing the operation.")


def check_writable(name: str, x: Tensor, *others: Any, allow_expanded: bool = False) -> int:
    """Whether `record` has to do a write to x, of values that depend on `others`: 0, IN_GRAPH or IN_LEVEL.

    RuntimeError if x cannot be written to: a leaf that requires grad, an inference tensor, or an expanded view, unless
    `allow_expanded`: all elements get the same constant, or the caller checks.
    """
    in_level = MODES.bits & TRANSFORMED and concerns_level(x, others)
    if in_level:
        refuse_inner(name, x, others)
        if isinstance(x, LevelTensor):
            return IN_LEVEL
    array, storage = x._array, x._storage
    in_graph = changes_graph(x, others)
    if in_graph:
        check_inplace(name, x)
    if not allow_expanded and 0 in array.strides:
        refuse_stretched(name, array)
    if storage is not None:
        announce(storage)
    return IN_LEVEL if in_level else IN_GRAPH if in_graph else 0


def announce(storage: Storage) -> None:
    """Increments the version before a write. RuntimeError for an inference tensor outside of inference mode."""
    if storage is INFERENCE_STORAGE and not MODES.bits & INFERENCE:
        raise errors.inference_written()
    if storage.write_listeners is not None:
        notify_write_listeners(storage)


def is_recorded(x: Tensor, others: tuple[Any, ...]) -> bool:
    """Whether `record` must do the write: it changes a graph, or an interpreter must see it."""
    return bool(MODES.bits & TRANSFORMED and concerns_level(x, others)) or changes_graph(x, others)


def changes_graph(x: Tensor, others: tuple[Any, ...]) -> bool:
    """Whether this thread records, and x or an operand is in a graph."""
    if MODES.bits & (GRAD_OFF | INFERENCE):
        return False
    base = x._base
    if base is None:
        if x._fn is not None:
            return True
    elif base._fn is not None or (x._fn if x._made else x._node) is not None:  # `_node` raises for some stale views
        return True
    for other in others:
        if isinstance(other, Tensor) and other._node is not None:
            return x._array.dtype in dtypes.FLOATS
    return False


def refuse_storage(name: str, *values: Any) -> None:
    """TypeError for a float8 tensor."""
    for value in values:
        if isinstance(value, Float8Tensor):
            raise TypeError(f"{name}: {value.dtype} is a storage dtype and has no arithmetic; convert with "
                            ".to(ag.float32) first")


def in_place(function: Any, name: str) -> Any:
    """The method `name` that writes function(x, ...), of x's shape and kind of dtype, into x and returns x."""

    def method(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        x = input
        if check_writable(name, x, *args, *kwargs.values()):
            return record(name, x, function, *args, **kwargs)
        result = function(x, *args, **kwargs)  # check_writable found nothing to record
        if result is x:  # dropout in evaluation
            return x
        check_result(name, x, result)
        bump_version(x)
        x._array[...] = exact.assignable(result._array, x._array)
        return x

    return named(method, function, name, f"`{name[:-1]}` of x, written into x, which is returned.")


def check_result(name: str, x: Tensor, result: Tensor) -> None:
    if result._array.shape != x._array.shape:
        raise RuntimeError(f"{name}: output with shape {list(x.shape)} doesn't match the broadcast shape "
                           f"{list(result.shape)}")
    if result.dtype != x.dtype and dtypes.category(result.dtype) > dtypes.category(x.dtype):
        raise RuntimeError(f"result type {result.dtype} can't be cast to the desired output type {x.dtype}")


def _calibrate() -> int:
    """The reference count that `record` sees on this Python for an object held by one local variable only."""
    original = object()
    return sys.getrefcount(original)


ALONE = _calibrate()


def record(name: str, x: Tensor, function: Any, *args: Any, **kwargs: Any) -> Tensor:
    """Writes function(x, ...) into x and makes its node the one of x (core/history/rebase.py, steps 1 to 3).

    The nodes of the function see the previous x as `original`, which gets its own memory if one of them saved it.
    Unlike in PyTorch, `original` also replaces x among the arguments, so that x.mul_(x) has the right gradient.
    """
    in_level = MODES.bits & TRANSFORMED and concerns_level(x, (*args, *kwargs.values()))
    if in_level:
        refuse_inner(name, x, (*args, *kwargs.values()))
        if isinstance(x, LevelTensor):
            return write_lifted(name, x, function, args, kwargs)
    original = plain(x)
    original._storage = None
    op = getattr(function, "op", None)
    plain_call = MODES.bits == 0 or (MODES.bits == TRANSFORMED and only_watched())
    apart = op is None or bool(op.saved) or not plain_call  # it is unknown who else uses the memory
    if apart:
        original._array = x._array.copy()
    tracing = tracer() if in_level else None
    if tracing is not None:
        tracing.copied(x._array, original._array)
    if in_level:
        set_apart(original, x)
    array = x._array
    operands = [original if a is x or a is array else a for a in args]
    kwargs = {key: original if a is x or a is array else a for key, a in kwargs.items()}
    if MODES.bits & SAVING:
        result, withheld = withholding(function, original, *operands, **kwargs)
    else:
        result, withheld = function(original, *operands, **kwargs), []
    del operands, kwargs
    if result is original:
        return x
    check_result(name, x, result)
    if result._array.dtype is not array.dtype:
        result = RECORD.cast(result, x.dtype)
    if in_level:
        result = value_for(x, result)
    if not apart and sys.getrefcount(original) > ALONE:  # a node saved it
        original._array = array.copy()
    bump_version(x)
    array[...] = exact.assignable(result._array, array)
    if tracing is not None:
        tracing.wrote(x, result)
    if in_level:
        push_written(x, result)
    if not MODES.bits & (GRAD_OFF | INFERENCE):
        link(x, result, withheld, original)
    return x


def link(x: Tensor, result: Tensor, withheld: list[Any], original: Tensor) -> None:
    """Makes the node of `result` the one of x, into which it was written; `original` is what x was."""
    node, nr = result._node, result._nr
    if node is None:
        overwrite(x, None)
        return
    if withheld:
        _hand_over(withheld, x, original, node, nr)
    elif node.keeps_output:
        _move_outputs(x, node, nr)
    rebase_history(x, node, nr)


def _move_outputs(x: Tensor, node: Any, nr: int) -> None:
    for name, kept in node.saved_by_name():
        if type(kept) is SavedOutput and kept.nr == nr and kept.tensor is not None:
            _moved(kept, x, node, name)


def _moved(kept: SavedOutput, x: Tensor, node: Any, name: str) -> SavedOutput:
    """The saved output of `node` after the output was written into x."""
    if x._base is None or not isinstance(node, OpNode):
        kept.move_to(x)
        return kept
    moved, slot = SavedIntoView(kept, x), node.saved_slots[name]
    held = getattr(node, slot)
    if isinstance(held, list):
        held[held.index(kept)] = moved
    else:
        setattr(node, slot, moved)
    return moved


def _hand_over(withheld: list[Any], x: Tensor, original: Tensor, node: Any, nr: int) -> None:
    """Passes the saved outputs of nodes to hooks: output `nr` of `node` as x, into which it was written, so that a hook
    recognizes the memory that the next node saves. If a hook fails, x gets its previous value `original` back."""
    try:
        for kept, by, name in withheld:
            if by is node and kept.nr == nr:
                kept = _moved(kept, x, by, name)
            give(kept, by, name)
    except EnoughSaved:
        raise
    except BaseException:
        x._array[...] = original._array
        storage_of(x).version -= 1
        raise


def named(method: Any, function: Any, name: str, doc: str) -> Any:
    method.__name__ = method.__qualname__ = name
    method.__doc__, method.__wrapped__ = doc, function
    return method
