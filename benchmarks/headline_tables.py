"""A few cases of each workload, fast ones and slow ones, with our time over that of the peers: three in README."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

from .environment import place
from .library_tables import TITLES, WIDTH, Case, ratio, table, time
from .report import OURS

DEVICES = {"cuda": "CUDA", "cpu": "CPU"}
PEERS = {"torch": ("torch", "torch.func"), "jax": ("jax",)}  # columns, and the contenders that fill them


class Row(NamedTuple):
    """A case of a workload, by its name on each device; None where it is not shown."""

    label: str
    benchmark: str
    cpu: str | None
    cuda: str | None


SHOWN = (
    Row("Hessian, 2 inputs, six Tanh layers of 512", "hessian", "Tanh, Hessian", "Tanh, Hessian, FP32"),
    Row("the same in TF32", "hessian", None, "Tanh, Hessian, TF32"),
    Row("training on that Hessian", "hessian", "Tanh, Hessian with backward", "Tanh, Hessian with backward, FP32"),
    Row("Hessian, ReLU layers", "hessian", "ReLU, Hessian", "ReLU, Hessian, FP32"),
    Row("`vmap(hessian)` of a network 4-16-16-1", "transforms", *["vmap(hessian)"] * 2),
    Row("per-sample gradients of that network", "transforms", *["per-sample gradients"] * 2),
    *[Row(f"step of an MLP 784-256-256-10, {case}", "train_mlp", case, case)
      for case in ("SGD, batch 8", "Adam, batch 128")],
    Row("gradient of a product of 2x2 tensors", "small_graph", *["grad(a*b, [a, b], g)"] * 2),
    Row("20 Tanh layers of 1024, batch 4096", "saved_memory", *["Tanh, no hooks"] * 2),
    Row("the same, saved as float8", "saved_memory", *["Tanh, float8_e4m3fn"] * 2),
    Row("the same, offloaded to the host", "saved_memory", None, "Tanh, offload"),
    Row("Adam on 100 tensors of 64x64", "optimizer_step", *["Adam, 100 of 64x64"] * 2),
    Row("`foreach.add_` on 100 tensors", "foreach", *["add_"] * 2),
    Row("Burgers' equation, written for PyTorch", "programs", *["PINN, Burgers"] * 2),
)  # fmt: skip
README = (SHOWN[0].label, SHOWN[2].label, "step of an MLP 784-256-256-10, Adam, batch 128")


def render_three(results: Sequence[dict[str, Any]]) -> str:
    """README's table."""
    return render(results, [row for row in SHOWN if row.label in README])


def measured_cases(results: Sequence[dict[str, Any]]) -> dict[tuple[str, str, str | None], Case]:
    """The cases by device, benchmark and name."""
    return {(r["device"], r["benchmark"], case["case"]): case for r in results for case in r["cases"]}


def render(results: Sequence[dict[str, Any]], shown: Sequence[Row] = SHOWN) -> str:
    """Markdown: a row for each case that was measured, columns for each device, and where that was."""
    devices = [device for device in DEVICES if any(result["device"] == device for result in results)]
    measured = measured_cases(results)
    header, rows, places = [""], [], dict.fromkeys(())
    for device in devices:
        header += [f"{DEVICES[device]}, ms", *[f"/ {TITLES[peer]}" for peer in PEERS]]
    for row in shown:
        cases = [measured.get((device, row.benchmark, getattr(row, device))) for device in devices]
        if any(cases):
            rows.append([row.label, *[cell for case in cases for cell in cells(case)]])
            places |= dict.fromkeys([
                f"{DEVICES[r['device']]}: {place(r['environment'], r['device'])}, {r['environment']['date'][:10]}"
                for r in results if r["benchmark"] == row.benchmark
            ])  # fmt: skip
    if not rows:
        return ""
    return "\n\n".join([table(header, rows), textwrap.fill(f"<sub>{'; '.join(sorted(places))}.</sub>", WIDTH)])


def cells(case: Case | None) -> list[str]:
    """Our time in ms, and its ratio to that of each peer."""
    if case is None:
        return ["-"] * (1 + len(PEERS))
    return [time({**case, "unit": "ms"}, OURS, "ms"), *[ratio(case, peer_in(case, peer)) for peer in PEERS]]


def peer_in(case: Case, peer: str) -> str:
    """The name under which a peer was measured; "" if it was not."""
    return next((name for name in PEERS[peer] if name in case["contenders"]), "")
