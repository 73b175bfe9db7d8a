"""The stubs that type checkers and editors read are what the op table would write today."""

import pathlib
import subprocess
import sys

import pytest

pytestmark = pytest.mark.cpu

ROOT = pathlib.Path(__file__).resolve().parent.parent


def test_stubs_are_current():
    done = subprocess.run([sys.executable, "ci/write_stubs.py", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
