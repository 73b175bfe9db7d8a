"""Every example that a user may read runs: docstrings of the package, code of the README."""

import ast
import doctest
import importlib
import pathlib
import pkgutil
import re
import subprocess
import sys

import numpy as np
import pytest

import autograd_gpu as ag

pytestmark = pytest.mark.cpu

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODULES = sorted(m.name for m in pkgutil.walk_packages(ag.__path__, "autograd_gpu."))
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    ag.manual_seed(0)
    for test in doctest.DocTestFinder(exclude_empty=True).find(module, globs={"ag": ag, "np": np}):
        runner.run(test)
    assert runner.summarize(verbose=False).failed == 0


def test_readme():
    """The blocks in order, in one process, print what their comments say; the first leaves what the second needs."""
    assert len(BLOCKS) >= 2
    code = "\n".join(BLOCKS)
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    error = float(re.search(r"largest error ([0-9.]+)", done.stdout).group(1))
    assert error < 0.01  # the README says 0.0040
    promised = re.findall(r"^print\(.*\) +# (\{.*?\})", code, re.MULTILINE)
    assert len(promised) >= 2
    printed = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert [*map(ast.literal_eval, printed)] == [*map(ast.literal_eval, promised)]


def test_public_functions_have_docstrings():
    bare = [name for name in ag.__all__ if callable(getattr(ag, name)) and not getattr(ag, name).__doc__]
    assert not bare
