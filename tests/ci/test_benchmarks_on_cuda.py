"""Contenders that run on CUDA alone: graphs of steps, and of compiled steps, do the work of the others."""

import contextlib
import json

import pytest

from benchmarks import common, hessian, pinn, timing, train_mlp
from benchmarks.report import GRAPH, OURS, REPLAY, REPLAYED_GRAPH, REPLAYED_LOOP

pytestmark = [pytest.mark.cuda, pytest.mark.more]
HESSIAN = ["--activations", "Tanh", "--parts", "hessian,backward", "--methods", "loop", "--sweeps", "none",
           "--precisions", "fp32"]  # fmt: skip


@pytest.mark.parametrize(("module", "words"), [(train_mlp, []), (pinn, []), (hessian, HESSIAN)])
def test_graphs_are_contenders(module, words, device, tmp_path, monkeypatch):
    """`require_agreement` of the workload compares their results."""
    monkeypatch.setattr(timing, "settle", lambda pause_s: None)
    monkeypatch.setattr(timing, "garbage_collector", lambda enabled=True: contextlib.nullcontext())
    monkeypatch.setattr(timing, "calibrate", lambda contender, sample_s: 1)
    path = tmp_path / "cuda.json"
    repeats = ["--repeats", str(common.MIN_REPEATS)]
    module.main(["--tiny", *repeats, "--device", device, "--peers", "none", "--json", str(path), *words])
    result = json.loads(path.read_text())
    assert [case["case"] for case in result["cases"]] == result["planned"]
    for case in result["cases"]:
        expected = {OURS, GRAPH, REPLAY, REPLAYED_GRAPH} | ({REPLAYED_LOOP} if module is hessian else set())
        assert expected <= case["contenders"].keys()
        assert case["contenders"][OURS]["counts"]["launches"] > 0
