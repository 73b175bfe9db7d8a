"""The stand-in offers nothing that CuPy lacks, and what it offers takes the same parameters."""

import importlib.util
import json
import os
import subprocess
import sys

import pytest
from checkout import EMULATOR, STAND_IN

pytestmark = pytest.mark.cpu


# Why some parameters may differ: users never make these, or pass them by position only.
MADE_BY_CUPY_ONLY = ("cupy.ndarray", "cupy.ufunc", "cupy.cuda.memory.PooledMemory")

COMPARE = """
import json, sys
sys.path.insert(0, {here!r})
import write_api

expected = json.loads(write_api.TABLE.read_text())
differences = []
for path in (*write_api.MODULES, *write_api.CLASSES):
    try:
        owner = write_api.namespace(path)
    except NotImplementedError:
        continue
    offered = set(write_api.names(owner))
    differences += [f"{{path}}.{{name}} is not CuPy's" for name in offered - set(expected[path])]
    for name, theirs in expected[path].items():
        try:
            ours = write_api.describe(getattr(owner, name))
        except (NotImplementedError, AttributeError):
            continue
        if theirs is not None and ours != theirs and not name.startswith("__"):
            differences.append(f"{{path}}.{{name}} is {{ours}}, CuPy's {{theirs}}")
print(json.dumps(differences))
"""


@pytest.mark.parametrize("script", ["write_api.py", "write_loops.py"])
def test_tables_are_cupys(script):
    """The committed tables against the CuPy that is installed; it needs no driver to be imported."""
    if importlib.util.find_spec("cupy") is None:
        pytest.skip("CuPy is not installed")
    if script == "write_api.py" and sys.version_info >= (3, 13):
        pytest.skip("from Python 3.13 on inspect finds parameters of compiled methods where older ones find none")
    done = subprocess.run([sys.executable, EMULATOR / script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, f"run tests/support/cuda_emu/{script} and look at what changed\n{done.stderr}"


def test_stand_in_keeps_to_the_table():
    environment = {**os.environ, "PYTHONPATH": str(STAND_IN)}
    command = [sys.executable, "-c", COMPARE.format(here=str(EMULATOR))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    differences = json.loads(done.stdout)
    assert [line for line in differences if not line.startswith(MADE_BY_CUPY_ONLY)] == []
