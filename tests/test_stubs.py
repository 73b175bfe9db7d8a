"""What is written from the op table, the stubs that type checkers read and the page of what is compared, is current."""

import pathlib
import subprocess
import sys

import pytest

pytestmark = pytest.mark.cpu

ROOT = pathlib.Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("script", ["write_stubs.py", "write_coverage.py"])
def test_written_files_are_current(script):
    done = subprocess.run([sys.executable, f"ci/{script}", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
