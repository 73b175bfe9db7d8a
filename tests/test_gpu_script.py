"""ci/gpu.sh, with a script in the place of Python that does nothing but leave the files."""

import json
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from benchmarks import tables

pytestmark = pytest.mark.cpu
SCRIPT = Path(__file__).resolve().parents[1] / "ci" / "gpu.sh"
MOST_FILES = 8  # come back from a machine that is lent
# Every benchmark but unrolled works; hessian looks at what is there when it begins.
FAKE = """#!/usr/bin/env bash
module="" last=""
for word in "$@"; do
  [[ $last == -m ]] && module=${word#benchmarks.}
  [[ $last == - || $last == --junitxml ]] && echo "{}" >"$word"
  [[ $last == --json && $module != unrolled ]] && echo "{\\"benchmark\\": \\"$module\\", $REST}" >"$word"
  last=$word
done
[[ $module == hessian ]] && cp "$OUTDIR/results.tar" "$OUTDIR/../before.tar"
[[ $module != unrolled ]]
"""


@pytest.fixture
def out(tmp_path):
    fake, out = tmp_path / "python", tmp_path / "out"
    fake.write_text(FAKE)
    fake.chmod(0o755)
    rest = '"config": {"tiny": false}'
    environment = {"PYTHON": str(fake), "OUTDIR": str(out), "REST": rest, "TMPDIR": str(tmp_path)}
    run = subprocess.run([SCRIPT, out], env=os.environ | environment, capture_output=True, text=True, check=False)
    assert run.returncode == 1, run.stderr
    return out


def names(path):
    with tarfile.open(path) as tar:
        return sorted(tar.getnames())


def test_few_files_hold_everything(out):
    files = {path.name for path in out.iterdir()}
    assert files == {"device.json", "log.txt", "pytest.xml", "summary.json", "results.tar"}
    assert len(files) <= MOST_FILES
    summary = json.loads((out / "summary.json").read_text())
    assert set(summary) == {"device", "pytest", *tables.WORKLOADS}
    assert {name for name, step in summary.items() if step["exit_code"]} == {"unrolled"}
    left = {path.name for path in out.parent.iterdir()}
    assert left == {"python", "out", "before.tar"}  # the benchmarks' folder is gone


def test_results_are_what_tables_reads(out, tmp_path):
    with tarfile.open(out / "results.tar") as tar:
        tar.extractall(tmp_path / "results", filter="data")
    found = [result["benchmark"] for result in tables.load(tmp_path / "results")]
    assert found == [name for name in tables.WORKLOADS if name != "unrolled"]


def test_results_are_there_after_each_step(out):
    assert names(out.parent / "before.tar") == ["cuda-kernels.json", "cuda-small_graph.json"]
