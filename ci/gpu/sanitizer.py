"""The stage sanitizer: compute-sanitizer over every kernel instance: python -m ci.gpu.sanitizer FILE --seconds S.

tests/backend/kernels/test_every_instance.py launches each instance with real arguments. It runs once for each file of
kernels/ and each tool, several at a time, since an error that the sanitizer finds ends the use of the device by that
process. FILE gets a line for each run.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
TOOLS = {
    "memcheck": ("--tool=memcheck", "--leak-check=no"),
    "racecheck": ("--tool=racecheck", "--racecheck-report=all"),
}
INSTANCES = "tests/backend/kernels/test_every_instance.py"
NAME, TOOLKIT = "compute-sanitizer", "/usr/local/cuda/bin"
TOGETHER = 4  # runs, each slow on the host and seldom on the device
FOUND = 86  # exit code for errors that the tool has found
LINES, WIDTH = 200, 400  # of the output, in the file
COUNT = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (\d+)")
REFUSAL = re.compile(r".*not supported.*")  # such as "Device not supported"


class Case(NamedTuple):
    """One tool over one file."""

    tool: str
    file: str

    @property
    def command(self) -> list[str]:
        driver = ["-m", "pytest", "--device", "cuda", INSTANCES, "-k", f"[{self.file}"]
        quiet = ["-q", "--tb=short", "-p", "no:cacheprovider", "-p", "no:benchmark", "-p", "no:xdist"]
        return [find() or NAME, *TOOLS[self.tool], f"--error-exitcode={FOUND}", sys.executable, *driver, *quiet]


def find() -> str | None:
    """The program, on the PATH or where NVIDIA's toolkit puts it."""
    return shutil.which(NAME) or shutil.which(NAME, path=TOOLKIT)


def cases() -> list[Case]:
    """All of them, memcheck first."""
    files = sorted(path.name for path in (ROOT / "kernels").glob("*.cu"))
    return [Case(tool, file) for tool in TOOLS for file in files]


def run(case: Case, until: float) -> dict[str, Any]:
    """The line of a case: what the tool counted, and the end of the output unless all is well."""
    begin, name = time.monotonic(), f"{case.tool} {case.file}"
    if begin >= until:
        return {"check": name, "ok": False, "error": "not run: no time was left"}
    with tempfile.TemporaryFile() as output:  # what it leaves running might hold the end of a pipe
        process = subprocess.Popen(case.command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
        try:
            code = process.wait(until - begin)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        output.seek(0)
        text = output.read().decode(errors="replace")
    seconds = time.monotonic() - begin
    return {"check": name} | judged(code, text, late=time.monotonic() >= until) | {"seconds": round(seconds, 2)}


def judged(code: int, text: str, late: bool = False) -> dict[str, Any]:
    """Whether the tool has found nothing, what it counted, and if all is not well why, and the end of the output."""
    counted = COUNT.findall(text)
    verdict: dict[str, Any] = {"ok": code == 0 and counted[-1:] == ["0"], "exit_code": code}
    if counted:
        verdict["errors"] = int(counted[-1])
    if not verdict["ok"]:
        refused = REFUSAL.search(text)
        said = f"{verdict['errors']} errors" if counted else refused[0].strip() if refused else "no summary of the tool"
        verdict["error"] = "no time was left" if late else f"{said}, exit code {code}"
        verdict["lines"] = [line[:WIDTH] for line in text.splitlines()[-LINES:]]
    return verdict


def main(argv: Sequence[str] | None = None) -> int:
    """Runs all cases, or says why none can run."""
    parser = argparse.ArgumentParser(prog="python -m ci.gpu.sanitizer", description=(__doc__ or "").partition(":")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--seconds", type=float, required=True, help="after so long no run goes on")
    args = parser.parse_args(argv)
    until = time.monotonic() + args.seconds
    if find() is None:
        print(f"{NAME} is not installed, or neither on the PATH nor in {TOOLKIT}: no kernel was checked")
        return 127
    bad = 0
    with args.file.open("a") as file, ThreadPoolExecutor(TOGETHER) as pool:
        for line in pool.map(lambda case: run(case, until), cases()):
            bad += not line["ok"]
            file.write(json.dumps(line) + "\n")
            file.flush()
            print(line["check"], "ok" if line["ok"] else line["error"], flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
