"""The parts of ci/gpu.sh: the stages device, the test suites and sanitizer, and what packs their results."""

import errno
import json
import os
import re
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from checkout import ROOT

from ci.gpu import kernel_cache, sanitizer, suite
from ci.gpu.log import FORMER, HEAD, SHOWN, TAIL, Log
from ci.gpu.outdir import Archive, OutDir

pytestmark = [pytest.mark.cpu, pytest.mark.more]


@pytest.fixture
def out(tmp_path):
    for name in ("out", "scratch"):
        (tmp_path / name).mkdir()
    return OutDir(tmp_path / "out", tmp_path / "scratch")


# ---- device ----------------------------------------------------------------------------------------------

NVML = """
import time

class NVMLError(Exception): pass
def nvmlInit(): {init}
def nvmlDeviceGetHandleByIndex(index): return index
def nvmlSystemGetCudaDriverVersion(): return 13000
def nvmlDeviceGetName(gpu): return "a GPU"
def nvmlDeviceGetCount(): return 1
class nvmlDeviceGetMemoryInfo:
    def __init__(self, gpu): self.total = 80
def nvmlSystemGetDriverVersion(): return "580"
NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_CLOCK_GRAPHICS = 1, 2, 0
def nvmlDeviceGetClockInfo(gpu, clock): raise NVMLError("hidden")
nvmlDeviceGetMaxClockInfo = nvmlDeviceGetClockInfo
def nvmlDeviceGetPowerManagementLimit(gpu): return 700000
"""


def device(folder, init, seconds=30):
    (folder / "pynvml.py").write_text(NVML.format(init=init))
    environment = os.environ | {"PYTHONPATH": f"{folder}:{ROOT}"}
    command = [sys.executable, "-m", "ci.gpu.device", folder / "device.json", "--seconds", str(seconds)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    return done, json.loads((folder / "device.json").read_text())


def test_device_names_the_gpu_and_the_versions(tmp_path):
    done, facts = device(tmp_path, "pass")
    assert done.returncode == 0, done.stderr
    assert (facts["name"], facts["cuda"], facts["memory_bytes"]) == ("a GPU", "13.0", 80)
    assert facts["clock_mhz"]["sm"] == "not available: hidden"
    assert facts["versions"]["pytest"] == pytest.__version__
    assert {"numpy", "pytest-timeout", "pytest-xdist"} <= set(facts["versions"])


@pytest.mark.parametrize(("init", "code"), [("raise NVMLError('no driver')", 1), ("time.sleep(60)", -14)])
def test_device_leaves_the_versions_where_nvml_does_not_answer(tmp_path, init, code):
    begin = time.monotonic()
    done, facts = device(tmp_path, init, seconds=2)
    assert done.returncode == code
    assert time.monotonic() - begin < 30
    assert facts["versions"]["pytest"] == pytest.__version__
    assert "name" not in facts


# ---- test suites -----------------------------------------------------------------------------------------


@pytest.fixture
def words(monkeypatch, capsys):
    """pytest's words for a stage, with the versions that are given, and what is printed."""

    def words(stage="core", more=(), **versions):
        known = {"pytest": (9, 0), "pytest-timeout": (2, 4), "pytest-xdist": (3, 8)} | {
            name.replace("_", "-"): version for name, version in versions.items()
        }
        monkeypatch.setattr(suite, "version", known.__getitem__)
        monkeypatch.setattr(suite, "cores", lambda: 16)
        became = []
        monkeypatch.setattr(os, "execv", lambda program, words: became.extend(words))
        suite.main([stage, "--seconds", "65", "--results", "results", "--failures", "failures", *more])
        return became, capsys.readouterr().out

    return words


def test_pytest_is_called_with_the_flags_of_a_stage(words):
    result, _ = words()
    expected = [
        "--device cuda", "-p no:benchmark", "-p no:cacheprovider", "--junitxml=results/core.xml", "--timeout=90",
        "--timeout-method=thread", "--session-timeout=65.0", "--continue-on-collection-errors", "-n12",
        "--dist=worksteal", "--max-worker-restart=40",
        "--outcomes=results/core.outcomes.jsonl", "--failures=failures", "--stage=core",
    ]  # fmt: skip
    assert [flag for flag in expected if flag not in " ".join(result)] == []
    until = float(next(word for word in result if word.startswith("--until=")).partition("=")[2])
    assert 60 < until - time.time() < 66
    assert "--passed=before" in words(more=["--passed", "before"])[0]


def test_an_older_pytest_timeout_leaves_the_deadline_to_us(words):
    result, said = words(pytest_timeout=(2, 2))
    assert "has no --session-timeout" in said
    assert not [word for word in result if "session-timeout" in word]
    assert [word for word in result if word.startswith("--until=")]


def test_without_xdist_tests_run_one_after_the_other(words):
    result, said = words(pytest_xdist=())
    assert "pytest-xdist is not installed" in said
    assert not [word for word in result if word.startswith(("-n", "--dist", "--max-worker"))]


def test_without_pytest_a_stage_does_not_start(words):
    with pytest.raises(SystemExit, match="No module named pytest-timeout"):
        words(pytest_timeout=())


def test_every_file_belongs_to_one_stage(words):
    files = sorted(suite.TESTS.rglob("test_*.py"))
    stages = ("capture", "core", "ops", "rest")
    chosen = {stage: {str(file) for file in files} - _ignored(words(stage)[0]) for stage in stages}
    assert sum(map(len, chosen.values())) == len(files)
    assert set.union(*chosen.values()) == set(map(str, files))
    names = {stage: {Path(file).name for file in actual} for stage, actual in chosen.items()}
    assert {
        "test_every_instance.py", "test_standin.py", "test_standin_device.py", "test_cublas.py", "test_cuda.py",
        "test_quantize.py", "test_offload.py", "test_copy_engine.py", "test_pinned_memory.py", "test_layer_norm.py",
    } <= names["core"]  # fmt: skip
    assert {"test_op_db.py", "test_op_rules.py", "test_op_oracle.py", "test_saved_op_db.py"} <= names["ops"]
    assert {"test_failures.py", "test_fused.py"} <= names["rest"]
    of_graphs = {"test_graph_failed_captures.py", "test_graph_faults.py", "test_graph_leaks.py", "test_graph_matrix.py",
                 "test_graphed_callables.py", "test_graphed_hooks.py", "test_graphed_step.py",
                 "test_graphed_training.py", "test_graphs.py"}
    assert names["capture"] == of_graphs | {"test_op_capture.py"}


def _ignored(words):
    return {word.partition("=")[2] for word in words if word.startswith("--ignore=")}


# ---- sanitizer -------------------------------------------------------------------------------------------

SANITIZER = """#!/usr/bin/env bash
echo "$@" >>"$SAID"
{body}
"""
CLEAN = 'echo "========= ERROR SUMMARY: 0 errors"; echo "========= RACECHECK SUMMARY: 0 hazards displayed"'
REFUSES = 'echo "========= Error: Device not supported. Please refer to the documentation"; exit 1'
FINDS = 'echo "========= Invalid __global__ read"; echo "========= ERROR SUMMARY: 1 error"; exit 86'


@pytest.fixture
def checked(tmp_path, monkeypatch):
    """Runs the stage with a script for compute-sanitizer: its exit code, its lines, and how the script was called."""

    def checked(body, seconds="60", files=("softmax.cu",)):
        path = tmp_path / "compute-sanitizer"
        if body is not None:
            path.write_text(SANITIZER.format(body=body))
            path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        monkeypatch.setenv("SAID", str(tmp_path / "said"))
        if files:
            chosen = [case for case in sanitizer.cases() if case.file in files]
            monkeypatch.setattr(sanitizer, "cases", lambda: chosen)
        lines = tmp_path / "lines"
        lines.touch()
        code = sanitizer.main([str(lines), "--seconds", seconds])
        said = (tmp_path / "said").read_text().splitlines() if (tmp_path / "said").exists() else []
        return code, [json.loads(line) for line in lines.read_text().splitlines()], said

    return checked


def test_sanitizer_runs_both_tools_over_every_file(checked):
    code, lines, said = checked(CLEAN, files=None)
    assert code == 0
    files = sorted(path.name for path in (ROOT / "kernels").glob("*.cu"))
    expected = [f"{tool} {name}" for tool in ("memcheck", "racecheck") for name in files]
    assert [line["check"] for line in lines] == expected
    assert all(line["ok"] and line["errors"] == 0 for line in lines)
    assert len(said) == 2 * len(files)
    assert all(re.search(r"test_every_instance.py -k \[\w+\.cu ", call) for call in said)


def test_each_file_chooses_tests_of_its_own(request):
    """pytest takes the words of -k."""
    command = [sys.executable, "-m", "pytest", "--device", "cuda", "--collect-only", "-q", "-p", "no:cacheprovider"]
    driver = [ROOT / "tests/backend/kernels/test_every_instance.py", "-k", "[list_norm.cu"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([*command, *driver], env=environment, cwd=ROOT, capture_output=True, text=True)
    results = [line for line in done.stdout.splitlines() if "::" in line]
    assert results
    assert all("test_every_instance[list_norm.cu" in line for line in results)


@pytest.mark.parametrize(("body", "error"), [
    (REFUSES, "========= Error: Device not supported. Please refer to the documentation, exit code 1"),
    (FINDS, "1 errors, exit code 86"),
    ("exit 3", "no summary of the tool, exit code 3"),
    (f"{CLEAN}; exit 1", "0 errors, exit code 1"),
])  # fmt: skip
def test_what_sanitizer_says_is_kept(checked, body, error):
    code, lines, _ = checked(body)
    assert code == 1
    assert [line["error"] for line in lines] == [error] * 2
    assert not any(line["ok"] for line in lines)
    assert all(isinstance(line["lines"], list) for line in lines)


def test_sanitizer_ends_in_time(checked):
    begin = time.monotonic()
    code, lines, _ = checked("sleep 60", seconds="1")
    assert time.monotonic() - begin < 20
    assert code == 1
    assert {line["error"] for line in lines} <= {"no time was left", "not run: no time was left"}


def test_a_sanitizer_that_is_missing_is_named(checked, capsys):
    assert checked(None)[0] == 127
    assert "compute-sanitizer is not installed" in capsys.readouterr().out


# ---- kernels ---------------------------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path):
    """Ten kernels of 20 KB that do not compress; the first was used last. One is still being written."""
    folder = tmp_path / "cache"
    folder.mkdir()
    for number in range(10):
        path = folder / f"{number}.cubin"
        path.write_bytes(os.urandom(20_000))
        os.utime(path, (2_000_000_000 - number, 1_000_000_000))
    (folder / "tmpabc").write_bytes(b"half")
    return folder


def packed(folder):
    seen = {}
    for piece in kernel_cache.PIECES:
        if (folder / piece).exists():
            with zipfile.ZipFile(folder / piece) as file:
                seen[piece] = file.namelist()
    return seen


def test_kernels_come_back(cache, out, tmp_path):
    said, again = [], tmp_path / "again"
    kernel_cache.pack(cache, out, said.append)
    assert packed(out.folder) == {"kernels-1.zip": [f"{number}.cubin" for number in range(10)]}
    again.mkdir()
    assert kernel_cache.unpack(out.folder, again, said.append) == 10
    assert not said
    assert {path.name: path.read_bytes() for path in again.iterdir()} == {
        path.name: path.read_bytes() for path in cache.iterdir() if path.name != "tmpabc"
    }
    assert max(path.stat().st_mtime for path in again.iterdir()) < 1_000_000_000


@pytest.mark.parametrize("most", [45_000, 62_000, 75_000])
def test_the_kernels_used_last_fit(cache, out, most):
    said = []
    kernel_cache.pack(cache, out, said.append, most)
    per_folder = most // 20_250
    assert [len(names) for names in packed(out.folder).values()] == [per_folder, per_folder]
    assert all((out.folder / piece).stat().st_size < most for piece in kernel_cache.PIECES)
    assert [name for names in packed(out.folder).values() for name in names] == [
        f"{number}.cubin" for number in range(2 * per_folder)
    ]
    assert said == [f"{2 * per_folder} of 10 compiled kernels are packed, those used last: the others do not fit in "
                    f"2 files of {most / 2**20:g} MiB"]  # fmt: skip


def test_a_piece_that_is_no_longer_needed_goes(cache, out):
    kernel_cache.pack(cache, out, print, 120_000)
    assert len(packed(out.folder)) == 2
    for number in range(5, 10):
        (cache / f"{number}.cubin").unlink()
    kernel_cache.pack(cache, out, print, 120_000)
    assert packed(out.folder) == {"kernels-1.zip": [f"{number}.cubin" for number in range(5)]}


def test_packing_is_no_use_of_a_kernel(cache, out):
    before = {path.name: path.stat().st_atime for path in cache.iterdir()}
    kernel_cache.pack(cache, out, print)
    assert {path.name: path.stat().st_atime for path in cache.iterdir()} == before


def test_a_broken_piece_is_named(tmp_path, out):
    said = []
    out.write("kernels-1.zip", b"nothing")
    assert kernel_cache.unpack(out.folder, tmp_path, said.append) == 0
    assert "kernels-1.zip brings no kernels: File is not a zip file" in said[0]


# ---- log and archive -------------------------------------------------------------------------------------


def test_the_log_keeps_beginning_and_end_of_what_is_long(out):
    log = Log(out)
    log.write(b"first\n")
    for number in range(3000):
        log.write(f"{number:04} {'x' * 994}\n".encode())
    shown = log.end()
    log.close()
    text = (out.folder / "log.txt").read_bytes()
    assert HEAD + TAIL - 1000 < len(text) < HEAD + TAIL + 1000
    assert text.startswith(b"first\n0000 ")
    assert text.endswith(b"x\n")
    dropped = int(re.search(rb"\.\.\. \((\d+) bytes are left out\)", text)[1])
    assert dropped == 6 + 3_000_000 - (len(text) - len(f"\n... ({dropped} bytes are left out)\n"))
    assert len(shown) <= SHOWN
    assert shown[-1].startswith("2999 ")


def test_the_log_of_earlier_runs_is_kept_up_to_a_size(out):
    out.write("log.txt", b"a" * FORMER + b"the end\n")
    log = Log(out)
    log.say("more")
    log.close()
    text = (out.folder / "log.txt").read_bytes()
    assert text.endswith(b"athe end\n== more\n")
    assert FORMER < len(text) < FORMER + 100


def test_what_does_not_fit_is_left_out_of_the_archive(out, tmp_path):
    said, folder = [], tmp_path / "results"
    archive = Archive(out, folder, said.append)
    (folder / "large.xml").write_bytes(b"x" * (16 << 20))
    (folder / "small.json").write_text("{}")
    (folder / "next.json.part").write_text("{")
    archive.pack()
    archive.pack()
    assert said == ["large.xml is left out of results.tar, which it would make too large"]
    (folder / "small.json").write_text("[]")
    archive.pack()
    again = tmp_path / "again"
    Archive(out, again, said.append)
    assert {path.name: path.read_text() for path in again.iterdir()} == {"small.json": "[]"}
    assert len(said) == 1


def test_parts_lie_in_outdir_where_scratch_is_on_another_file_system(out, monkeypatch):
    replace, sources = os.replace, []

    def refusing(source, target):
        sources.append(source.parent)
        if source.parent != out.folder:
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        replace(source, target)

    monkeypatch.setattr(os, "replace", refusing)
    scratch = out.parts
    for data in (b"{}", b"[]"):
        out.write("a.json", data)
    assert sources == [scratch, out.folder, out.folder]
    assert {path.name: path.read_bytes() for path in out.folder.iterdir()} == {"a.json": b"[]"}
