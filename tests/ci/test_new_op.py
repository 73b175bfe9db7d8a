"""docs/new-op.md as a user follows it: its blocks applied to a copy of the repository, and its commands run there."""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.cpu, pytest.mark.more, pytest.mark.timeout(1800)]

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "new-op.md").read_text()
COPIED = ("autograd_gpu", "benchmarks", "ci", "docs", "kernels", "tests", "Makefile", "README.md", "CONTRIBUTING.md",
          "LICENSE", "pyproject.toml")  # fmt: skip
EDIT = re.compile(
    r"^(?:Create|In) `(?P<path>\S+?)`(?:, (?P<side>below|above) (?P<begins>the line that begins with )?"
    r"(?P<ticks>`+) ?(?P<line>.*?) ?(?P=ticks))?:\n\n```\w+\n(?P<block>.*?)```$",
    re.DOTALL | re.MULTILINE,
)
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]


def edited(text, side, line, begins, block):
    """`text` with `block` below or above the first line that reads `line`, or begins so."""
    lines = text.splitlines(keepends=True)
    results = [i for i, s in enumerate(lines) if (s.strip().startswith(line) if begins else s.strip() == line)]
    assert results, f"no line reads {line}"
    at = results[0] + (side == "below")
    return "".join([*lines[:at], block, *lines[at:]])


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the repository with every block of the page, and what Python and mypy know of the rest."""
    folder = tmp_path_factory.mktemp("new_op")
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("*.egg-info", "*.pyc.*"))
        else:
            shutil.copy(source, folder / name)
    for cache in (ROOT / ".mypy_cache").glob("3.*"):
        shutil.copytree(cache, folder / ".mypy_cache" / cache.name)
    for edit in EDIT.finditer(PAGE):
        path = folder / edit["path"]
        if edit["side"] is None:
            assert not path.exists(), f"{edit['path']} exists already"
            path.write_text(edit["block"])
        else:
            path.write_text(edited(path.read_text(), edit["side"], edit["line"], edit["begins"], edit["block"]))
    return folder


def test_every_block_is_applied_or_run():
    blocks = len(re.findall(r"^```\w+$", PAGE, re.MULTILINE))
    assert len(EDIT.findall(PAGE)) + len(re.findall(r"^```sh$", PAGE, re.MULTILINE)) == blocks
    assert all(f"`{name}`" in PAGE for name in ("F", "types = FLOAT", "jvp = ELEMENTWISE", "batch = BROADCASTING"))


def test_the_checklist_passes(copy):
    """In the order of the page: later commands read what earlier ones write."""
    binaries = pathlib.Path(sys.executable).parent
    paths = {"PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(copy)}
    for command in COMMANDS:
        if "resources.py" in command and importlib.util.find_spec("cupy") is None:
            continue  # it needs NVRTC; tests/backend/kernels/test_compile.py is skipped, too
        done = subprocess.run(
            command, shell=True, cwd=copy, capture_output=True, text=True, env={**os.environ, **paths}
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"


def test_the_op_is_one_of_the_library(copy):
    """The function and the method, with first and second derivatives."""
    program = """
import autograd_gpu as ag
x = ag.tensor([0.5, -1.0], dtype=ag.float64, requires_grad=True)
assert ag.autograd.gradcheck(lambda x: ag.gaussian(x, 0.7), (x,))
assert ag.autograd.gradgradcheck(lambda x: x.gaussian(scale=0.7), (x,))
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], cwd=copy, capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(copy)})
    assert done.returncode == 0, done.stderr
