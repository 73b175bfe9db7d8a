"""benchmarks/kernels.py measures every family, against the bytes that docs/kernels.md has for it."""

import contextlib
import json
import re

import formula_functors
import numpy as np
import pytest

from autograd_gpu.backend.kernels import INSTANCES
from benchmarks import kernels, timing
from benchmarks.kernel_families import FAMILIES, LEFT_OUT, Make, dtypes
from benchmarks.report import OURS, Report

CASES = [(family, dtype) for family in FAMILIES for dtype in dtypes(family)]


def documented(family):
    """Least bytes per element of float32 for a family: of the row with its name, or that names its functor."""
    kernel, _, functor = family.replace(" with ", " of ").partition(" of ")
    if kernel.startswith("random_"):  # as test_traffic.py has it: each number is written once
        return 4
    rows = {tuple(re.findall(r"\w+", label)): cells for label, *cells in kernels.counted()}
    exact = rows.get(tuple(re.findall(r"\w+", family)))
    named = [cells for words, cells in rows.items() if words[0] == kernel and functor in words[2:]]
    return int((exact or (named or [rows[kernel,]])[0])[3])


@pytest.mark.cpu
@pytest.mark.parametrize(("family", "dtype"), [case for case in CASES if "quantize" not in case[0]], ids=str)
def test_bytes_are_the_least_that_are_documented(family, dtype):
    make = Make(np, dtype, 1 << 16)
    work = FAMILIES[family](make)
    assert work.bytes == documented(family) * dtype.itemsize * make.rows * make.cols // 4


@pytest.mark.cpu
@pytest.mark.parametrize(("family", "dtype"), [case for case in CASES if "quantize" in case[0]], ids=str)
def test_codes_are_as_long_as_their_name_says(family, dtype):
    make = Make(np, dtype, 1 << 16)
    code = int(re.search(r"float(\d+)", family)[1]) // 8
    assert FAMILIES[family](make).bytes == (dtype.itemsize + code) * make.rows * make.cols


@pytest.mark.cpu
def test_every_kernel_is_measured_or_said_to_be_left_out():
    formula_functors.declare()
    measured = {family.split(" ")[0] for family in FAMILIES}
    assert {instance.kernel for instance in INSTANCES.values()} == measured | LEFT_OUT.keys()
    assert not measured & LEFT_OUT.keys()
    assert {label.split(" ")[0] for label, *_ in kernels.counted()} <= measured


@pytest.mark.emulated
def test_families_run_beside_a_copy(tmp_path, capsys, monkeypatch):
    """On the stand-in: whatever it says about time is no result, and no verdict."""
    monkeypatch.setattr(timing, "settle", lambda pause_s: None)  # thousands of collections
    monkeypatch.setattr(timing, "garbage_collector", lambda enabled=True: contextlib.nullcontext())
    path = tmp_path / "kernels.json"
    kernels.main(["--tiny", "--device", "cuda", "--peers", "none", "--json", str(path)])
    cases = {case["case"]: case["contenders"] for case in json.loads(path.read_text())["cases"]}
    for family, dtype in CASES:
        assert list(cases[f"{family}, {dtype}"]) == [OURS, "copy"]
    assert "product TN, bfloat16, 32" in cases
    printed = capsys.readouterr().out
    assert printed.count("no verdict") == len(CASES)
    assert "FAIL" not in printed


def judged(ours, other, device="cuda", name="copy", tiny=False):
    report = Report("kernels", "", device, {"tiny": tiny}, {})
    report.add("case", {OURS: timing.Timing((ours,)), name: timing.Timing((other,))})
    (line,) = kernels.verdicts(report)
    return line


@pytest.mark.cpu
def test_verdicts():
    assert judged(1.0, 0.81) == "pass  case: 81% of a copy's speed (asked on a GPU: 80%)"
    assert judged(1.0, 0.79).startswith("FAIL")
    assert judged(1.4, 1.0, name="torch") == "pass  case: 1.40x PyTorch's time (asked on a GPU: at most 1.5x)"
    assert judged(1.6, 1.0, name="torch").startswith("FAIL")
    assert judged(1.6, 1.0, device="cpu", name="torch").startswith("no verdict")
    assert judged(1.6, 1.0, tiny=True).startswith("no verdict")
