"""Runs ci/gpu.sh with a script in the place of Python: it leaves the files of each stage, and does what it is told."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

from checkout import ROOT

SCRIPT = ROOT / "ci" / "gpu.sh"
DEFAULT = ["device", "probe", "capture", "core", "bench", "ops", "rest"]
MOST_FILES, MOST_BYTES = 8, 16 << 20  # come back from a machine that is lent

FAKE = r"""#!/usr/bin/env bash
module=$2
case $module in
  ci.gpu.device) stage=device device=$3 ;;
  ci.gpu.suite) stage=$3 ;;
  ci.gpu.sanitizer) stage=sanitizer ;;
  *) stage=${module#benchmarks.} ;;
esac
[[ $stage == benchmarks ]] && stage=bench
for word in "$@"; do
  [[ $last == --lines ]] && lines=$word
  [[ $last == --results || $last == --out ]] && results=$word
  [[ $last == --failures ]] && failures=$word
  [[ $last == --passed ]] && passed=$word
  last=$word
done
echo "this is $stage"
case $stage in
  device) echo '{"name": "none"}' >"$device" ;;
  probe) echo '{"check": "one", "ok": true}' >>"$lines"; echo '{"check": "two", "ok": false}' >>"$lines" ;;
  bench)
    echo '{"benchmark": "kernels", "config": {"tiny": false}}' >"$results/cuda-kernels.json"
    echo '{"benchmark": "kernels", "outcome": "passed"}' >>"$lines" ;;
  capture | core | ops | rest)
    cp "$passed" "$BEHAVIOUR/$stage.passed"
    echo "<testsuites/>" >"$results/$stage.xml"
    echo "{\"stage\": \"$stage\", \"test\": \"$stage::bad\", \"lines\": []}" >>"$failures"
    echo "{\"test\": \"$stage::good\", \"outcome\": \"passed\"}" >>"$results/$stage.outcomes.jsonl"
    echo "{\"test\": \"$stage::bad\", \"outcome\": \"failed\"}" >>"$results/$stage.outcomes.jsonl" ;;
esac
echo "$stage" >>"$BEHAVIOUR/began"
[[ -f $BEHAVIOUR/$stage ]] && . "$BEHAVIOUR/$stage"
ls "$CUPY_CACHE_DIR" >"$BEHAVIOUR/$stage.kernels"
exit 0
"""
# What a stage may be told to do.
HANGS = "trap '' INT TERM; sleep 600"
SLEEPS = "sleep 600"
CRASHES = "kill -SEGV $$"


class Script:
    """ci/gpu.sh with its stand-in for Python in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out = folder, folder / "out"
        self.python, self.behaviour, self.scratch = folder / "python", folder / "behaviour", folder / "scratch"
        self.behaviour.mkdir()
        self.scratch.mkdir()
        self.python.write_text(FAKE)
        self.python.chmod(0o755)

    def tell(self, **stages: str) -> None:
        """What stages do, in bash, after they have left their files."""
        for name, text in stages.items():
            (self.behaviour / name).write_text(text + "\n")

    def start(self, *words: object, scale: float = 1.0, python: object = None, **how: object) -> subprocess.Popen:
        environment = os.environ | {
            "PYTHON": str(python or self.python), "BEHAVIOUR": str(self.behaviour), "GPU_SH_SCALE": str(scale),
            "TMPDIR": str(self.scratch), "GPU_SH_PYTHON": sys.executable,
        }  # fmt: skip
        out = how.pop("out", self.out)
        return subprocess.Popen(
            [SCRIPT, out, *words], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            cwd=self.folder, **how,
        )  # fmt: skip

    def run(self, *words: object, **how: object) -> tuple[int, str]:
        """The exit code, and what was printed; the files that are left are looked at."""
        out = self.folder / how.get("out", self.out)
        process = self.start(*words, **how)
        text, _ = process.communicate(timeout=300)
        assert not list(self.scratch.iterdir())
        if out.is_dir():
            check_whole(out)
        return process.returncode, text

    def summary(self, out: Path | None = None) -> dict:
        return json.loads(((out or self.out) / "summary.json").read_text())

    def began(self) -> list[str]:
        """The stages that began, in order."""
        return (self.behaviour / "began").read_text().split()

    def passed(self, stage: str) -> list[str]:
        """Names of the tests that a stage had to leave out."""
        return json.loads((self.behaviour / f"{stage}.passed").read_text())

    def kernels(self, stage: str) -> list[str]:
        """What was in CuPy's cache at the end of a stage."""
        return (self.behaviour / f"{stage}.kernels").read_text().split()


def lines(path: Path) -> list:
    return [json.loads(line) for line in path.read_text().splitlines()]


def archive(out: Path) -> dict[str, str]:
    """What results.tar holds, by name."""
    with tarfile.open(out / "results.tar") as tar:
        return {name: tar.extractfile(name).read().decode() for name in tar.getnames()}


def check_whole(out: Path) -> None:
    """Few files of few bytes with plain names, and every one of them can be read."""
    files = list(out.iterdir())
    assert len(files) <= MOST_FILES
    for path in files:
        assert path.is_file()
        assert set(path.name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
        data = path.read_bytes()
        assert len(data) < MOST_BYTES
        if path.suffix == ".json":
            json.loads(data)
        elif path.suffix == ".jsonl":
            assert all(isinstance(json.loads(line), dict) for line in data.splitlines())
        elif path.suffix == ".tar":
            with tarfile.open(fileobj=io.BytesIO(data)) as tar:
                assert all(tar.extractfile(member) for member in tar)
        elif path.suffix == ".zip":
            with zipfile.ZipFile(io.BytesIO(data)) as file:
                assert file.testzip() is None
