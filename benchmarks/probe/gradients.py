"""Arrays of gradients: who else holds them, where they lie, and what a step of an optimizer costs the host."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import autograd_gpu as ag
from autograd_gpu import nn, optim
from autograd_gpu.backend.kernels import tables
from autograd_gpu.core.engine import grad_buffers

from .table import Found, Lab, check
from .timing import host_us

STEPS = 10
PARAMETERS, SIDE = 100, 64


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


@check("addresses of gradients", 19)
def addresses(lab: Lab) -> Found:
    """Ten steps of a training loop: where the gradients lie, and how often the table of addresses was there already."""
    by_name = {}
    for name in ("SGD", "Adam"):
        with ag.cuda.device(0):
            net = nn.Sequential(nn.Linear(SIDE, SIDE), nn.ReLU(), nn.Linear(SIDE, SIDE), nn.Tanh(), nn.Linear(SIDE, 1))
            net.to("cuda")
        update = getattr(optim, name)(net.parameters(), lr=1e-3)
        x, sets = ag.tensor(lab.normal(32, SIDE)), []
        before = tables._table.cache_info()
        for _ in range(STEPS):
            update.zero_grad(set_to_none=True)
            (net(x) ** 2).mean().backward()
            sets.append(tuple(p.grad.array.data.ptr for p in net.parameters()))
            update.step()
        after = tables._table.cache_info()
        order = list(dict.fromkeys(sets))
        by_name[name] = {
            "sets of addresses": len(order), "step by step": [order.index(pointers) for pointers in sets],
            "tables found": after.hits - before.hits, "tables made": after.misses - before.misses,
        }  # fmt: skip
    enough = all(pointers["tables found"] >= STEPS // 2 for pointers in by_name.values())
    return {"ok": enough or lab.emulated, **by_name}


@check("host time of an optimizer step", 19, 3, seconds=10.0)
def step_time(lab: Lab) -> Found:
    """Microseconds of a step of Adam over a hundred parameters, with its table of addresses there, and without."""
    parameters = [ag.tensor(lab.normal(SIDE, SIDE), requires_grad=True) for _ in range(lab.size(PARAMETERS, 4))]
    for parameter in parameters:
        parameter.grad = ag.tensor(lab.normal(SIDE, SIDE))
    update = optim.Adam(parameters, lr=1e-4)
    before = tables._table.cache_info()
    there = host_us(lab, update.step)
    between = tables._table.cache_info()

    def anew() -> None:
        tables._table.cache_clear()
        update.step()

    missing = host_us(lab, anew)
    hits = between.hits - before.hits
    return {"ok": hits > 0, "us": {"table there": there, "table made": missing}, "hits": hits}
