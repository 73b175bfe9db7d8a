"""Communication hooks: how gradients are averaged over the ranks, in fewer bytes.

A hook takes a state and a GradBucket, and returns a Future of the averaged buffer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....backend.arrays import dtypes
from ....core.tensor import Tensor, wrap
from ....hooks.quantize import Coded, Quantizer
from ....ops import empty, zeros
from ... import collectives
from ...grad_bucket import GradBucket
from ...group import ProcessGroup, world
from ...reduce_op import ReduceOp
from ...work import Future, Work

Hook = Callable[[Any, GradBucket], Future]
_BLOCK = 256  # elements with a common scale


def _begun(work: Work | None) -> Work:
    assert work is not None  # async_op, in a group of which this rank is a member
    return work


def allreduce_hook(process_group: ProcessGroup | None, bucket: GradBucket) -> Future:
    """Averages the gradients, as without a hook."""
    work = collectives.all_reduce(bucket.buffer(), ReduceOp.AVG, process_group, async_op=True)
    return _begun(work).get_future().then(lambda future: future.value()[0])


def _compressed(hook: Hook, dtype: np.dtype) -> Hook:
    """`hook` on gradients in the half precision `dtype`."""

    def compressed(state: Any, bucket: GradBucket) -> Future:
        buffer = bucket.buffer()
        bucket.set_buffer(buffer.to(dtype))
        future = hook(state, bucket)
        bucket.set_buffer(buffer)
        return future.then(lambda future: buffer.copy_(future.value()))

    return compressed


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """A hook that does what `hook` does, on gradients in float16."""
    return _compressed(hook, dtypes.float16)


def bf16_compress_wrapper(hook: Hook) -> Hook:
    """A hook that does what `hook` does, on gradients in bfloat16."""
    return _compressed(hook, dtypes.bfloat16)


def fp16_compress_hook(process_group: ProcessGroup | None, bucket: GradBucket) -> Future:
    """Averages the gradients in float16: half of the bytes."""
    return _compressed(allreduce_hook, dtypes.float16)(process_group, bucket)


def bf16_compress_hook(process_group: ProcessGroup | None, bucket: GradBucket) -> Future:
    """Averages the gradients in bfloat16: half of the bytes, and the range of float32."""
    return _compressed(allreduce_hook, dtypes.bfloat16)(process_group, bucket)


class FP8State:
    """The state of `fp8_compress_hook`: what rounding has left out of the gradients so far, for each bucket.

    It is added to the next gradients, so that errors do not add up (error feedback); `reset()` forgets it.
    """

    def __init__(self, process_group: ProcessGroup | None = None, dtype: Any = dtypes.float8_e4m3fn) -> None:
        self.process_group, self.codec = process_group, Quantizer(dtypes.as_dtype(dtype), "row")
        self.sent: dict[int, Tensor] = {}
        self.gathered: dict[int, Tensor] = {}

    def reset(self) -> None:
        """Forgets what was left out."""
        self.sent.clear()
        self.gathered.clear()


def _coded(state: FP8State, left: dict[int, Tensor], index: int, values: Tensor) -> Coded:
    """Codes of values, in rows with a scale, plus what was left out before; notes what they leave out."""
    before = left.get(index)
    if before is not None and before.shape == values.shape and before.dtype == values.dtype:
        values = values + before
    coded = state.codec.pack(values.array)
    left[index] = values - wrap(state.codec.unpack(coded))
    return coded


def _decoded(coded: Coded, codes: Tensor, scale: Tensor) -> Tensor:
    return wrap(Quantizer(coded.dtype, "row").unpack(coded._replace(codes=codes.array, scale=scale.array)))


def _scales(coded: Coded) -> Tensor:
    assert coded.scale is not None  # float8 has a small range, so its codes always have one
    return wrap(coded.scale)


def fp8_compress_hook(state: FP8State, bucket: GradBucket) -> Future:
    """Averages the gradients in float8 with a scale for each 256 elements, and error feedback: a quarter of the bytes.

    Each rank averages its part of what all send in float32, and sends the result in float8.
    """
    group = state.process_group or world()
    buffer, size = bucket.buffer(), group.size()
    rows = -(-buffer.numel() // (_BLOCK * size))  # of each part
    padded = zeros(size * rows, _BLOCK, dtype=buffer.dtype, device=buffer.device)
    padded.view(-1)[: buffer.numel()].copy_(buffer)
    coded = _coded(state, state.sent, bucket.index(), padded)
    codes, scales = wrap(coded.codes), _scales(coded)
    received = empty(*codes.shape, dtype=codes.dtype, device=codes.device), scales.new_empty(scales.shape)
    works = [_begun(collectives.all_to_all_single(out, sent, group=group, async_op=True))
             for out, sent in zip(received, (codes, scales), strict=True)]  # fmt: skip

    def average(future: Future) -> Tensor:
        works[1].wait()
        mean = _decoded(coded, *received).view(size, rows, _BLOCK).mean(0)
        part = _coded(state, state.gathered, bucket.index(), mean)
        every = codes.new_empty(codes.shape), scales.new_empty(scales.shape)
        for out, mine in zip(every, (wrap(part.codes), _scales(part)), strict=True):
            collectives.all_gather_into_tensor(out, mine, group=group)
        return buffer.copy_(_decoded(coded, *every).view(-1)[: buffer.numel()])

    return works[0].get_future().then(average)
