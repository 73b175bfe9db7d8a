"""Copies between host and device beside products, and what page-locked memory costs."""

from __future__ import annotations

import time
from contextlib import nullcontext
from functools import partial
from typing import Any

import autograd_gpu as ag
from autograd_gpu import hooks, nn
from autograd_gpu.backend.cuda import cublas

from .table import Found, Lab, check
from .timing import wall_ms

MIB = 1 << 20
TOGETHER = 1.25  # of the longest part: what work that overlaps may take
BOTH = 0.9  # of the copies one after the other: both at once share the link, but have more of it than one
STEP = 1.15  # of the step or of the bus, whichever is slower: what a step with the hook may take


class Parts:
    """A copy to the host, a copy from it, and products, each on a stream of its own."""

    def __init__(self, lab: Lab) -> None:
        cp = self.cp = lab.cp
        self.nbytes = lab.size(256 * MIB, 64 * 1024)
        self.streams = {name: cp.cuda.Stream(non_blocking=True) for name in ("out", "back", "products")}
        self.pinned = {name: cp.cuda.PinnedMemory(self.nbytes) for name in ("out", "back")}
        self.arrays = {name: cp.zeros(self.nbytes, "uint8") for name in ("out", "back")}
        self.a, self.b, self.c = (lab.normal(lab.size(4096, 16), lab.size(4096, 16)) for _ in range(3))
        self.count = lab.size(3, 1)
        lab.wait()

    def do(self, *names: str) -> None:
        for name in names:
            getattr(self, name)()

    def out(self) -> None:
        self.arrays["out"].data.copy_to_host_async(self.pinned["out"].ptr, self.nbytes, self.streams["out"])

    def back(self) -> None:
        self.arrays["back"].data.copy_from_host_async(self.pinned["back"].ptr, self.nbytes, self.streams["back"])

    def products(self) -> None:
        with self.streams["products"]:
            for _ in range(self.count):
                cublas.gemm(self.a, self.b, self.c)


@check("copies overlap", 6, 15, seconds=10.0)
def overlap(lab: Lab) -> Found:
    """Milliseconds of pinned copies and products apart and together.

    Copies out and back share the link to the host, so together they may take longer than one of them.
    """
    parts = Parts(lab)
    apart = {name: wall_ms(lab, lambda name=name: parts.do(name)) for name in ("out", "back", "products")}
    together = {}
    both = wall_ms(lab, lambda: parts.do("out", "back"))
    for names in (("out", "products"), ("back", "products"), ("out", "back", "products")):
        taken = wall_ms(lab, lambda names=names: parts.do(*names))
        longest = max(apart["products"], both if len(names) == 3 else apart[names[0]])
        together[" and ".join(names)] = {"ms": taken, "of the longest": round(taken / longest, 3)}
    good = all(entry["of the longest"] <= TOGETHER for entry in together.values())
    share = round(both / (apart["out"] + apart["back"]), 3)
    together["out and back"] = {"ms": both, "of one after the other": share}
    good = good and share <= BOTH
    speed = {name: round(parts.nbytes / apart[name] / 1e6, 2) for name in ("out", "back")}
    speed["both at once"] = round(2 * parts.nbytes / both / 1e6, 2)
    return {"ok": lab.judge(good), "bytes": parts.nbytes, "apart_ms": apart, "together": together, "GB/s": speed}


@check("prefetch of offloaded tensors", 6, seconds=20.0)
def prefetch(lab: Lab) -> Found:
    """Milliseconds of a training step of eight layers without hooks, and offloading with each `prefetch`.

    At width 1024 a layer takes less time than the copy of its activation, so the bus bounds the step; at 4096 it does
    not. "of the bound" compares with max(forward, bytes out) + max(backward, bytes back), at the speed of such copies.
    """
    per_byte = _ms_per_byte(lab)
    by_width = {f"width {width}": _offloaded(lab, width, per_byte) for width in lab.size((1024, 4096), (16,))}
    return {"ok": lab.judge(all(one["of the bound"][2] <= STEP for one in by_width.values())), **by_width}


def _ms_per_byte(lab: Lab) -> list[float]:
    """Of page-locked copies out and back."""
    parts = Parts(lab)
    return [wall_ms(lab, copy) / parts.nbytes for copy in (parts.out, parts.back)]


def _offloaded(lab: Lab, width: int, per_byte: list[float]) -> Found:
    net = nn.Sequential(*[layer for _ in range(8) for layer in (nn.Linear(width, width), nn.Tanh())]).to("cuda")
    x = ag.tensor(lab.normal(lab.size(4096, 16), width))

    def forward(context: Any) -> ag.Tensor:
        net.zero_grad(set_to_none=True)
        with context:
            return (net(x) ** 2).mean()

    slab = lab.size(1024 * MIB, MIB)
    hook = hooks.offload(2, min_bytes=256, slab_bytes=slab)
    held = forward(hook)
    nbytes = hook.bytes_on_host
    held.backward()
    there = wall_ms(lab, lambda: forward(nullcontext()))
    without = wall_ms(lab, lambda: forward(nullcontext()).backward())
    bound = max(there, nbytes * per_byte[0]) + max(without - there, nbytes * per_byte[1])

    def step(ahead: int) -> None:
        forward(hooks.offload(ahead, min_bytes=256, slab_bytes=slab)).backward()

    taken = {ahead: wall_ms(lab, partial(step, ahead)) for ahead in (1, 2, 4, 8)}
    return {
        "bytes": nbytes, "ms": {"no hooks": without, "forward": there, "bound": round(bound, 4), **taken},
        "of a step without": {ahead: round(ms / without, 3) for ahead, ms in taken.items()},
        "of the bound": {ahead: round(ms / bound, 3) for ahead, ms in taken.items()},
    }  # fmt: skip


@check("page-locked memory", 6, 15, seconds=10.0)
def host_memory(lab: Lab) -> Found:
    """cudaHostAlloc of 256 MiB, and the pageable copies that are made where there is none."""
    nbytes = lab.size(256 * MIB, MIB)
    begin = time.perf_counter()
    pinned: Any = lab.cp.cuda.PinnedMemory(nbytes)
    made = time.perf_counter()
    del pinned
    freed = time.perf_counter()
    array = lab.cp.zeros(lab.size(64 * MIB, 4096), "uint8")
    host = array.get()
    out, back = wall_ms(lab, array.get), wall_ms(lab, lambda: array.set(host))
    milliseconds = {"cudaHostAlloc": round((made - begin) * 1e3, 3), "cudaFreeHost": round((freed - made) * 1e3, 3)}
    speed = {"out": round(array.nbytes / out / 1e6, 2), "back": round(array.nbytes / back / 1e6, 2)}
    return {"ok": True, "bytes": nbytes, "ms": milliseconds, "pageable GB/s": speed}
