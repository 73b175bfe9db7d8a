"""README's table: a few cases of each workload on each device, fast ones and slow ones, with our time over that of the
peers."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from .environment import place
from .library_tables import TITLES, WIDTH, ratio, table, time
from .report import OURS

PEERS = ("torch", "torch.func", "jax")
# A workload, what its cases measure, and those shown: the names on a CPU, and on CUDA where they differ.
SHOWN: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("hessian", "second derivatives of six layers of 512", (
        "Tanh, Hessian", "Tanh, Hessian, FP32", "Tanh, Hessian, TF32",
        "Tanh, Hessian with backward", "Tanh, Hessian with backward, FP32",
        "ReLU, Hessian", "ReLU, Hessian, FP32", "ReLU, Hessian with backward", "ReLU, Hessian with backward, FP32",
    )),
    ("transforms", "transforms of a network 4-16-16-1", ("hvp", "per-sample gradients", "vmap(hessian)")),
    ("train_mlp", "training step of an MLP 784-256-256-10", ("SGD, batch 8", "Adam, batch 8", "Adam, batch 128")),
    ("small_graph", "2x2 tensors", ("a*b", "grad(a*b, [a, b], g)", "20 mixed operators, forward and grad")),
    ("saved_memory", "step of 20 Tanh layers of 1024, batch 4096", (
        "Tanh, no hooks", "Tanh, float16", "Tanh, float8_e4m3fn", "Tanh, save_on_cpu", "Tanh, offload",
    )),
    ("optimizer_step", "optimizer step", ("Adam, 100 of 64x64", "SGD, 100 of 64x64")),
    ("foreach", "operation on 100 tensors", ("add_", "lerp, forward and backward")),
    ("unrolled", "unrolled loop, 100 steps", ("steps 1901 to 2000, collector on",)),
    ("programs", "program written for PyTorch", ("SIREN, image and gradient", "PINN, Burgers")),
)  # fmt: skip


def render(results: Sequence[dict[str, Any]]) -> str:
    """Markdown: a table for each device, CUDA first, and where it was measured."""
    devices = sorted({result["device"] for result in results}, reverse=True)
    parts = [of_device([result for result in results if result["device"] == device]) for device in devices]
    return "\n\n".join(filter(None, parts))


def of_device(results: Sequence[dict[str, Any]]) -> str:
    """The table of one device, a line above the cases of each workload; empty if none of them was measured."""
    by_name = {result["benchmark"]: result for result in results}
    groups = {
        subject: [case for case in by_name[name]["cases"] if case["case"] in cases]
        for name, subject, cases in SHOWN
        if name in by_name
    }
    shown = [case for cases in groups.values() for case in cases]
    if not shown:
        return ""
    peers = [peer for peer in PEERS if any(peer in case["contenders"] for case in shown)]
    rows = []
    for subject, cases in [(subject, cases) for subject, cases in groups.items() if cases]:
        rows.append([f"**{subject}**", *[""] * (1 + len(peers))])
        rows += [[case["case"], time(case, OURS, None), *[ratio(case, peer) for peer in peers]] for case in cases]
    device = results[0]["device"]
    environments = [by_name[name]["environment"] for name, _, _ in SHOWN if name in by_name]
    places = dict.fromkeys([f"{place(facts, device)}, {facts['date'][:10]}" for facts in environments])
    header = ["", "autograd_gpu", *[f"/ {TITLES[peer]}" for peer in peers]]
    return "\n\n".join([table(header, rows), textwrap.fill(f"<sub>{'; '.join(places)}.</sub>", WIDTH)])
