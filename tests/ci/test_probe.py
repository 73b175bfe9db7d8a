"""benchmarks/probe runs on the stand-in, as far as that goes, and says so; its ctypes calls are what cuBLAS takes."""

import ctypes
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from checkout import ROOT, STAND_IN
from cuda_emu.samples import needs_emulator

from autograd_gpu.backend.cuda import cublas
from benchmarks.probe import checks, libcublas, table
from benchmarks.probe.checks import ORDER
from benchmarks.probe.table import CHECKS, FLOATS

pytestmark = [pytest.mark.cpu, pytest.mark.more]
REAL = {
    "capture of ufunc, RawKernel and cuBLAS by ctypes": "RuntimeError: no libcublas.so is loaded in this process: CuPy "
    "brings it on a real device alone",
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
    assert len(lines["addresses of gradients"]["Adam"]["step by step"]) == 10
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
    result, healthy = ask(lambda lab: 1 / 0)
    assert (result["ok"], result["error"], healthy) == (False, "ZeroDivisionError: division by zero", True)
    assert "1 / 0" in "".join(result["lines"])


def test_an_error_in_a_capture_ends_the_process(ask):
    assert ask(lambda lab: 1 / 0, captures=True)[1] is False
    assert ask(lambda lab: {"ok": False}, captures=True)[1] is True


def test_a_check_has_an_end(ask):
    result, _ = ask(lambda lab: time.sleep(30), seconds=0.2)
    assert result == {"ok": False, "error": "was not done within 0.2 s"}


def test_a_device_that_answers_no_more_is_noticed(ask):
    result, healthy = ask(lambda lab: {"ok": True, "value": 3}, device=refuse)
    assert (result, healthy) == ({"ok": False, "value": 3, "error": "the device answers no more"}, False)
    result, healthy = ask(lambda lab: {"ok": True}, device=refuse, breaks=True)
    assert (result, healthy) == ({"ok": True}, False)


WITH_CUBLAS = """
import json
from benchmarks.probe import checks, libcublas

class Handle:
    def __init__(self, lab, stream):
        self.multiply = lab.cp.multiply

    def gemm(self, a, b, out, fast=False):
        self.multiply(a, b, out=out)

    def close(self):
        pass

libcublas.Handle, libcublas.path = Handle, lambda: "none"
print(json.dumps(checks.do("capture of ufunc, RawKernel and cuBLAS by ctypes", 60.0)))
"""


@needs_emulator
def test_what_stands_around_the_captured_product_runs(tmp_path):
    """With a ufunc in its place, which the stand-in can capture: the race checker and the replays see the rest."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(STAND_IN), str(ROOT)])}
    done = subprocess.run(
        [sys.executable, "-c", WITH_CUBLAS], env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    result, healthy = json.loads(done.stdout)
    assert result["ok"], result
    assert healthy
    assert result["replay equal to eager"] == {kind: [True] * 3 for kind in (*FLOATS, "TF32")}


# ---- cuBLAS by ctypes ------------------------------------------------------------------------------------


class Function:
    """One of a library's functions: notes its calls, or does something."""

    def __init__(self, name, calls, do=None):
        self.name, self.calls, self.do = name, calls, do

    def __call__(self, *arguments):
        self.calls.append(self.name)
        return self.do(*arguments) if self.do else 0


def matrix(address, kind, leading, rows, columns):
    """A matrix by columns, as cuBLAS sees it."""
    dtype = next(dtype for dtype, code in cublas.DATA_TYPE.items() if code == kind)
    raw = (ctypes.c_char * (leading * columns * dtype.itemsize)).from_address(address)
    return np.frombuffer(raw, dtype).reshape(columns, leading)[:, :rows].T


def gemm_ex(handle, ta, tb, m, n, k, alpha, a, a_kind, lda, b, b_kind, ldb, beta, c, c_kind, ldc, compute, algorithm):
    scale = np.float64 if compute == cublas.COMPUTE_64F else np.float32
    one, zero = (np.frombuffer(ctypes.string_at(code, np.dtype(scale).itemsize), scale)[0] for code in (alpha, beta))
    product = matrix(a, a_kind, lda, m, k).astype(scale) @ matrix(b, b_kind, ldb, k, n).astype(scale)
    matrix(c, c_kind, ldc, m, n)[...] = one * product + zero
    return 0 if (ta, tb, algorithm) == (0, 0, -1) else 7


@pytest.fixture
def library(monkeypatch):
    calls = []
    names = ("Create_v2", "Destroy_v2", "SetStream_v2", "SetWorkspace_v2", "GemmEx")
    functions = {f"cublas{name}": Function(name, calls, gemm_ex if name == "GemmEx" else None) for name in names}
    monkeypatch.setattr(libcublas.ctypes, "CDLL", lambda path: SimpleNamespace(**functions))
    monkeypatch.setattr(libcublas, "path", lambda: "libcublas.so.13")
    memory = SimpleNamespace(alloc=lambda size: SimpleNamespace(ptr=0))
    lab = SimpleNamespace(cp=SimpleNamespace(cuda=memory))
    stream = SimpleNamespace(ptr=1)
    return SimpleNamespace(calls=calls, functions=functions, handle=lambda: libcublas.Handle(lab, stream))


def array(values):
    """What of a CuPy array the calls read."""
    return SimpleNamespace(shape=values.shape, dtype=values.dtype, data=SimpleNamespace(ptr=values.ctypes.data))


@pytest.mark.parametrize("name", FLOATS)
def test_products_by_ctypes_are_those_of_rows(library, name):
    dtype = FLOATS[name]
    a, b = (np.random.randint(-4, 5, shape).astype(dtype) for shape in ((3, 4), (4, 5)))
    out = np.zeros((3, 5), dtype)
    library.handle().gemm(array(a), array(b), array(out))
    np.testing.assert_array_equal(out.astype(float), a.astype(float) @ b.astype(float))


def test_the_workspace_is_set_behind_the_stream(library):
    library.handle().close()
    assert library.calls == ["Create_v2", "SetStream_v2", "SetWorkspace_v2", "Destroy_v2"]


def test_a_status_is_an_error(library):
    library.functions["cublasSetStream_v2"].do = lambda *arguments: 1
    with pytest.raises(RuntimeError, match="cublasSetStream_v2 answers status 1"):
        library.handle()


def test_the_library_is_found_among_what_is_loaded(monkeypatch):
    maps = (
        "7f0-7f1 r-xp 00000000 08:01 1  /a b/libcublasLt.so.13\n7f2-7f3 r--p 00000000 08:01 2  /a b/libcublas.so.13\n"
        "7f3-7f4 r-xp 00001000 08:01 2  /a b/libcublas.so.13\n7ff-800 rw-p 00000000 00:00 0\n"
    )
    monkeypatch.setattr(Path, "read_text", lambda path: maps)
    assert libcublas.path() == "/a b/libcublas.so.13"
