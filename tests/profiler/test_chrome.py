"""The Chrome trace: its format, and a golden one of a small program."""

from __future__ import annotations

import json

import pytest
from profiled import check_trace, mlp

import autograd_gpu as ag
from autograd_gpu.profiler import profile

GOLDEN = """
M process_name autograd_gpu
M thread_name
X op matmul
i product product 2 x 2 x 2
X op sum
X engine plan
X backward grad
X node SumBackward0
X node MatmulBackward0
i skipped matmul.grad_b: this call asks for no gradient behind the input
i product product 2 x 2 x 2
s fwdbwd
f fwdbwd
s fwdbwd
f fwdbwd
"""


def normalized(trace, *dropped):
    """A line per row on the host, without what changes from run to run and from device to device."""
    pid = trace["traceEvents"][0]["pid"]
    result = []
    for row in trace["traceEvents"]:
        if row["pid"] == pid and row.get("cat") not in dropped:
            name = row["args"].get("name", "").partition("thread ")[0] if row["ph"] == "M" else ""
            reason = row["args"].get("reason")
            text = f"{row['ph']} {row.get('cat', '')} {row['name']}".replace("  ", " ")
            text = f"{text} {name}".rstrip() + (f": {reason}" if reason else "")
            result.append(text.replace("fwdbwd fwdbwd", "fwdbwd"))
    return result


def test_a_golden_trace(tmp_path):
    a, b = ag.ones(2, 2, requires_grad=True), ag.ones(2, 2, requires_grad=True)
    with profile() as prof:
        ag.autograd.grad((a @ b).sum(), a)
    prof.export_chrome_trace(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    check_trace(trace)
    assert normalized(trace, "launch") == GOLDEN.strip().splitlines()


def test_the_trace_of_a_step(device, tmp_path):
    step = mlp(device)
    with profile(profile_memory=True, record_shapes=True, with_stack=True) as prof:
        step()
    prof.export_chrome_trace(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    check_trace(trace)
    rows = trace["traceEvents"]
    assert sum(row["ph"] == "s" for row in rows) == 5
    numbers = {row["args"]["Sequence number"] for row in rows if row["ph"] == "s"}
    assert numbers == {row["args"]["Sequence number"] for row in rows if row.get("cat") == "op"}
    counters = [row for row in rows if row["ph"] == "C"]
    assert {row["name"] for row in counters} >= {"live bytes, cpu" if device == "cpu" else "live bytes, cuda:0"}
    assert counters[-1]["args"].keys() == {"parameters", "gradients", "saved", "optimizer", "other"}
    linear = next(row for row in rows if row["name"] == "linear")
    assert linear["args"]["Input Dims"][0] == [32, 8]
    assert "test_the_trace_of_a_step" in linear["args"]["Call stack"]


@pytest.mark.cpu
def test_the_check_of_the_format_refuses_what_is_wrong():
    row = {"ph": "X", "cat": "op", "name": "a", "pid": 1, "tid": 1, "args": {}}
    check_trace({"traceEvents": [row | {"ts": 0, "dur": 4}, row | {"ts": 1, "dur": 3}]})
    for wrong in ([row | {"ts": 0, "dur": 4}, row | {"ts": 1, "dur": 4}], [row | {"ts": 0}], [row | {"dur": 1}],
                  [{"ph": "s", "cat": "f", "id": 1, "name": "f", "pid": 1, "tid": 1, "ts": 1}]):  # fmt: skip
        with pytest.raises(AssertionError):
            check_trace({"traceEvents": wrong})
