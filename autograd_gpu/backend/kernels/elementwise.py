"""Formulas of elements: one launch computes the outputs of a functor from up to three arrays."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from ..cuda import runtime
from ..formulas.cuda_code import Functor
from .functors import Applied, Declared, declare_unit, functor_parameter, members
from .instances import C_NAMES, SIZE, Parameter
from .launcher import Array, aligned, c_name, check_array, launch
from .tiles import VECTOR, Launch, tiles

FILE = "elementwise.cu"
READ, WRITTEN = ("x", "second", "third"), ("out", "other")


class Plan(NamedTuple):
    """The arguments of `launch` without the arrays."""

    instance: str
    shape: Launch
    members: np.ndarray


def declare_elementwise(f: Applied, dtype: np.dtype, width: int) -> str:
    """The instance of f, which is declared when it is first asked for; `width` elements are moved at once."""
    functors, types = f.together or (f.functor,), f"{C_NAMES[dtype]}, {width}"
    instances = [Declared(g, f"elementwise<{g.name}, {types}>", "elementwise", _parameters(g, dtype)) for g in functors]
    declare_unit(FILE, f"{functors[0].name}, {types}", instances)
    return f"elementwise<{f.functor.name}, {types}>"


def _parameters(functor: Functor, dtype: np.dtype) -> tuple[Parameter, ...]:
    if functor.inputs > len(READ) or functor.outputs > len(WRITTEN):
        raise ValueError(f"{FILE} has no kernel for {functor.name}, which has {functor.inputs} inputs and "
                         f"{functor.outputs} outputs, but for up to {len(READ)} and {len(WRITTEN)}")
    reads = [Parameter(name, "read", dtype, optional=k >= functor.inputs) for k, name in enumerate(READ)]
    writes = [Parameter(name, "write", dtype, optional=k >= functor.outputs) for k, name in enumerate(WRITTEN)]
    return (*reads, *writes, functor_parameter(functor, dtype), *SIZE)


@functools.lru_cache(4096)
def _plan(f: Applied, dtype: np.dtype, size: int, aligned: bool) -> Plan:
    c_name(f.label, dtype)
    width = VECTOR // dtype.itemsize
    width = width if aligned and size % width == 0 else 1
    instance = declare_elementwise(f, dtype, width)
    return Plan(instance, tiles(1, size, width, dtype.itemsize), members(f, dtype))


def elementwise(f: Applied, *arrays: Array, outs: tuple[Array, ...] = ()) -> tuple[Array, ...]:
    """The outputs of f for arrays of one shape and dtype; `outs` may be among them. Half types are rounded once."""
    x, label, functor = arrays[0], f.label, f.functor
    if len(arrays) != functor.inputs:
        raise ValueError(f"{label} takes {functor.inputs} arrays, not {len(arrays)}")
    for array in (*arrays, *outs):
        check_array(label, "an array", array, x.shape)
    empty = runtime.cupy().empty
    results = outs or tuple([empty(x.shape, x.dtype) for _ in range(functor.outputs)])
    plan = _plan(f, x.dtype, x.size, aligned(*arrays, *results))
    read, written = (*arrays, None, None)[: len(READ)], (*results, None)[: len(WRITTEN)]
    launch(plan.instance, plan.shape, *read, *written, plan.members, 1, x.size, label=label)
    return results
