"""What a run on a GPU collects: no file that looks inside the emulator, or that has nothing to do with a device."""

import os
import re
import subprocess
import sys

import pytest
from checkout import ROOT, STAND_IN, TESTS

pytestmark = [pytest.mark.cpu, pytest.mark.more]
NVML = """
class NVMLError(Exception):
    pass

def nvmlInit():
    pass

def nvmlDeviceGetCount():
    return 1
"""


def marks(path):
    """The marks of a whole file."""
    line = re.search(r"^pytestmark = .*", path.read_text(), re.MULTILINE)
    return set(re.findall(r"mark\.(\w+)", line[0])) if line else set()


@pytest.fixture(scope="module")
def collected(tmp_path_factory):
    """What pytest prints where NVML finds a GPU; CuPy is the stand-in, but it is not asked to emulate one."""
    folder = tmp_path_factory.mktemp("nvml")
    (folder / "pynvml.py").write_text(NVML)
    places = [str(folder), str(STAND_IN), str(ROOT)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(places)}
    environment.pop("CUDA_VISIBLE_DEVICES", None)
    command = [sys.executable, "-m", "pytest", "--device", "cuda", "--collect-only", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run([*command, TESTS], env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


def test_files_for_other_devices_are_left_out(collected):
    result = {ROOT / line.partition("::")[0] for line in collected.splitlines() if "::" in line}
    kept = {path for path in TESTS.rglob("test_*.py") if not marks(path) & {"cpu", "emulated"}}
    assert result <= kept
    expected = {"test_op_db.py", "test_standin.py", "test_every_instance.py", "test_cublas.py", "test_failures.py"}
    assert expected <= {path.name for path in result}


def test_nearly_nothing_is_collected_in_vain(collected):
    """A whole file that is collected and then deselected costs its import in every worker."""
    kept, total, deselected = map(int, re.search(r"(\d+)/(\d+) tests collected \((\d+) desel", collected).groups())
    assert kept + deselected == total
    assert deselected < total / 6


def test_a_file_that_is_named_is_collected_all_the_same(request):
    """Then it says why it is skipped."""
    assert request.config.getoption("device") == "cpu"
    command = [sys.executable, "-m", "pytest", "--device", "cpu", "-q", "-rs", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, TESTS / "backend/cuda/test_launches.py"], cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True, text=True,
    )  # fmt: skip
    assert "looks inside the emulator" in done.stdout


def test_marks_by_which_files_are_chosen_are_named_in_them():
    """`-m more` and `-m smoke` import only files that name the mark, or import what gives it."""
    files = [*(TESTS / "support").rglob("*.py"), *TESTS.rglob("conftest.py")]
    giving = {path.relative_to(TESTS).as_posix() for path in files if "mark.more" in path.read_text()}
    assert giving == {"support/selection.py", "backend/kernels/conftest.py"}
