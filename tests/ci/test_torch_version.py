"""tests/support/torch_version.py: which oracle tests an older PyTorch skips, and that they exist."""

import subprocess
import sys

import pytest
import torch_version
from checkout import ROOT, TESTS

pytestmark = [pytest.mark.cpu, pytest.mark.more]


def test_only_an_older_pytorch_skips():
    nodeid = "tests/ops/test_public.py::test_equals_pytorch[aminmax]"
    reason = "holds for PyTorch 2.13; in 2.11 aminmax has no second derivative"
    assert torch_version.reason_to_skip(nodeid, (2, 11)) == reason
    for version in (None, (2, 13), (2, 14), (3, 0)):
        assert torch_version.reason_to_skip(nodeid, version) is None
    assert torch_version.reason_to_skip("tests/ops/test_public.py::test_equals_pytorch[amin]", (2, 11)) is None


def test_the_extra_installs_what_the_tests_hold_for():
    expected = "torch==" + ".".join(map(str, torch_version.HOLDS_FOR))
    assert expected in (ROOT / "pyproject.toml").read_text()


def test_every_line_names_a_test():
    pytest.importorskip("torch")
    files = sorted({name.partition("::")[0] for name in torch_version.OLDER})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *(TESTS / name for name in files)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    results = [line.partition("/")[2] for line in done.stdout.splitlines() if "::" in line]
    assert [name for name in torch_version.OLDER if not any(line.startswith(name) for line in results)] == []
