"""Arrays of gradients: who else holds them, and what a step of an optimizer costs the host."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import numpy as np

import autograd_gpu as ag
from autograd_gpu import optim
from autograd_gpu.backend import kernels
from autograd_gpu.backend.optimizers.formulas import sgd
from autograd_gpu.core.engine import grad_buffers

from .table import Found, Lab, check
from .timing import host_us

PARAMETERS, SIDE = 100, 64
NUMBERS = {"sign": 1.0, "decay": 0.0, "lr": 1e-4, "momentum": 0.0, "kept": 0.0, "damped": 1.0, "nesterov": 0.0}


@check("reference counts of gradients", 10)
def references(lab: Lab) -> Found:
    """Whether `own` sees as many references to a CuPy array as to NumPy's, takes it over, and copies where it must."""
    counts = {"numpy": _references(np.empty), "cupy": _references(lab.cp.empty)}
    g = lab.normal(8)
    held, address = {0: g}, g.data.ptr
    copied = _own(held).data.ptr != address  # `g` holds it, too
    held, g = {0: g}, None
    taken = _own(held).data.ptr == address
    x = ag.tensor(lab.normal(SIDE, SIDE), requires_grad=True)
    seen: list[int] = []
    handle = x.register_hook(lambda grad: seen.append(grad.array.data.ptr))
    (x * 2.0).sum().backward()
    handle.remove()
    return {
        "ok": counts["cupy"] == counts["numpy"] == grad_buffers.FRESH and taken and copied,
        "expected": grad_buffers.FRESH,
        "references": counts, "taken over": taken, "copied if held": copied,
        "a hooked gradient keeps its memory": x.grad.array.data.ptr == seen[0],
    }  # fmt: skip


def _references(empty: Any) -> int:
    """References to an array that only its caller holds, as arrays._calibrate counts them."""

    def fire(buffers: dict[int, Any]) -> int:
        g = buffers.pop(0)
        return count(g, g.dtype)

    def count(g: Any, dtype: Any) -> int:
        return sys.getrefcount(g)

    return fire({0: empty(1)})


def _own(buffers: dict[int, Any]) -> Any:
    """As the engine gives a leaf its gradient."""
    g = buffers.pop(0)
    return grad_buffers.own(g, g.dtype, None)


@check("host time of an optimizer step", 19, 3, seconds=10.0)
def step_time(lab: Lab) -> Found:
    """Microseconds of a step over a hundred parameters, and of its launch by itself."""
    parameters = [ag.tensor(lab.normal(SIDE, SIDE), requires_grad=True) for _ in range(lab.size(PARAMETERS, 4))]
    for parameter in parameters:
        parameter.grad = ag.tensor(lab.normal(SIDE, SIDE))
    steps = {name: getattr(optim, name)(parameters, lr=1e-4).step for name in ("SGD", "Adam")}
    lists = kernels.tensor_lists([[p.array for p in parameters]], [[p.grad.array for p in parameters]])
    calls = steps | {"sgd_step": partial(kernels.over, kernels.update_of(sgd.on("p", "g").general), lists, NUMBERS)}
    return {"ok": True, "us": {name: host_us(lab, call) for name, call in calls.items()}}
