"""benchmarks/probe runs on the stand-in, as far as that goes, and says so."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from checkout import ROOT, STAND_IN
from cuda_emu.samples import needs_emulator

from benchmarks.probe import checks, machine, table
from benchmarks.probe.checks import ORDER
from benchmarks.probe.table import CHECKS, FLOATS

pytestmark = [pytest.mark.cpu, pytest.mark.more]
REAL = {
    "an illegal address": "RuntimeError: needs a real device: the emulator raises at the access, and goes on",
}
BY_ITSELF = {1, 3, 6, 7, 10, 19}  # questions that the probe has to answer


def run(folder, *words, seconds=300, standin=True):
    places = [str(STAND_IN), str(ROOT)] if standin else [str(ROOT)]
    command = [sys.executable, "-m", "benchmarks.probe", "--lines", folder / "probe.jsonl", "--seconds", str(seconds)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(places)}
    done = subprocess.run([*command, *words], env=environment, cwd=folder, capture_output=True, text=True)
    lines = (folder / "probe.jsonl").read_text().splitlines() if (folder / "probe.jsonl").exists() else []
    return done, {line["check"]: line for line in map(json.loads, lines)}


@pytest.fixture(scope="module")
def emulated(tmp_path_factory):
    return run(tmp_path_factory.mktemp("probe"))


@needs_emulator
def test_every_check_has_a_line(emulated):
    done, lines = emulated
    assert list(lines) == list(ORDER), done.stderr
    assert all({"check", "ok", "seconds", "questions", "emulated"} <= set(line) for line in lines.values())


@needs_emulator
def test_an_emulated_run_is_no_gpu_result(emulated):
    done, lines = emulated
    assert all(line["emulated"] is True for line in lines.values())
    assert "none of this is a GPU result" in done.stdout
    assert "none: the stand-in" in lines["device"]["device"]


@needs_emulator
@pytest.mark.parametrize("name", ORDER)
def test_checks_that_the_emulator_can_run_are_as_expected(emulated, name):
    line = emulated[1][name]
    assert line.get("error") == REAL.get(name), line
    assert line["ok"] == (name not in REAL), line


@needs_emulator
def test_what_was_found_is_there(emulated):
    lines = emulated[1]
    assert set(lines["products"]["relative_error"]) == {*FLOATS, "TF32"}
    assert set(lines["where keeps the dtype"]["ours"]) == set(FLOATS)
    assert lines["capture of an optimizer step"]["replay equal to eager"] == [True] * 3
    assert set(lines["host time of an optimizer step"]["us"]) == {"SGD", "Adam", "sgd_step"}
    assert set(lines["host time"]["us"]) >= {"RawKernel", "ufunc", "cublas.gemm", "cupy.matmul"}
    assert set(lines["copies overlap"]["apart_ms"]) == {"out", "back", "products"}
    assert "cudaHostAlloc" in lines["page-locked memory"]["ms"]
    assert lines["launches"]["expressions"] >= 20
    counts = lines["reference counts of gradients"]
    assert counts["references"] == dict.fromkeys(("numpy", "cupy"), counts["expected"])


def test_every_kernel_file_has_a_check():
    files = {path.name for path in (ROOT / "kernels").glob("*.cu")}
    assert {name.removeprefix("kernel ") for name in ORDER if name.startswith("kernel ")} == files
    assert set(ORDER) == set(CHECKS)


def test_the_questions_are_answered_and_the_document_says_where():
    text = (ROOT / "docs/gpu-questions.md").read_text()
    rows = {int(number): row for number, row in re.findall(r"^\| (\d+) \|(.*)$", text, re.MULTILINE)}
    assert {question for check in CHECKS.values() for question in check.questions} >= BY_ITSELF
    for name, check in CHECKS.items():
        for question in check.questions:
            named = "kernel FILE" if name.startswith("kernel ") else name
            assert f"`{named}`" in rows[question], (name, question)


def test_without_a_device_every_check_says_so(tmp_path):
    """The CuPy that is installed has no driver here, or there is none."""
    done, lines = run(tmp_path, "--only", "products", "--only", "host time", standin=False)
    if lines["products"]["ok"]:
        pytest.skip("a GPU answers")
    assert done.returncode == 1
    assert list(lines) == ["products", "host time"]
    assert not any(line["ok"] or line["emulated"] for line in lines.values())
    assert all(line["error"] for line in lines.values())
    assert "GPU result" not in done.stdout


def test_no_check_begins_when_time_is_up(tmp_path):
    _, lines = run(tmp_path, "--only", "products", seconds=0)
    assert lines["products"]["error"] == "not run: no time was left"


# ---- one check -------------------------------------------------------------------------------------------


@pytest.fixture
def ask(monkeypatch):
    """Runs a function as a check; `device` is what CuPy's runtime says."""

    def ask(run, seconds=5.0, device=lambda: None, **how):
        monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(
            cuda=SimpleNamespace(runtime=SimpleNamespace(deviceSynchronize=device))))  # fmt: skip
        monkeypatch.setattr(checks, "lab", lambda: None)
        how = {"captures": False, "breaks": False} | how
        monkeypatch.setitem(CHECKS, "mine", table.Check(run, seconds, (), **how))
        return checks.do("mine", seconds)

    return ask


def refuse():
    raise RuntimeError("cudaErrorIllegalAddress")


def test_an_error_is_the_checks_own(ask):
    found, healthy = ask(lambda lab: 1 / 0)
    assert (found["ok"], found["error"], healthy) == (False, "ZeroDivisionError: division by zero", True)
    assert "1 / 0" in "".join(found["lines"])


def test_an_error_in_a_capture_ends_the_process(ask):
    assert ask(lambda lab: 1 / 0, captures=True)[1] is False
    assert ask(lambda lab: {"ok": False}, captures=True)[1] is True


def test_a_check_has_an_end(ask):
    found, _ = ask(lambda lab: time.sleep(30), seconds=0.2)
    assert found == {"ok": False, "error": "was not done within 0.2 s"}


def test_a_device_that_answers_no_more_is_noticed(ask):
    found, healthy = ask(lambda lab: {"ok": True, "value": 3}, device=refuse)
    assert (found, healthy) == ({"ok": False, "value": 3, "error": "the device answers no more"}, False)
    found, healthy = ask(lambda lab: {"ok": True}, device=refuse, breaks=True)
    assert (found, healthy) == ({"ok": True}, False)


@needs_emulator
def test_a_captured_product_of_every_kind(emulated):
    line = emulated[1]["capture of ufunc, RawKernel and cuBLAS by ctypes"]
    names = [name for kind in (*FLOATS, "TF32") for name in (kind, f"{kind}, first product of the stream")]
    assert line["replay equal to eager"] == {name: [True] * 3 for name in names}
    assert line["largest error"]["float64"] < 1e-6 < line["largest error"]["TF32"] < 1e-2


def test_libraries_are_found_among_what_is_loaded(monkeypatch):
    maps = (
        "7f0-7f1 r-xp 00000000 08:01 1  /a b/libcublasLt.so.13\n7f2-7f3 r--p 00000000 08:01 2  /a b/libcublas.so.13\n"
        "7f3-7f4 r-xp 00001000 08:01 2  /a b/libcublas.so.13\n7ff-800 rw-p 00000000 00:00 0\n"
    )
    monkeypatch.setattr(Path, "read_text", lambda path: maps)
    assert machine.libraries("libcublas.") == ["/a b/libcublas.so.13"]
