"""Collectives on tensors. All ranks of the group call the same one, in the same order, with equal shapes and dtypes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.tensor import Tensor
from . import reduce_op
from .group import ProcessGroup, member
from .memory import Written, apart, checked, described, flat, home, joined
from .reduce_op import ReduceOp
from .work import Work


def check_like(function: str, name: str, tensors: Any, like: Tensor, count: int) -> list[Tensor]:
    """ValueError unless `tensors` are `count` tensors with the shape and dtype of `like`."""
    if not isinstance(tensors, (list, tuple)) or len(tensors) != count:
        number = f"{len(tensors)} of them" if isinstance(tensors, (list, tuple)) else type(tensors).__name__
        raise ValueError(f"{function}: {name} must be a list of {count} tensors, one for each rank; got {number}")
    for tensor in tensors:
        checked(function, f"each of {name}", tensor)
        if tensor.shape != like.shape or tensor.dtype != like.dtype:
            raise ValueError(f"{function}: each tensor of {name} must be {described(like)}, as on all ranks; got "
                             f"{described(tensor)}")
    return list(tensors)


def ended(work: Work, async_op: bool) -> Work | None:
    """What a collective returns: the work, or None after it."""
    if async_op:
        return work
    work.wait()
    return None


# ---- reductions --------------------------------------------------------------------------------


def all_reduce(
    tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Replaces `tensor` by the reduction of the tensors of all ranks, with equal bits on all of them.

    >>> ag.distributed.init_process_group()
    >>> x = ag.ones(2)
    >>> ag.distributed.all_reduce(x, op=ag.distributed.ReduceOp.SUM)
    >>> x
    tensor([1., 1.])
    >>> ag.distributed.destroy_process_group()
    """
    checked("all_reduce", "tensor", tensor)
    reduce_op.check("all_reduce", op, tensor.dtype)
    if (within := member(group, "all_reduce")) is None:
        return None
    write = Written("all_reduce", [tensor], async_op)
    array = write.joined()
    detail = f"{described(tensor)}, {op.name}"
    work = within.begin("all_reduce", array, detail, lambda engine: engine.all_reduce(array, op), write, tensor)
    return ended(work, async_op)


def reduce(
    tensor: Tensor, dst: int | None = None, op: ReduceOp = ReduceOp.SUM, group: ProcessGroup | None = None,
    async_op: bool = False, group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """Replaces `tensor` on rank `dst` by the reduction of the tensors of all ranks; others keep theirs."""
    checked("reduce", "tensor", tensor)
    reduce_op.check("reduce", op, tensor.dtype)
    if (within := member(group, "reduce")) is None:
        return None
    target = within.group_rank("reduce", "dst", dst, group_dst)
    write: Written | None = None
    if target == within.rank():
        write = Written("reduce", [tensor], async_op)
        array = write.joined()
    else:
        with home(tensor.array):
            array = flat(tensor).copy()
    detail = f"{described(tensor)}, {op.name}, to {target}"
    work = within.begin("reduce", array, detail, lambda engine: engine.all_reduce(array, op), write, tensor)
    return ended(work, async_op)


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: ReduceOp = ReduceOp.SUM, group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:  # fmt: skip
    """Fills `output` with the part of this rank of the reduction of `input`, which has one part per rank."""
    return _reduce_scatter("reduce_scatter_tensor", output, [input], op, group, async_op)


def reduce_scatter(
    output: Tensor, input_list: list[Tensor], op: ReduceOp = ReduceOp.SUM, group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:  # fmt: skip
    """Fills `output` with the reduction of the tensors for this rank in the `input_list` of all ranks."""
    checked("reduce_scatter", "output", output)
    if (within := member(group, "reduce_scatter")) is None:
        return None
    inputs = check_like("reduce_scatter", "input_list", input_list, output, within.size())
    return _reduce_scatter("reduce_scatter", output, inputs, op, group, async_op)


def _reduce_scatter(
    function: str, output: Tensor, inputs: list[Tensor], op: ReduceOp, group: ProcessGroup | None, async_op: bool
) -> Work | None:
    for tensor in (output, *inputs):
        checked(function, "output and input", tensor)
    reduce_op.check(function, op, output.dtype)
    if (within := member(group, function)) is None:
        return None
    _check_parts(function, "input", inputs, "output", output, within.size())
    write = Written(function, [output], async_op)
    out = write.joined()
    array = apart(joined(inputs), out)
    detail = f"{described(output)}, {op.name}"
    return ended(
        within.begin(function, array, detail, lambda engine: engine.reduce_scatter(out, array, op), write, output),
        async_op,
    )


def _check_parts(function: str, whole: str, wholes: Sequence[Tensor], part: str, one: Tensor, size: int) -> None:
    """ValueError unless `wholes` have `size` times the elements of `one`, and its dtype."""
    count = sum(tensor.numel() for tensor in wholes)
    if count != size * one.numel():
        raise ValueError(f"{function}: {whole} must have {size} times the elements of {part}, one part for each rank; "
                         f"got {count} and {one.numel()}")
    if wholes[0].dtype != one.dtype:
        raise ValueError(f"{function}: {whole} and {part} must have the same dtype; got {wholes[0].dtype} and "
                         f"{one.dtype}")


# ---- copies ------------------------------------------------------------------------------------


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Fills `output_tensor` with `input_tensor` of all ranks, one after the other along the first dimension."""
    return _all_gather("all_gather_into_tensor", [output_tensor], input_tensor, group, async_op)


def all_gather(
    tensor_list: list[Tensor], tensor: Tensor, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Fills the tensors of `tensor_list` with `tensor` of each rank."""
    checked("all_gather", "tensor", tensor)
    if (within := member(group, "all_gather")) is None:
        return None
    outputs = check_like("all_gather", "tensor_list", tensor_list, tensor, within.size())
    return _all_gather("all_gather", outputs, tensor, group, async_op)


def _all_gather(
    function: str, outputs: list[Tensor], tensor: Tensor, group: ProcessGroup | None, async_op: bool
) -> Work | None:
    for one in (*outputs, tensor):
        checked(function, "output and input", one)
    if (within := member(group, function)) is None:
        return None
    _check_parts(function, "the output", outputs, "the input", tensor, within.size())
    write = Written(function, outputs, async_op)
    out = write.joined()
    array = apart(flat(tensor), out)
    result = outputs if len(outputs) > 1 else outputs[0]
    work = within.begin(
        function, array, described(tensor), lambda engine: engine.all_gather(out, array), write, result
    )
    return ended(work, async_op)


def broadcast(
    tensor: Tensor, src: int | None = None, group: ProcessGroup | None = None, async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:  # fmt: skip
    """Replaces `tensor` by that of rank `src`."""
    checked("broadcast", "tensor", tensor)
    if (within := member(group, "broadcast")) is None:
        return None
    source = within.group_rank("broadcast", "src", src, group_src)
    write = Written("broadcast", [tensor], async_op)
    array = write.joined()
    detail = f"{described(tensor)}, from {source}"
    work = within.begin("broadcast", array, detail, lambda engine: engine.broadcast(array, source), write, tensor)
    return ended(work, async_op)


def gather(
    tensor: Tensor, gather_list: list[Tensor] | None = None, dst: int | None = None, group: ProcessGroup | None = None,
    async_op: bool = False, group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """Fills the tensors of `gather_list` on rank `dst`, 0 by default, with `tensor` of each rank."""
    checked("gather", "tensor", tensor)
    if (within := member(group, "gather")) is None:
        return None
    target = within.group_rank("gather", "dst", 0 if dst is None and group_dst is None else dst, group_dst)
    array, out, write = flat(tensor), None, None
    if target == within.rank():
        write = Written("gather", check_like("gather", "gather_list", gather_list, tensor, within.size()), async_op)
        out = write.joined()
        array = apart(array, out)
    elif gather_list:
        raise ValueError("gather: gather_list must be left out on ranks other than dst")
    detail = f"{described(tensor)}, to {target}"
    work = within.begin("gather", array, detail, lambda engine: engine.gather(out, array, target), write, gather_list)
    return ended(work, async_op)


def scatter(
    tensor: Tensor, scatter_list: list[Tensor] | None = None, src: int | None = None, group: ProcessGroup | None = None,
    async_op: bool = False, group_src: int | None = None,
) -> Work | None:  # fmt: skip
    """Replaces `tensor` by that for this rank in the `scatter_list` of rank `src`, 0 by default."""
    checked("scatter", "tensor", tensor)
    if (within := member(group, "scatter")) is None:
        return None
    source = within.group_rank("scatter", "src", 0 if src is None and group_src is None else src, group_src)
    parts = None
    if source == within.rank():
        parts = joined(check_like("scatter", "scatter_list", scatter_list, tensor, within.size()))
    elif scatter_list:
        raise ValueError("scatter: scatter_list must be left out on ranks other than src")
    write = Written("scatter", [tensor], async_op)
    out = write.joined()
    parts = None if parts is None else apart(parts, out)
    detail = f"{described(tensor)}, from {source}"
    work = within.begin("scatter", out, detail, lambda engine: engine.scatter(out, parts, source), write, tensor)
    return ended(work, async_op)


def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None, group: ProcessGroup | None = None, async_op: bool = False,
) -> Work | None:  # fmt: skip
    """Sends parts of `input` along the first dimension to the ranks, and fills `output` with what they send.

    The parts have the sizes in `input_split_sizes` and `output_split_sizes`; equal ones without.
    """
    checked("all_to_all_single", "output", output)
    checked("all_to_all_single", "input", input)
    if (within := member(group, "all_to_all_single")) is None:
        return None
    received = _split("output", output, output_split_sizes, within.size())
    sent = _split("input", input, input_split_sizes, within.size())
    return _all_to_all("all_to_all_single", within, [output], [input], received, sent, async_op)


def _split(name: str, tensor: Tensor, sizes: Sequence[int] | None, count: int) -> list[int]:
    """The number of elements of the parts of `tensor`."""
    length = tensor.shape[0] if tensor.ndim else 1
    if not sizes:
        if length % count:
            raise ValueError(f"all_to_all_single: the first dimension of {name} is {length}, which is no multiple of "
                             f"the {count} ranks; give {name}_split_sizes")
        sizes = [length // count] * count
    if len(sizes) != count or sum(sizes) != length:
        raise ValueError(f"all_to_all_single: {name}_split_sizes must be {count} numbers with the sum {length}, the "
                         f"first dimension of {name}; got {list(sizes)}")
    row = tensor.numel() // length if length else 0
    return [size * row for size in sizes]


def all_to_all(
    output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:  # fmt: skip
    """Sends a tensor to each rank, and fills those of `output_tensor_list` with what each sends."""
    if (within := member(group, "all_to_all")) is None:
        return None
    for name, tensors in (("output_tensor_list", output_tensor_list), ("input_tensor_list", input_tensor_list)):
        if len(tensors) != within.size():
            raise ValueError(f"all_to_all: {name} must have {within.size()} tensors, one for each rank; got "
                             f"{len(tensors)}")
        for tensor in tensors:
            checked("all_to_all", f"each of {name}", tensor)
    received, sent = ([tensor.numel() for tensor in tensors] for tensors in (output_tensor_list, input_tensor_list))
    return _all_to_all("all_to_all", within, output_tensor_list, input_tensor_list, received, sent, async_op)


def _all_to_all(
    function: str, within: ProcessGroup, outputs: list[Tensor], inputs: list[Tensor], received: list[int],
    sent: list[int], async_op: bool,
) -> Work | None:  # fmt: skip
    if len({tensor.dtype for tensor in (*outputs, *inputs)}) > 1:
        raise ValueError(f"{function}: all tensors must have the same dtype")
    write = Written(function, outputs, async_op)
    out = write.joined()
    array = apart(joined(inputs), out)
    return ended(
        within.begin(
            function, array, str(outputs[0].dtype), lambda engine: engine.all_to_all(out, array, received, sent), write,
            outputs,
        ),
        async_op,
    )  # fmt: skip


def barrier(
    group: ProcessGroup | None = None, async_op: bool = False, device_ids: Any = None, timeout: Any = None
) -> Work | None:
    """Waits until all ranks of the group have called it; `device_ids` has no effect."""
    if (within := member(group, "barrier")) is None:
        return None
    work = within.begin("barrier", None, "", lambda engine: engine.barrier())
    if async_op:
        return work
    work.wait(timeout)
    return None


def monitored_barrier(group: ProcessGroup | None = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """A barrier whose error names all ranks that have not come to it within `timeout`."""
    if (within := member(group, "monitored_barrier")) is not None:
        within.begin("monitored_barrier", None, "", lambda engine: engine.barrier()).wait(timeout)


