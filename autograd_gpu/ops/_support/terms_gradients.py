"""The gradients of `layer_terms` behind its product: of ops, and of one program by blocks of rows on the CPU."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...backend.cpu import pool, streams
from ...backend.cpu import rows as cpu_rows
from ...backend.formulas.native.eager_layers import stacked
from ...core.extend import added
from ..jet_factors import factors
from ..jets import argument, derivatives, local_back, local_back_by_blocks, third
from .layer_code import Code, terms_back_code
from .stream_rows import rows_first, rows_last

Array = Any


def _slopes(F, s, activation, parameters, count):
    """act' and act'', and for count = 4 their derivatives by s."""
    f1, f2, slope = derivatives(F, s, activation, parameters)
    return (f1, f2) if count == 2 else (f1, f2, slope, third(F, s, f1, slope, activation, parameters))


def pulled(F, g, needed, saved, tangents, bias, arrived, activation, parameters, local=local_back, slopes=_slopes):
    """The gradients for adjoints, saved values and tangents; `local` is the function of jets.py for local terms."""
    g_left, g_terms = g
    f1, f2, *bends = slopes(F, argument(saved, bias), activation, parameters, 4 if needed[1] else 2)
    a, ds, dt = F.expand(arrived, (arrived.shape[0], *saved.shape)), None, None
    da = None if g_left is None else g_left * f1
    if needed[1] and g_left is not None:
        ds = F.sum(g_left * a, 0) * bends[0]
    if g_terms is not None:
        of_a, of_f2, dt = local(F, g_terms, needed, rows_last(F, a), f2, rows_last(F, tangents))
        da = added(da, None if of_a is None else rows_first(F, of_a))
        dt = None if dt is None else rows_first(F, dt)
        ds = ds if of_f2 is None else added(ds, of_f2 * bends[1])
    return da, ds, dt


def pulled_on_arrays(F, g, needed, saved, tangents, bias, arrived, activation, parameters):
    """The same by one program, if it has few operands."""
    o, d, code = len(arrived), len(tangents), None
    if g[1] is not None:
        code = terms_back_code(activation, parameters, saved.dtype, o, d, g[0] is not None, needed)
    if code is not None:
        return _by_blocks(code, g, needed, saved, tangents, bias, arrived)
    return pulled(F, g, needed, saved, tangents, bias, arrived, activation, parameters, local_back_by_blocks,
                   lambda F, *how: factors(*how))  # fmt: skip


def _by_blocks(
    code: Code, g: tuple[Array | None, Array], needed: Sequence[bool], saved: Array, tangents: Array,
    bias: Array | None, arrived: Array,
) -> list[Array | None]:  # fmt: skip
    """What the code of `terms_back_code` computes: for the adjoints (o, ..., h), `saved` (..., h) and (d, ..., h).

    None where a gradient is not needed. Adjoints and tangents may be the same in all rows.
    """
    g_left, g_terms = g
    o, d, h, lead = len(arrived), len(tangents), saved.shape[-1], saved.shape[:-1]
    height = math.prod(lead)
    shapes = (o, *lead, h), (1, *lead, h), (d, *lead, h)
    made = [pool.empty(shape, saved.dtype) if need else None for shape, need in zip(shapes, needed, strict=True)]
    planes = [plane.reshape(height, h) for stack in made if stack is not None for plane in stack]
    stacks = [stacked(x, height) for x in (arrived, tangents, g_left) if x is not None]
    both = (g_terms + g_terms.swapaxes(-1, -2)).reshape(height, o, d, d)
    columns = [both[:, k, i, j, None] for k in range(o) for i in range(d) for j in range(i, d)]
    at, (run, numbers) = saved.reshape(height, h), code

    def work(i: int, j: int) -> None:
        planes_in = [plane for stack in stacks for plane in stack[:, i:j]]
        inputs = [argument(at[i:j], bias), *[column[i:j] for column in columns], *planes_in]
        run(inputs, numbers, [plane[i:j] for plane in planes])

    cpu_rows.Blocks(height, h, streams.block_size(run.native, saved.dtype)).run(work)
    da, ds, dt = made
    return [da, None if ds is None else ds[0], dt]
