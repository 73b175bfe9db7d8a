"""Times on CUDA by events, NVTX ranges, captures and replays."""

from __future__ import annotations

import json

import pytest
from profiled import check_trace, mlp, of_kind

import autograd_gpu as ag
from autograd_gpu.profiler import ProfilerActivity, profile, record_function

pytestmark = pytest.mark.cuda


def test_spans_have_times_on_the_stream(tmp_path):
    step = mlp("cuda")
    with profile() as prof, record_function("step"):
        step()
    spans = of_kind(prof, "op", "node", "range")
    for e in spans:
        assert e.device_range.start <= e.device_range.end
        assert (e.device_index, e.device_stream) == (0, ag.cuda.current_stream().cuda_stream)
    (whole,) = of_kind(prof, "range")
    assert whole.device_range.end >= max(e.device_range.end for e in spans)
    assert whole.launches > 5
    assert "Self CUDA" in prof.key_averages().table(sort_by="cuda_time_total")
    prof.export_chrome_trace(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    check_trace(trace)
    assert {row["args"]["name"] for row in trace["traceEvents"] if row["ph"] == "M"} >= {"cuda:0"}


def test_without_the_activity_there_are_no_events():
    with profile(activities=[ProfilerActivity.CPU]) as prof:
        ag.ones(2).exp()
    assert [e.device_range for e in of_kind(prof, "op")] == [None]


@pytest.mark.emulated
def test_ranges_of_nvtx():
    import cupy

    x = ag.ones(2, requires_grad=True)
    cupy.cuda.nvtx.CALLS.clear()
    with profile(), record_function("forward"):
        x.exp()
    assert [*cupy.cuda.nvtx.CALLS] == [("RangePush", "forward"), ("RangePush", "exp"), ("RangePop",), ("RangePop",)]


def test_a_capture_is_recorded_once_and_a_replay_is_a_span():
    x, graph = ag.ones(3), ag.cuda.CUDAGraph()
    x.exp()
    with profile() as prof:
        with ag.cuda.graph(graph):
            y = x.exp()
        graph.replay()
        graph.replay()
    assert [e.name for e in prof.events() if not e.is_instant] == ["exp", "CUDAGraph.replay", "CUDAGraph.replay"]
    assert of_kind(prof, "op")[0].device_range is None
    assert all(e.device_range is not None for e in of_kind(prof, "replay"))
    assert y.tolist() == pytest.approx([2.7182817] * 3)


def test_a_graphed_step_stays_graphed():
    step = ag.cuda.make_graphed_step(lambda x: (x * 2).exp(), warmup=1)
    x = ag.ones(3)
    for _ in range(2):
        step(x)
    with profile() as prof:
        step(x)
    assert [e.name for e in of_kind(prof, "replay", "op")] == ["CUDAGraph.replay"]
    assert step.graphs == 1
