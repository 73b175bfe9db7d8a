"""tests/support/gpu_session.py, in runs of pytest with a CuPy whose device breaks when a test says so."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from checkout import SUPPORT
from process_group import process_group

pytestmark = [pytest.mark.cpu, pytest.mark.more]

CONFTEST = """
import gpu_session

def pytest_addoption(parser):
    gpu_session.add_options(parser)

def pytest_configure(config):
    gpu_session.register(config)
"""
LATE = """
import time
from xdist.workermanage import Marker, WorkerController

received = WorkerController.process_from_remote

def process_from_remote(self, event):
    time.sleep(2 if event is Marker.END else 0)
    received(self, event)

WorkerController.process_from_remote = process_from_remote
"""
CUPY = """
import types

class ndarray:
    pass

class CUDARuntimeError(RuntimeError):
    pass

class Runtime:
    sticky, pending = None, None

    def deviceSynchronize(self):
        error, self.pending = self.sticky or self.pending, None
        if error:
            raise CUDARuntimeError(error)

    launch = deviceSynchronize

cuda = types.SimpleNamespace(runtime=Runtime())
"""
FAULTS = """
import cupy, pytest

runtime = cupy.cuda.runtime

@pytest.mark.parametrize("number", range(6))
def test_before(number):
    runtime.launch()

def test_faults():
    runtime.sticky = "cudaErrorIllegalAddress: an illegal memory access was encountered"

@pytest.mark.parametrize("number", range(6))
def test_behind(number):
    runtime.launch()
"""

FAULTS_AT_ONCE = """
import cupy, pytest, time

def test_faults():
    cupy.cuda.runtime.sticky = "cudaErrorIllegalAddress: an illegal memory access was encountered"

@pytest.mark.parametrize("number", range(11))
def test_behind(number):
    time.sleep(0.1)
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "cupy.py").write_text(CUPY)
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    return tmp_path


def command(folder, *words):
    fixed = ["-p", "no:cacheprovider", "-p", "no:benchmark", "-q", "--tb=short", "--junitxml=xml"]
    files = ["--outcomes=outcomes", "--failures=failures", "--stage=core"]
    return [sys.executable, "-m", "pytest", *fixed, *files, *words]


def environment():
    return os.environ | {"PYTHONPATH": str(SUPPORT), "PYTHONDONTWRITEBYTECODE": "1"}


def run(folder, text, *words):
    """Runs the tests in `text`: the process, the last outcome of each test, the failures."""
    (folder / "test_it.py").write_text(text)
    done = subprocess.run(command(folder, *words), cwd=folder, env=environment(), capture_output=True, text=True)
    return done, outcomes(folder), lines(folder / "failures")


def lines(path):
    return [json.loads(line) for line in path.read_text().split("\n") if line]


def outcomes(folder):
    return {line["test"].partition("::")[2]: line["outcome"] for line in lines(folder / "outcomes") if "test" in line}


def sessions(folder):
    return [line["session"] for line in lines(folder / "outcomes") if "session" in line]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_sticky_error_ends_the_worker_and_blames_the_right_test(folder, workers):
    done, result, failures = run(folder, FAULTS, f"-n{workers}", "--dist=worksteal", "--max-worker-restart=4")
    assert result.pop("test_faults") == "crashed"
    assert len(result) == 12
    assert set(result.values()) == {"passed"}
    assert {line["test"] for line in failures} == {"test_it.py::test_faults"}
    assert [line["when"] for line in failures] == ["teardown", "???"]
    assert "cudaErrorIllegalAddress" in "".join(failures[0]["lines"])
    assert "crashed while running 'test_it.py::test_faults'" in failures[1]["lines"][-1]
    assert "test_faults: CUDARuntimeError: cudaErrorIllegalAddress" in done.stderr
    assert done.returncode == 1
    assert not sessions(folder)
    assert (folder / "xml").read_text().count("<testcase") == 13 + 1  # the crash is a case of its own


def test_the_controller_may_talk_to_a_worker_that_has_ended(folder):
    """It asks one for tests that the other could run, and hears two seconds later that the first one is no more."""
    (folder / "conftest.py").write_text(CONFTEST + LATE)
    done, result, _ = run(folder, FAULTS_AT_ONCE, "-n2", "--dist=worksteal", "--max-worker-restart=4")
    assert "has ended and does not hear 'steal'" in done.stderr
    assert result.pop("test_faults") == "crashed"
    assert len(result) == 11
    assert set(result.values()) == {"passed"}


def test_a_sticky_error_ends_a_session_without_workers(folder):
    done, result, failures = run(folder, FAULTS, "-p", "no:xdist")
    assert result.pop("test_faults") == "error"
    assert set(result) == {f"test_before[{number}]" for number in range(6)}
    assert [line["when"] for line in failures] == ["teardown"]
    assert sessions(folder) == ["6 of 13 tests were not run"]
    assert "the device answers no more" in done.stdout
    assert (folder / "xml").exists()


def test_an_error_that_does_not_stay_is_one_of_its_test(folder):
    text = FAULTS.replace("runtime.sticky", "runtime.pending")
    _, result, failures = run(folder, text, "-n1", "--max-worker-restart=0")
    assert result.pop("test_faults") == "error"
    assert set(result.values()) == {"passed"}
    assert len(failures) == 1


def test_tests_before_cupy_is_loaded_and_with_half_a_module_pass(folder):
    text = "import sys, types\ndef test_none(): pass\ndef test_half(): sys.modules['cupy'] = types.ModuleType('cupy')\n"
    done, result, _ = run(folder, text)
    assert result == {"test_none": "passed", "test_half": "passed"}
    assert done.returncode == 0


OUTCOMES = """
import pytest

def test_passes(): pass
def test_fails(): assert False
def test_skips(): pytest.skip("no")
@pytest.fixture
def broken(): raise ValueError("no fixture")
def test_errors(broken): pass
@pytest.mark.xfail
def test_expected(): assert False
@pytest.mark.xfail(strict=True)
def test_unexpected(): pass
def test_long():
    print("x" * 100_000)
    for number in range(100): print("line", number)
    assert False
"""


@pytest.mark.parametrize("words", [["-p", "no:xdist"], ["-n2"]])
def test_every_outcome_has_a_line(folder, words):
    _, result, failures = run(folder, OUTCOMES, *words)
    assert result == {
        "test_passes": "passed", "test_fails": "failed", "test_skips": "skipped", "test_errors": "error",
        "test_expected": "xfailed", "test_unexpected": "failed", "test_long": "failed",
    }  # fmt: skip
    by_test = {line["test"].partition("::")[2]: line for line in failures}
    assert set(by_test) == {"test_fails", "test_errors", "test_unexpected", "test_long"}
    assert all(line["stage"] == "core" for line in failures)
    assert by_test["test_errors"]["when"] == "setup"
    assert "ValueError: no fixture" in "".join(by_test["test_errors"]["lines"])
    assert len(by_test["test_long"]["lines"]) <= 40
    assert max(map(len, by_test["test_long"]["lines"])) <= 400


@pytest.mark.parametrize("words", [["-p", "no:xdist"], ["-n2", "--dist=worksteal"]])
def test_a_file_that_cannot_be_imported_is_a_failure_and_the_others_run(folder, words):
    (folder / "test_other.py").write_text("def test_a(): pass\n")
    done, _, failures = run(folder, "import no_such_module\n", "--continue-on-collection-errors", *words)
    assert {line["test"]: line["outcome"] for line in lines(folder / "outcomes")} == {
        "test_it.py": "error", "test_other.py::test_a": "passed",
    }  # fmt: skip
    assert [line["when"] for line in failures] == ["collect"]
    assert "no_such_module" in failures[0]["lines"][-1]
    assert done.returncode == pytest.ExitCode.TESTS_FAILED


def test_tests_that_passed_are_left_out(folder):
    (folder / "passed.json").write_text(json.dumps(["test_it.py::test_passes", "test_it.py::test_expected"]))
    _, result, _ = run(folder, OUTCOMES, "-n2", "--passed=passed.json")
    assert set(result) == {"test_fails", "test_skips", "test_errors", "test_unexpected", "test_long"}


@pytest.mark.parametrize("words", [["-p", "no:xdist"], ["-n1"]])
def test_nothing_is_wrong_where_all_have_passed(folder, words):
    (folder / "passed.json").write_text(json.dumps(["test_it.py::test_a"]))
    done, result, _ = run(folder, "def test_a(): pass\n", "--passed=passed.json", *words)
    assert (done.returncode, result) == (0, {})


@pytest.mark.parametrize("words", [["-p", "no:xdist"], ["-n1", "--dist=worksteal"]])
def test_no_test_begins_after_the_deadline(folder, words):
    text = "import pytest\n@pytest.mark.parametrize('n', range(9))\ndef test_a(n): pass\n"
    done, result, _ = run(folder, text, f"--until={time.time() - 1}", *words)
    assert len(result) == 1
    assert sessions(folder) == ["8 of 9 tests were not run"]
    assert done.returncode == pytest.ExitCode.INTERRUPTED
    assert (folder / "xml").exists()


@pytest.mark.parametrize("words", [["-p", "no:xdist"], ["-n2"]])
def test_an_interrupt_leaves_what_there_was(folder, words):
    text = "import time\ndef test_a(): pass\ndef test_b(): open('here', 'w').close(); time.sleep(60)\n"
    (folder / "test_it.py").write_text(text)
    with process_group(command(folder, *words), cwd=folder, env=environment()) as process:
        deadline = time.monotonic() + 60
        while not (folder / "here").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.2)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(60) == pytest.ExitCode.INTERRUPTED
    result = outcomes(folder)
    assert result["test_a"] == "passed"
    assert result["test_b"] in ("unfinished", "passed")
    assert (folder / "xml").exists()


def test_the_failures_file_has_an_end(folder):
    (folder / "failures").write_bytes(b"\n" * (12 << 20))
    text = "import pytest\n@pytest.mark.parametrize('n', range(3))\ndef test_a(n): assert False\n"
    _, _, failures = run(folder, text)
    assert [line["lines"] for line in failures] == [["(the file is full)"]] * 3
    (folder / "failures").write_bytes(b"\n" * (15 << 20))
    run(folder, text)
    assert (folder / "failures").stat().st_size == 15 << 20
