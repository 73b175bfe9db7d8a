"""Programs and checks under `mpiexec`: many checks in one start of the processes.

A file of checks has functions `check_...()`, which every rank calls in their order, in an initialized process group.
As a program, `python ranks.py OUT FILE ...`, this file runs them on one rank and writes what came of each to a file
in OUT.
"""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import traceback
from pathlib import Path

import pytest
from checkout import STAND_IN
from process_group import process_group

ROOT = Path(__file__).resolve().parents[2]
CHECKS = Path(__file__).parent / "rank_checks"
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}
TIMEOUT = 20.0  # seconds of a collective in a check


def mpiexec() -> str | None:
    """The mpiexec beside this Python, else the system's; None without it or without mpi4py."""
    beside = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")
    return beside if importlib.util.find_spec("mpi4py") is not None else None


def start(count, *command, **environment):
    """A context with a Popen: `python *command` on `count` ranks, with its output in pipes. Skips without MPI."""
    launcher = mpiexec()
    if launcher is None:
        pytest.skip("needs mpi4py and mpiexec: pip install 'autograd-gpu[dist]'")
    env = {**os.environ, **ONE_THREAD, "PYTHONPATH": f"{ROOT}{os.pathsep}{Path(__file__).parent}", **environment}
    whole = [launcher, "-bind-to", "none", "-n", str(count), sys.executable, *map(str, command)]
    return process_group(whole, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


class Process:
    """A process that a child has started."""

    def __init__(self, pid):
        self.pid = pid

    def send_signal(self, number):
        os.kill(self.pid, number)


def processes_below(pid, word):
    """The ranks with `word` in their command that the mpiexec with that process id has started, by rank."""
    by_rank = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command, environment = ((folder / name).read_bytes().split(b"\0") for name in ("cmdline", "environ"))
            parent = int(re.search(r"PPid:\s+(\d+)", (folder / "status").read_text())[1])
            grandparent = int(re.search(r"PPid:\s+(\d+)", Path(f"/proc/{parent}/status").read_text())[1])
        except OSError:  # it has ended, or is another user's
            continue
        rank = next((int(entry[9:]) for entry in environment if entry.startswith(b"PMI_RANK=")), None)
        if rank is not None and pid in (parent, grandparent) and word.encode() in command:
            by_rank[rank] = Process(int(folder.name))
    return [by_rank[rank] for rank in sorted(by_rank)]


def run(count, *command, timeout=120, **environment):
    """The exit status, stdout and stderr of `python *command` on `count` ranks."""
    with start(count, *command, **environment) as process:
        out, err = process.communicate(timeout=timeout)
    return process.returncode, out, err


def run_checks(files, count, folder, **environment):
    """Runs the checks of files in rank_checks/ on `count` ranks; AssertionError that says what failed on which rank."""
    paths = [CHECKS / f"{file}.py" for file in files]
    status, out, err = run(count, __file__, folder, *paths, **environment)
    reports = [json.loads(path.read_text()) for path in sorted(Path(folder).glob("rank*.json"))]
    failed = [f"{name} on rank {rank} of {count}:\n{text}" for rank, report in enumerate(reports)
              for name, text in report.items() if text]  # fmt: skip
    assert not failed, "\n".join(failed)
    assert status == 0, f"mpiexec ended with {status}\n{out}\n{err}"
    assert len(reports) == count
    assert all(reports[0]), "no check has run"
    assert all(list(report) == list(reports[0]) for report in reports)


def _checks(files):
    """The checks of the files, by name."""
    for file in files:
        spec = importlib.util.spec_from_file_location(Path(file).stem, file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield from ((f"{Path(file).stem}.{name}", value) for name, value in list(vars(module).items())
                    if name.startswith("check_"))  # fmt: skip


def _main(out, *files):
    device, backend = os.environ.get("CHECKS_ON", "cpu mpi").split()
    if device == "cuda":
        sys.path.insert(0, str(STAND_IN))
    import autograd_gpu as ag

    if device == "cuda":
        ag.cuda.set_device(int(os.environ["PMI_RANK"]))
        ag.set_default_device("cuda")
    ag.distributed.init_process_group(backend, timeout=TIMEOUT)
    rank, report = ag.distributed.get_rank(), {}
    for name, check in _checks(files):
        report[name] = ""
        try:
            check()
            ag.distributed.barrier()
        except (Exception, pytest.fail.Exception):  # the ranks are out of step from here on
            report[name] = traceback.format_exc()
            break
    Path(out, f"rank{rank}.json").write_text(json.dumps(report))


if __name__ == "__main__":
    _main(*sys.argv[1:])
