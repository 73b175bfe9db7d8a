"""What a profile shows, for tests: the tree of events as indented lines, a check of a trace's format."""

from __future__ import annotations

import json

import autograd_gpu as ag


def lines(prof, *kinds):
    """A line per event, indented by its depth; of these kinds only, if any are given."""
    shown = [e for e in prof.events() if not kinds or e.kind in kinds]
    return ["  " * depth(e) + e.name for e in shown]


def depth(event):
    return 0 if event.cpu_parent is None else 1 + depth(event.cpu_parent)


def of_kind(prof, *kinds):
    return [e for e in prof.events() if e.kind in kinds]


def mlp(device, width=16):
    """A function that makes a training step of a small network, already warm."""
    ag.manual_seed(0)
    model = ag.nn.Sequential(ag.nn.Linear(8, width), ag.nn.Tanh(), ag.nn.Linear(width, 1)).to(device)
    optimizer = ag.optim.Adam(model.parameters(), lr=0.01)
    x = ag.randn(32, 8, device=device)

    def step():
        optimizer.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()

    step.model, step.optimizer, step.x = model, optimizer, x
    for _ in range(2):
        step()
    return step


PHASES = {"X": {"dur", "args", "cat"}, "i": {"s", "args", "cat"}, "M": {"args"}, "C": {"args"}, "s": {"id", "cat"},
          "f": {"id", "cat", "bp"}}  # fmt: skip


def check_trace(trace):
    """Checks a trace against the Trace Event Format that Perfetto and chrome://tracing read."""
    json.dumps(trace, allow_nan=False)
    rows = trace["traceEvents"]
    for row in rows:
        assert {"ph", "name", "pid", "tid", "ts"} | PHASES[row["ph"]] <= row.keys(), row
        assert isinstance(row["pid"], int)
        assert isinstance(row["tid"], int)
        assert row["ts"] >= 0 or row["ph"] == "M"
        assert row.get("dur", 0) >= 0
    for track in {(row["pid"], row["tid"]) for row in rows if row["ph"] == "X"}:
        _check_nesting([row for row in rows if row["ph"] == "X" and (row["pid"], row["tid"]) == track])
    for row in rows:
        if row["ph"] == "C":
            assert all(isinstance(value, int) for value in row["args"].values())
    _check_arrows(rows)


def _check_nesting(spans):
    """Two spans of a track lie one in the other, or one after the other."""
    around = []
    for span in sorted(spans, key=lambda row: (row["ts"], -row["dur"])):
        end = round((span["ts"] + span["dur"]) * 1000)
        while around and around[-1] <= round(span["ts"] * 1000):
            around.pop()
        assert not around or end <= around[-1], span
        around.append(end)


def _check_arrows(rows):
    spans = {(row["tid"], row["ts"]) for row in rows if row["ph"] == "X"}
    starts, ends = ({row["id"]: row for row in rows if row["ph"] == phase} for phase in "sf")
    assert starts.keys() == ends.keys()
    for number, start in starts.items():
        assert start["ts"] <= ends[number]["ts"]
        assert {(row["tid"], row["ts"]) for row in (start, ends[number])} <= spans
