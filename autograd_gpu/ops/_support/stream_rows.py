"""The inputs of the ops of jets.py as rows: what fits together, and passes over blocks of rows on the CPU."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import backend
from ...backend import kernels
from ...backend.arrays.dtypes import HALF, float32
from ...backend.cpu import rows as cpu_rows
from ...backend.cpu import streams
from ...backend.formulas import jets
from ...backend.formulas.native.switch import Switch

Array = Any

# ---- shapes ------------------------------------------------------------------------------------------


def stream_lead(name: str, values: tuple[Any, ...], stream: Any, d: int, groups: streams.Groups) -> tuple[int, ...]:
    """The leading dimensions of the result; RuntimeError if the inputs do not fit together."""
    shape, lead = stream.shape, values[0].shape[:-1]
    count = len(groups)
    if len(shape) < 2 or shape[-2] not in (d, d + count) or not _are_pairs(d, groups):
        raise _misfit(name, values, stream, d, groups)
    for value in values:
        if not value.ndim or value.shape[-1] != shape[-1]:
            raise _misfit(name, values, stream, d, groups)
    if lead == shape[:-2] and all(value.shape[:-1] == lead for value in values):
        return lead
    return common_lead(name, *[value.shape[:-1] for value in values], shape[:-2])


@functools.lru_cache
def _are_pairs(d: int, groups: streams.Groups) -> bool:
    """Whether each group holds pairs of tangents 0 to d - 1."""
    return d > 0 and all(groups) and all(0 <= i < d for group in groups for pair in group for i in pair)


def _misfit(name: str, values: tuple[Any, ...], stream: Any, d: int, groups: streams.Groups) -> RuntimeError:
    """What is wrong with inputs that do not fit together."""
    shapes = [tuple(x.shape) for x in (*values, stream)]
    listed = ", ".join(map(str, shapes))
    if not all(shapes[:-1]) or len(shapes[-1]) < 2:
        return RuntimeError(f"{name}: values (..., h) need one dimension and a stream (..., S, h) two, got shapes "
                            f"{listed}; reshape a value of no dimension to (1,)")
    if len({shape[-1] for shape in shapes}) > 1:
        return RuntimeError(f"{name}: the last sizes of all inputs must be equal, got shapes {listed}; expand the "
                            "smaller one")
    if not _are_pairs(d, groups):
        return RuntimeError(f"{name}: each group must hold pairs of tangents 0 to d - 1, got d = {d} and {groups}")
    return RuntimeError(f"{name}: a stream of {d} tangents and {len(groups)} second tangents has size "
                        f"{d + len(groups)}, or {d} if the second ones are zero, in the dimension before the last; "
                        f"got {shapes[-1][-2]}")


def common_lead(name: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise RuntimeError(f"{name}: the leading dimensions {', '.join(map(str, shapes))} do not broadcast") from None


def as_rows(array: Array, lead: tuple[int, ...], own: int) -> Array:
    """A NumPy array, whose last `own` dimensions do not broadcast, as rows: a view if it has all of them, or one."""
    at = array.ndim - own
    tail = array.shape[at:]
    if array.shape[:at] == lead:
        return array.reshape(math.prod(lead), *tail)
    if array.size == math.prod(tail):
        return np.broadcast_to(array.reshape(tail), (math.prod(lead), *tail))
    return np.broadcast_to(array, (*lead, *tail)).reshape(math.prod(lead), *tail)


def for_kernel(array: Array, lead: tuple[int, ...], own: int, sharing: bool = True) -> Array:
    """A contiguous CuPy array with all leading dimensions; or, with `sharing`, a stream of all rows without any."""
    tail = array.shape[array.ndim - own :]
    if sharing and own > 1 and lead and array.size == math.prod(tail):
        return kernels.contiguous(array.reshape(tail))
    xp = backend.namespace(array)
    return kernels.contiguous(backend.broadcast_to(xp, array, (*lead, *tail)))


def line_up(F: Any, batched: Any, inputs: tuple[Any, ...], own: tuple[int, ...]) -> list[Any]:
    """Makes leading dimensions broadcast per batch element; the last `own` dimensions of an input are not leading."""
    leads = [x.ndim - n - b for x, n, b in zip(inputs, own, batched, strict=True)]
    if min(leads) == max(leads):
        return list(inputs)
    return [
        F.reshape(x, (x.shape[0], *(1,) * (max(leads) - lead), *x.shape[1:])) if b and lead < max(leads) else x
        for x, lead, b in zip(inputs, leads, batched, strict=True)
    ]


def rows_last(F, stream):
    """(S, ..., h) as (..., S, h), the form of jets.py."""
    n = stream.ndim
    return F.permute(stream, (*range(1, n - 1), 0, n - 1))


def rows_first(F, stream):
    """(..., S, h) as (S, ..., h)."""
    n = stream.ndim
    return F.permute(stream, (n - 2, *range(n - 2), n - 1))


# ---- passes on the CPU -------------------------------------------------------------------------------


def _is_shared(array: Array, rows: int, own: int) -> bool:
    """Whether all rows share the array."""
    return array.size == math.prod(array.shape[array.ndim - own :]) and rows != 1


class _Gradient:
    """The gradient of an input by blocks of rows. If all rows share the input, the sums of the blocks are added up."""

    def __init__(self, array: Array, rows: int, own: int, step: int) -> None:
        tail = array.shape[array.ndim - own :]
        self.shared, self.step, self.own = _is_shared(array, rows, own), step, own
        count = -(-rows // step) if self.shared else rows
        if own == 2 and array.ndim > 2 and array.strides[-2] > array.strides[-3]:  # as the array lies in memory
            self.rows = backend.empty(np, (tail[0], count, tail[1]), array.dtype).transpose(1, 0, 2)
        else:
            self.rows = backend.empty(np, (count, *tail), array.dtype)
        self.shape = array.shape

    def block(self, i: int, j: int) -> Array:
        """Where to write the gradients of the rows i to j."""
        if not self.shared:
            return self.rows[i:j]
        *planes, h = self.rows.shape[1:]
        block = np.empty((*planes, j - i, h), self.rows.dtype)
        return block.swapaxes(0, 1) if planes else block

    def add(self, i: int, block: Array) -> None:
        """Takes the block of the rows from i on, now written."""
        if self.shared:
            planes = [block] if self.own == 1 else streams.planes(block)
            for total, plane in zip(np.atleast_2d(self.rows[i // self.step]), planes, strict=True):
                total[...] = backend.total(np, plane, 0)

    def result(self, lead: tuple[int, ...]) -> Array:
        if self.shared:
            return backend.total(np, self.rows, 0).reshape(self.shape)
        return backend.sum_to(self.rows.reshape(*lead, *self.rows.shape[1:]), self.shape)


def sum_of_rows(like: Array, grads: Array, own: int) -> Array:
    """The gradient of an input that all rows share, from those of the rows, with the bits of `gradients_by_blocks`.

    like: the input (h,), or a stream (S, ..., h) of two dimensions of its own; grads: (rows, h), or (S, rows, h).
    """
    by_rows = grads if own == 1 else grads.swapaxes(0, 1)
    inner = like if own == 1 else like.transpose(*range(1, like.ndim - 1), 0, like.ndim - 1)
    blocks = cpu_rows.Blocks(len(by_rows), like.shape[-1], streams.BLOCK)
    total = _Gradient(inner, len(by_rows), own, blocks.step)

    blocks.run(lambda i, j: total.add(i, by_rows[i:j]))
    return total.result(()).reshape(like.shape)


def gradients_by_blocks(
    inputs: tuple[tuple[Array, int], ...], need: tuple[bool, ...], lead: tuple[int, ...], pull: Callable[..., None],
    block: int = streams.BLOCK,
) -> tuple[Array | None, ...]:
    """The needed gradients of inputs, which have so many dimensions of their own.

    pull(i, j, *blocks) writes those of the rows i to j, into None where one is not needed. Blocks have `block`
    elements, or streams.BLOCK where sums of blocks are added up, whose rounding errors depend on it.
    """
    rows, dtype, pairs = math.prod(lead), inputs[0][0].dtype, [*zip(inputs, need, strict=True)]
    sums = any(needed and _is_shared(x, rows, own) for (x, own), needed in pairs)
    blocks = cpu_rows.Blocks(rows, inputs[0][0].shape[-1], streams.BLOCK if sums else block)
    grads = [_Gradient(widened(x), rows, own, blocks.step) if needed else None for (x, own), needed in pairs]

    def work(i: int, j: int) -> None:
        parts = [None if grad is None else grad.block(i, j) for grad in grads]
        pull(i, j, *parts)
        for grad, block in zip(grads, parts, strict=True):
            if grad is not None and block is not None:
                grad.add(i, block)

    blocks.run(work)
    return tuple([None if grad is None else grad.result(lead).astype(dtype, copy=False) for grad in grads])


def widened(array: Array) -> Array:
    return array.astype(float32) if array.dtype in HALF else array


def _empty_stream(like: Array, lead: tuple[int, ...], count: int) -> Array:
    """An uninitialized stream (*lead, count, h), with the axis of size `count` first in memory if it is so in `like`.

    Also if `like` is the same in all rows: the passes then need no copies.
    """
    h, strides = like.shape[-1], like.strides
    if not (lead and (like.ndim < 3 or strides[-2] > strides[-3] or like.size == math.prod(like.shape[-2:]))):
        return backend.empty(np, (*lead, count, h), like.dtype)
    out = backend.empty(np, (count, *lead, h), like.dtype)
    return out.transpose(*range(1, len(lead) + 1), 0, len(lead) + 1)


def pushed_by_blocks(
    factors: Callable[[int, int], Any], stream: Array, lead: tuple[int, ...], d: int, groups: streams.Groups,
    native: Switch | None = None, operands: Callable[[int, int], list[Array]] | None = None,
) -> Array:  # fmt: skip
    """The stream behind a function whose derivatives in the rows i to j begin factors(i, j).

    native: code that computes it from operands(i, j) and the rows of the stream, in place of `factors` and the passes.
    """
    source, out = as_rows(stream, lead, 2), _empty_stream(stream, lead, d + len(groups))
    target = as_rows(out, lead, 2)

    rows, h = len(source), stream.shape[-1]
    if rows * h <= streams.FEW:
        f1, f2, *_ = factors(0, rows)
        streams.push_few(f1, f2, source, target, d, groups)
        return out

    def work(i: int, j: int) -> None:
        if native is not None and operands is not None:
            given = [*operands(i, j), *streams.planes(source[i:j])]
            if native(given, (), streams.planes(target[i:j])) is not None:
                return
        f1, f2, *_ = factors(i, j)
        streams.push_block(f1, f2, source[i:j], target[i:j], d, groups)

    block = streams.block_size(native or jets.push(jets.form_of(stream, d, groups)), stream.dtype)
    cpu_rows.Blocks(rows, h, block).run(work)
    return out
