"""Jacobians in one run: all rows at once by a batch of cotangents, or all columns by a batch of tangents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import backend
from ..core.declare.op import RECORD
from ..core.interpret.batched import Batching, batched
from ..core.interpret.duals import Forward, attach, tangent_of
from ..core.interpret.interpreters import below, entered
from ..core.tensor import Tensor, wrap
from ..modes import enable_grad
from .backward import grad

Jacobian = list[tuple[Tensor, ...]]  # indexed by output and by input


def by_rows(outputs: Sequence[Tensor], inputs: Sequence[Tensor], create_graph: bool) -> Jacobian:
    """The Jacobian by reverse mode: one backward, with a cotangent for each element of the outputs."""
    kept = [out for out in outputs if out.requires_grad]
    grads: Sequence[Tensor | None] = [None] * len(inputs)
    if sum(out.numel() for out in kept):
        grads = grad(kept, inputs, basis(kept), True, create_graph, allow_unused=True, is_grads_batched=True)
    sizes = [out.numel() for out in kept]
    parts = [None if g is None else iter(g.split(sizes, 0)) for g in grads]
    rows = []
    for out in outputs:
        shapes = [out.shape + x.shape for x in inputs]
        rows.append(tuple([
            x.new_zeros(shape) if part is None or not out.requires_grad else next(part).reshape(shape)
            for x, part, shape in zip(inputs, parts, shapes, strict=True)
        ]))
    return rows


def by_columns(outputs_at: Callable[..., Sequence[Tensor]], inputs: Sequence[Tensor]) -> Jacobian:
    """The Jacobian by forward mode: one run of the function, with a tangent for each element of the inputs."""
    sizes = [x.numel() for x in inputs]
    if not sum(sizes):
        return [tuple([out.new_zeros(out.shape + x.shape) for x in inputs]) for out in outputs_at(*inputs)]
    directions = basis(inputs)
    with entered(Batching(sum(sizes))) as examples, entered(Forward()) as level:
        with below(level):
            duals = [RECORD.basic_index(x, ...) for x in inputs]
        for dual, direction in zip(duals, directions, strict=True):
            attach(dual, level, batched(examples, direction))
        with enable_grad():  # the function may run a backward
            outputs = outputs_at(*duals)
        moved = [tangent_of(out, level) for out in outputs]
        with below(examples):
            tangents = [None if t is None else examples.whole(t).detach() for t in moved]
    rows = []
    for t, out in zip(tangents, outputs, strict=True):
        columns = [None] * len(inputs) if t is None else t.split(sizes, 0)
        rows.append(tuple([
            wrap(backend.make(out.device, "zeros", out.shape + x.shape, out.dtype)) if column is None
            else column.permute((*range(1, column.ndim), 0)).reshape(out.shape + x.shape)
            for column, x in zip(columns, inputs, strict=True)
        ]))
    return rows


def basis(like: Sequence[Any]) -> list[Tensor]:
    """For tensors of n elements in all, tensors with a leading dimension of size n: row k is 1 at element k of all.

    Of `like` it needs shape, dtype, device and numel().
    """
    total, start, tensors = sum(x.numel() for x in like), 0, []
    for x in like:
        rows = np.zeros((total, x.numel()), x.dtype)
        rows[range(start, start + x.numel()), range(x.numel())] = 1
        start += x.numel()
        tensors.append(wrap(backend.to_device(rows.reshape(total, *x.shape), x.device)))
    return tensors
