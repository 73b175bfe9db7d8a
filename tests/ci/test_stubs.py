"""What is written from the op table, the stubs that type checkers read and the page of what is compared, is current."""

import subprocess
import sys

import pytest
from checkout import ROOT

pytestmark = pytest.mark.cpu



@pytest.mark.parametrize("script", ["write_stubs.py", "write_coverage.py", "write_interop.py"])
def test_written_files_are_current(script):
    done = subprocess.run([sys.executable, f"ci/{script}", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
