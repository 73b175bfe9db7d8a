"""Differentiable collectives: they return results, of which gradients of every order can be computed.

The gradient of a collective is a collective, too: all ranks of the group have to compute it, in the same order. If a
rank does not use the result of one in its loss, the others wait for it. What is differentiated is the sum over the
ranks of what each of them calls backward for.

The functions take part in `jvp`, `vmap` and the Hessians of `ag.func`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...core.tensor import Tensor
from ...ops import amax, amin, cat, prod, stack
from .. import exchanges, reduce_op
from ..group import ProcessGroup, member
from ..reduce_op import ReduceOp

_REDUCTIONS: dict[ReduceOp, Callable[..., Tensor]] = {ReduceOp.PRODUCT: prod, ReduceOp.MAX: amax, ReduceOp.MIN: amin}


def _member(group: Any, function: str) -> ProcessGroup:
    within = member(group, function)
    if within is None:
        raise ValueError(f"{function}: this rank is not in the group, so there is no result to return")
    return within


def _check_op(function: str, op: ReduceOp, tensor: Tensor) -> None:
    """TypeError unless `op` has a derivative."""
    reduce_op.check(function, op, tensor.dtype)
    if op not in (ReduceOp.SUM, ReduceOp.AVG, *_REDUCTIONS):
        raise TypeError(f"{function}: ReduceOp.{op.name} has no derivative; use distributed.{function}")


def _scaled(x: Tensor, op: ReduceOp, within: ProcessGroup) -> Tensor:
    return x / within.size() if op is ReduceOp.AVG else x


def all_reduce(tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: ProcessGroup | None = None) -> Tensor:
    """The reduction of the tensors of all ranks. MAX, MIN and PRODUCT gather them all.

    >>> ag.distributed.init_process_group()
    >>> x = ag.ones(2, requires_grad=True)
    >>> ag.autograd.grad(ag.distributed.nn.functional.all_reduce(x * x).sum(), x)
    (tensor([2., 2.]),)
    >>> ag.distributed.destroy_process_group()
    """
    within = _member(group, "all_reduce")
    _check_op("all_reduce", op, tensor)
    if op in _REDUCTIONS:
        return _REDUCTIONS[op](exchanges.Gather(within).apply(tensor), 0)
    return _scaled(exchanges.Sum(within).apply(tensor), op, within)


def reduce(tensor: Tensor, dst: int, op: ReduceOp = ReduceOp.SUM, group: ProcessGroup | None = None) -> Tensor:
    """The reduction of the tensors of all ranks on rank `dst`, zeros on others."""
    within = _member(group, "reduce")
    _check_op("reduce", op, tensor)
    root = within.group_rank("reduce", "dst", dst, None)
    if op in _REDUCTIONS:
        return _REDUCTIONS[op](exchanges.GatherAt(within, root).apply(tensor), 0)
    return _scaled(exchanges.SumAt(within, root).apply(tensor), op, within)


def _sum_of_parts(parts: Tensor, op: ReduceOp, within: ProcessGroup) -> Tensor:
    if op in _REDUCTIONS:
        ones = [1] * within.size()
        return _REDUCTIONS[op](exchanges.Transpose(within, ones, ones).apply(parts), 0)
    return _scaled(exchanges.SumOfParts(within).apply(parts), op, within)


def reduce_scatter(
    output: Tensor, input_list: Sequence[Tensor], op: ReduceOp = ReduceOp.SUM, group: ProcessGroup | None = None
) -> Tensor:
    """The reduction of the tensors for this rank in the `input_list` of all ranks; `output` is not written to."""
    within = _member(group, "reduce_scatter")
    _check_op("reduce_scatter", op, input_list[0])
    return _sum_of_parts(stack(list(input_list)), op, within)


def reduce_scatter_tensor(tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: ProcessGroup | None = None) -> Tensor:
    """The part of this rank of the reduction of `tensor`, whose first dimension has one part per rank."""
    within = _member(group, "reduce_scatter_tensor")
    _check_op("reduce_scatter_tensor", op, tensor)
    if tensor.ndim == 0 or tensor.shape[0] % within.size():
        raise ValueError(f"reduce_scatter_tensor: the first dimension must be a multiple of the {within.size()} ranks; "
                         f"got the shape {list(tensor.shape)}")
    return _sum_of_parts(tensor.reshape(within.size(), -1, *tensor.shape[1:]), op, within)


def all_gather(tensor: Tensor, group: ProcessGroup | None = None) -> tuple[Tensor, ...]:
    """The tensors of all ranks."""
    return exchanges.Gather(_member(group, "all_gather")).apply(tensor).unbind(0)


def all_gather_into_tensor(tensor: Tensor, group: ProcessGroup | None = None) -> Tensor:
    """The tensors of all ranks, one after the other along the first dimension."""
    gathered = exchanges.Gather(_member(group, "all_gather_into_tensor")).apply(tensor)
    return gathered.flatten(0, 1) if tensor.ndim else gathered


def broadcast(tensor: Tensor, src: int, group: ProcessGroup | None = None) -> Tensor:
    """The tensor of rank `src`."""
    within = _member(group, "broadcast")
    return exchanges.Broadcast(within, within.group_rank("broadcast", "src", src, None)).apply(tensor)


def gather(tensor: Tensor, dst: int = 0, group: ProcessGroup | None = None) -> tuple[Tensor, ...]:
    """The tensors of all ranks on rank `dst`, zeros on others."""
    within = _member(group, "gather")
    return exchanges.GatherAt(within, within.group_rank("gather", "dst", dst, None)).apply(tensor).unbind(0)


def scatter(tensors: Sequence[Tensor], src: int = 0, group: ProcessGroup | None = None) -> Tensor:
    """The tensor for this rank of those of rank `src`; on others `tensors` say the shape only."""
    within = _member(group, "scatter")
    if len(tensors) != within.size():
        raise ValueError(f"scatter: expected {within.size()} tensors, one for each rank; got {len(tensors)}")
    root = within.group_rank("scatter", "src", src, None)
    return exchanges.ScatterFrom(within, root).apply(stack(list(tensors)))


def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None, group: ProcessGroup | None = None,
) -> Tensor:  # fmt: skip
    """What the ranks send to this one, of their parts of `input`, along the first dimension.

    `output` says how many rows there are, and is not written to; see `distributed.all_to_all_single`.
    """
    within = _member(group, "all_to_all_single")
    even = [output.shape[0] // within.size()] * within.size(), [input.shape[0] // within.size()] * within.size()
    received, sent = output_split_sizes or even[0], input_split_sizes or even[1]
    return exchanges.Transpose(within, tuple(received), tuple(sent)).apply(input)


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: ProcessGroup | None = None
) -> tuple[Tensor, ...]:
    """The tensors that the ranks send to this one; those of `output_tensor_list` say their shapes only."""
    within = _member(group, "all_to_all")
    received, sent = ([tensor.numel() for tensor in tensors] for tensors in (output_tensor_list, input_tensor_list))
    flat = cat([tensor.reshape(-1) for tensor in input_tensor_list])
    parts = exchanges.Transpose(within, tuple(received), tuple(sent)).apply(flat).split(received)
    return tuple(part.reshape(like.shape) for part, like in zip(parts, output_tensor_list, strict=True))
