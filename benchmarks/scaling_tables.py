"""Tables of the workload `scaling`: the constants of a model, what it says of the measured steps, and of many GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .library_tables import by_library, table
from .report import OURS, three_digits
from .scaling_model import NETWORK, NVLINK, Link, all_gather, all_reduce, fitted, ring

GPUS = (1, 8, 64, 1024)
MLP_BYTES, HESSIAN_BYTES = 4 * (784 * 256 + 256 + 256 * 256 + 256 + 2570), 4 * (1536 + 5 * (512 * 512 + 512) + 1539)
ROWS, OUTPUTS, SECONDS = 1_000_000, 3, 4  # of a Hessian over GPUs: second derivatives per output
GPU_LINKS = (
    ("NVLink of an H100 or H200", NVLINK, "vendor's rate, assumed latency"),
    ("InfiniBand NDR, an adapter per GPU", NETWORK, "vendor's rate, assumed latency"),
)
Result = dict[str, Any]


def whole(result: Result) -> str:
    """For the page on scaling: what was measured, and the model beside it, if it could be fitted."""
    link = link_of(result)
    return "\n\n".join([by_library(result), *([] if link is None else [constants(link), steps(result, link)])])


def link_of(result: Result) -> Link | None:
    """The link between two ranks on this machine; None if too few reductions were measured."""
    reductions = [case["contenders"][OURS] for case in result["cases"] if case["case"].startswith("all-reduce")]
    times = {ours["counts"]["bytes sent"]: ours["median_s"] for ours in reductions}
    return fitted(times) if len(times) > 1 else None


def constants(link: Link) -> str:
    """The constants of this machine."""
    return links([("two ranks here, fitted to the all-reduces above", link, "measured")])


def links(rows: Sequence[tuple[str, Link, str]]) -> str:
    """A table of links, and where their constants are from."""
    return table(["constants", "latency, us", "GB/s", "source"],
                 [[name, three_digits(one.latency * 1e6), three_digits(one.rate / 1e9), source]
                  for name, one, source in rows])  # fmt: skip


def steps(result: Result, link: Link) -> str:
    """For the steps of two ranks: what the model says, without any overlap, beside what was measured."""
    rows = []
    for case in result["cases"]:
        ours = case["contenders"][OURS]
        if "step alone" in ours["counts"] and case["case"].endswith("2 ranks"):
            alone = ours["counts"]["step alone"]
            predicted = alone + ring(ours["counts"]["gradient bytes"], 2, link)
            rows.append([case["case"], *[three_digits(t * 1e3) for t in (alone, predicted, ours["median_s"])]])
    return table(["ms", "step alone", "predicted", "measured"], rows)


def one_gpu(every: Sequence[Result], benchmark: str, case: str) -> float | None:
    """Our seconds of a case on one GPU; None where it was not measured."""
    return next((one["contenders"][OURS]["median_s"] for result in every
                 if (result["benchmark"], result["device"]) == (benchmark, "cuda")
                 for one in result["cases"] if one["case"] == case), None)  # fmt: skip


def many_gpus(every: Sequence[Result]) -> list[str]:
    """Predictions from the steps measured on one GPU, and their constants."""
    mlp, training = one_gpu(every, "train_mlp", "Adam, batch 128"), one_gpu(every, "hessian",
                                                                         "Tanh, Hessian with backward, FP32")
    batch, floor = one_gpu(every, "hessian", "Tanh, Hessian, FP32"), one_gpu(every, "transforms", "vmap(hessian)")
    if mlp is None or training is None or batch is None or floor is None:
        return []
    rows = []
    for name, alone, size in (("MLP 784-256-256-10, Adam, batch 128 per GPU", mlp, MLP_BYTES),
                              ("training on a Hessian, 2-6x512-3, 10,000 rows per GPU", training, HESSIAN_BYTES)):
        rows.append([name, *[three_digits((alone + all_reduce(size, gpus)) * 1e3) for gpus in GPUS]])
    computed = [max(batch * ROWS / 10_000 / gpus, floor) for gpus in GPUS]
    gathered = [all_gather(ROWS * OUTPUTS * SECONDS * 4, gpus) for gpus in GPUS]
    name = f"Hessian of that network, {ROWS:,} rows in all"
    rows.append([f"{name}, sharded", *[three_digits(t * 1e3) for t in computed]])
    rows.append([f"{name}, gathered", *[three_digits((t + g) * 1e3) for t, g in zip(computed, gathered, strict=True)]])
    header = ["predicted ms", *[f"{gpus:,} GPU{'s' if gpus > 1 else ''}" for gpus in GPUS]]
    return [links(GPU_LINKS), table(header, rows)]
