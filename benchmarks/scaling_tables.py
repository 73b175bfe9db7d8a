"""Tables of the workload `scaling`: the constants of a model, what it says of the measured steps, and of many GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .library_tables import by_minima, collapsed, ratio, repeats, table, time
from .report import OURS, three_digits
from .scaling_model import NETWORK, NVLINK, Link, all_gather, all_reduce, fitted, ring

GPUS = (1, 8, 64, 1024)
MLP_BYTES, HESSIAN_BYTES = 4 * (784 * 256 + 256 + 256 * 256 + 256 + 2570), 4 * (1536 + 5 * (512 * 512 + 512) + 1539)
ROWS, OUTPUTS, SECONDS = 1_000_000, 3, 4  # of a Hessian over GPUs: second derivatives per output
GPU_LINKS = (
    ("NVLink of an H100 or H200", NVLINK, "vendor's rate, assumed latency"),
    ("InfiniBand NDR, an adapter per GPU", NETWORK, "vendor's rate, assumed latency"),
)
SHARES = {"overlap": "hidden", "overlap without cores": "hidden on a link that needs no core"}  # where measured
Result = dict[str, Any]


def whole(result: Result) -> str:
    """For the page on scaling: a table for each subject, and the model beside what was measured, if it is fitted."""
    cases = result["cases"]
    link = link_of(result)
    trained = [case for case in cases if "gradient bytes" in case["contenders"][OURS]["counts"]]
    reduced = [case for case in cases if case["case"].startswith("all-reduce")]
    others = [case for case in cases if case not in trained and case not in reduced]
    parts = [f"**{result['title']}** (medians of {repeats(cases)}, ms)", against_torch("a step of training", trained),
             pieces([case for case in trained if of_ranks(case)[1] > 1], link), against_torch("", reduced),
             speedups(others), *([] if link is None else [constants(link)])]  # fmt: skip
    notes = [f"{case['case']}: {note}." for case in cases for note in by_minima(case)]
    return "\n\n".join([*filter(None, parts), *([collapsed(notes)] if notes else [])])


def of_ranks(case: Result) -> tuple[str, int]:
    """The name of a case, and on how many ranks it ran."""
    name, _, ranks = case["case"].rpartition(", ")
    return name, int(ranks.split()[0])


def against_torch(title: str, cases: Sequence[Result]) -> str:
    """A row per case, with times, the ratio to PyTorch, and the bytes beside those of a ring."""
    rows = []
    for case in cases:
        counts = case["contenders"][OURS]["counts"]
        rows.append([case["case"], time(case, OURS, "ms"), time(case, "torch", "ms"), ratio(case, "torch"),
                     f"{counts['bytes sent']:,}", f"{counts['ring bound']:,}"])  # fmt: skip
    header = [title, "autograd_gpu", "PyTorch", "/ PyTorch", "bytes sent by a rank", "of a ring"]
    return table(header, rows) if rows else ""


def pieces(cases: Sequence[Result], link: Link | None) -> str:
    """What the steps of several ranks consist of, and what the model says of them without any overlap."""
    rows = []
    shares = {key: title for key, title in SHARES.items()
              if all(key in case["contenders"][OURS]["counts"] for case in cases)}  # fmt: skip
    for case in cases:
        ours = case["contenders"][OURS]
        counts, alone = ours["counts"], ours["counts"]["step alone"]
        _, ranks = of_ranks(case)
        predicted = "-" if link is None else three_digits((alone + ring(counts["gradient bytes"], ranks, link)) * 1e3)
        early = counts["bytes begun early"] / counts["gradient bytes"]
        rows.append([case["case"], three_digits(alone * 1e3), predicted, three_digits(ours["median_s"] * 1e3),
                     str(counts["collectives"]), f"{early:.0%}", *[f"{counts[key]:.0%}" for key in shares]])
    header = ["a step, ms", "without communication", "predicted", "measured", "all-reduces", "bytes begun early",
              *shares.values()]  # fmt: skip
    return table(header, rows) if rows else ""


def speedups(cases: Sequence[Result]) -> str:
    """Cases that only we have: the times by number of ranks, and the gain of the last over the first."""
    times: dict[str, dict[int, float]] = {}
    for case in cases:
        name, ranks = of_ranks(case)
        times.setdefault(name, {})[ranks] = case["contenders"][OURS]["median_s"]
    numbers = sorted({ranks for by_ranks in times.values() for ranks in by_ranks})
    rows = []
    for name, by_ranks in times.items():
        gain = f"{by_ranks[numbers[0]] / by_ranks[numbers[-1]]:.2f}" if len(by_ranks) == len(numbers) else "-"
        rows.append([name, *[three_digits(by_ranks[n] * 1e3) if n in by_ranks else "-" for n in numbers], gain])
    header = ["second derivatives", *[f"{ranks} rank{'s' if ranks > 1 else ''}" for ranks in numbers], "gain"]
    return table(header, rows) if rows else ""


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
