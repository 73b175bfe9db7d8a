"""In-place forms of list ops, copy_ and zero_.

Outside of graphs a form writes into the arrays directly. Inside of one the list op runs out of place on stand-ins for
the tensors of the first list, its results are written into their memory, and each tensor becomes its output of the one
node (core/history/rebase.py). Lists with a tensor twice, or with tensors that share memory, are written element by
element in order, by the in-place form of the op on one tensor; so are those inside of function transforms.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from ...backend.arrays import dtypes, strides
from ...core.extend import (
    FLOAT,
    INFERENCE_STORAGE,
    RECORD,
    Parameter,
    Tensor,
    bump_version,
    only_watched,
    plain,
    public,
)
from ...modes import GRAD_OFF, INFERENCE, MODES, RECORDING_MASK, TRANSFORMED
from ..inplace.record import announce, check_result, check_writable, link, refuse_stretched
from ..inplace.record import in_place as in_place_on_one
from ..inplace.write import check_fits
from ..inplace.write import copy_ as copy_one
from ..inplace.write import zero_ as zero_one
from .arguments import ListCall, listed, prepared, tensors
from .arrays import copy, write
from .columns import LIST, elements, length


def in_place(call: Callable[..., ListCall]) -> Callable[..., list[Tensor]]:
    """The function that writes the results of the call that `call` makes into the tensors of the first list."""

    def written(*args: Any, **kwargs: Any) -> list[Tensor]:
        made = call(*args, **kwargs)
        if made.columns[0] is not LIST:
            raise TypeError(f"foreach.{call.__name__}_(): expected a list of Tensors to write to, "
                            f"not {type(made.columns[0]).__name__}")
        return _write(f"foreach.{call.__name__}_", made)

    return written


def _write(name: str, call: ListCall) -> list[Tensor]:
    n, original = length(call.columns, call.tensors), call
    targets = call.tensors[:n]
    recorded = _check_writable(name, call.tensors, n)
    call = prepared(call)
    promoted = call is not original and any(a is not b for a, b in zip(call.tensors, original.tensors, strict=False))
    if (MODES.bits > RECORDING_MASK and not only_watched()) or promoted or (recorded and _meet(original, n)):
        _in_order(name, original)
    elif recorded:
        _record(name, call, targets)
    else:
        _overwrite(name, call, targets)
    return targets


def _check_writable(name: str, tensors: Sequence[Tensor], n: int) -> bool:
    """Whether the write to the first n tensors, of values that depend on the others, is to be recorded.

    As `check_writable` for each element, whose errors it raises; faster where no tensor has a graph.
    """
    recording = not MODES.bits & (GRAD_OFF | INFERENCE)
    if MODES.bits & TRANSFORMED or (recording and [x for x in tensors if x._fn is not None or x._base is not None]):
        lists = [tensors[start : start + n] for start in range(0, len(tensors), n)]
        recorded = [check_writable(name, *row) for row in zip(*lists, strict=True)]
        return any(recorded)
    for x in tensors[:n]:
        if 0 in x._array.strides:
            refuse_stretched(name, x._array)
        storage = x._storage
        if storage is not None and (storage is INFERENCE_STORAGE or storage.write_listeners is not None):
            announce(storage)
    return False


def _in_order(name: str, call: ListCall) -> None:
    op = call.op
    form, count = in_place_on_one(getattr(RECORD, op.name), name), len(op.inputs)
    for values in elements(call.columns, call.tensors):
        form(*values[:count], **dict(zip(op.attributes, values[count:], strict=True)))


def _meet(call: ListCall, n: int) -> bool:
    """Whether an element reads or writes memory that another one writes."""
    places: dict[int, list[int]] = {}
    for i, x in enumerate(call.tensors):
        places.setdefault(_key(x), []).append(i)
    pairs = [pair for group in places.values() for pair in itertools.combinations(group, 2)]
    extents = {i: strides.extent(call.tensors[i]._array) for pair in pairs for i in pair}
    return any(i < n and (j - i) % n and _overlap(extents[i], extents[j]) for i, j in pairs)


def _overlap(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return a[0] < b[1] and b[0] < a[1]


def _key(x: Tensor) -> int:
    """Identifies memory: tensors that share it share a base or a storage."""
    return id(x._storage if x._storage is not None else x)


def _overwrite(name: str, call: ListCall, targets: Sequence[Tensor]) -> None:
    """Writes into the arrays, after all checks; nothing is recorded."""
    if call.op.types == FLOAT:
        for x in targets:
            if x._array.dtype not in dtypes.FLOATS:
                raise RuntimeError(f"{name}: result type float can't be cast to the desired output type {x.dtype}")
    n, shapes = len(targets), [x._array.shape for x in call.tensors]
    if shapes != shapes[:n] * (len(shapes) // n):
        for i, shape in enumerate(shapes[n:]):
            check_fits(name, targets[i % n], shape)
    for x in targets:
        bump_version(x)
    write(call.op, [x._array for x in call.tensors], call.columns)


def _record(name: str, call: ListCall, targets: Sequence[Tensor]) -> None:
    originals = [plain(x) for x in targets]
    for original in originals:
        original._storage = None
    stand_in = {id(x): original for x, original in zip(targets, originals, strict=True)}
    inputs = [stand_in.get(id(x), x) for x in call.tensors]
    outs = getattr(RECORD, f"foreach_{call.op.name}")(inputs, call.columns)
    for x, out in zip(targets, outs, strict=True):
        check_result(name, x, out)
    node = next((out._fn for out in outs if out._fn is not None), None)
    kept = set() if node is None else {id(saved.tensor) for _, saved in node.saved_by_name()}
    for original in originals:
        if id(original) in kept:
            original._array = original._array.copy()
    for x in targets:
        bump_version(x)
    copy([x._array for x in targets], [out._array for out in outs])
    for x, out, original in zip(targets, outs, originals, strict=True):
        link(x, out, [], original)


@public("foreach.copy_")
def copy_(input: Sequence[Tensor], src: Sequence[Tensor], non_blocking: bool = False) -> list[Tensor]:
    """Copies each tensor of `src` into the one of `input`, as Tensor.copy_; non_blocking has no effect.

    >>> xs = [ag.zeros(2), ag.zeros(1)]
    >>> ag.foreach.copy_(xs, [ag.ones(2), ag.tensor([2.0])])
    [tensor([1., 1.]), tensor([2.])]
    """
    targets = listed("copy_", input)
    sources = tensors("copy_", src, len(targets))
    recorded = [check_writable("foreach.copy_", x, y) for x, y in zip(targets, sources, strict=True)]
    plain_ones = all(type(x) in (Tensor, Parameter) and x.shape == y.shape and x.dtype == y.dtype
                      for x, y in zip(targets, sources, strict=True))
    if (MODES.bits <= RECORDING_MASK or only_watched()) and not any(recorded) and plain_ones:
        for x in targets:
            bump_version(x)
        copy([x._array for x in targets], [y._array for y in sources])
    else:
        for x, y in zip(targets, sources, strict=True):
            copy_one(x, y)
    return targets


@public("foreach.zero_")
def zero_(input: Sequence[Tensor]) -> list[Tensor]:
    """Fills each tensor with zeros.

    >>> ag.foreach.zero_([ag.ones(2), ag.ones(1)])
    [tensor([0., 0.]), tensor([0.])]
    """
    return [zero_one(x) for x in listed("zero_", input)]
