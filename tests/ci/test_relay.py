"""Jobs and workloads that share a process: one that fails, crashes, hangs or takes too long is lost alone."""

import atexit
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from checkout import ROOT

from benchmarks import relay, together
from benchmarks.relay import Job

pytestmark = [pytest.mark.cpu, pytest.mark.more]



def do(name, seconds):
    """What the jobs below do, by their names."""
    atexit.register(print, f"the process of {name} shuts down", flush=True)
    if name == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if name == "leave":
        os._exit(3)
    if name == "hang":
        time.sleep(60)
    return (name, os.getpid()), name != "spoil"


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setattr(relay, "STARTS", 5.0)
    monkeypatch.setattr(relay, "GRACE", 0.5)

    def run(*jobs, seconds=60.0):
        jobs = [Job(job, 1.0) if isinstance(job, str) else job for job in jobs]
        return {answer.job.name: answer for answer in relay.relay(jobs, do, time.monotonic() + seconds)}

    return run


def pid(answer):
    return answer.value[1]


def test_jobs_share_a_process(run):
    result = run("a", "b")
    assert [answer.value[0] for answer in result.values()] == ["a", "b"]
    assert pid(result["a"]) == pid(result["b"]) != os.getpid()


def test_a_crash_loses_one_job(run):
    result = run("a", "crash", "b", "leave", "c")
    assert result["crash"].lost == "its process ended with SIGSEGV"
    assert result["leave"].lost == "its process ended with exit code 3"
    assert len({pid(result[name]) for name in "abc"}) == 3


def test_what_a_spoiled_process_holds_is_not_finalized(run, capfd):
    result = run("a", "spoil", "b")
    assert pid(result["a"]) == pid(result["spoil"]) != pid(result["b"])
    assert capfd.readouterr() == ("the process of b shuts down\n", "")


def test_a_hanging_job_is_killed(run):
    begin = time.monotonic()
    result = run("a", Job("hang", 0.5), "b")
    assert result["hang"].lost == "hung: no answer within 1.0 s"
    assert result["b"].value[0] == "b"
    assert time.monotonic() - begin < 20


def test_what_leaves_a_bad_device_is_the_last_of_its_process(run):
    result = run("a", "spoil", "b", "c")
    assert pid(result["a"]) == pid(result["spoil"])
    assert pid(result["b"]) == pid(result["c"]) != pid(result["a"])


def test_nothing_begins_when_no_time_is_left(run):
    result = run("a", seconds=-1.0)
    assert result["a"].lost == "not run: no time was left"


# ---- workloads -------------------------------------------------------------------------------------------

WORKLOAD = """
import os, sys, time
{body}
def main(argv):
    json = argv[argv.index("--json") + 1]
    with open(json, "w") as file:
        file.write(str(os.getpid()))
    work()
"""
BODIES = {
    "fine": "def work(): pass",
    "other": "def work(): pass",
    "wrong": "def work(): raise ValueError('two libraries differ')",
    "ends": "def work(): sys.exit('2 of 3 cases failed')",
    "dies": "def work(): os._exit(9)",
    "slow": "def work(): time.sleep(60)",
    "poisons": (
        "import types\n"
        "def refuse(): raise RuntimeError('cudaErrorIllegalAddress')\n"
        "def work():\n"
        "    runtime = types.SimpleNamespace(deviceSynchronize=refuse)\n"
        "    sys.modules['cupy'] = types.SimpleNamespace(cuda=types.SimpleNamespace(runtime=runtime))\n"
        "    refuse()"
    ),
}
SCRIPT = """
import sys, pathlib
import benchmarks
from benchmarks import together
benchmarks.__path__.append({folder!r})

if __name__ == "__main__":
    folder = pathlib.Path({folder!r})
    calls = {{name: ["--json", str(folder / (name + ".json"))] for name in {names!r}}}
    print(together.run_together(calls, {seconds}, folder / "lines.jsonl"))
"""


@pytest.fixture
def workloads(tmp_path):
    """Runs workloads that stand in for those of benchmarks; their lines, and the processes that they ran in."""

    def run(*names, seconds=60.0):
        for name in names:
            (tmp_path / f"{name}.py").write_text(WORKLOAD.format(body=BODIES[name]))
        script = tmp_path / "script.py"
        script.write_text(SCRIPT.format(folder=str(tmp_path), names=names, seconds=seconds))
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        subprocess.run([sys.executable, script], env=environment, check=True, timeout=100)
        lines = [json.loads(line) for line in (tmp_path / "lines.jsonl").read_text().splitlines()]
        assert [line["benchmark"] for line in lines] == list(names)
        pids = {path.stem: path.read_text() for path in tmp_path.glob("*.json")}
        return {line["benchmark"]: line for line in lines}, pids

    return run


def test_a_workload_that_fails_takes_no_other_along(workloads):
    lines, pids = workloads("fine", "wrong", "ends", "dies", "other")
    assert {name: line["outcome"] for name, line in lines.items()} == {
        "fine": "passed", "wrong": "failed", "ends": "failed", "dies": "lost", "other": "passed",
    }  # fmt: skip
    assert lines["wrong"]["error"] == "ValueError: two libraries differ"
    assert lines["ends"]["error"] == "2 of 3 cases failed"
    assert lines["dies"]["error"] == "its process ended with exit code 9"
    assert pids["fine"] == pids["wrong"] == pids["ends"] == pids["dies"] != pids["other"]


def test_a_workload_with_too_little_time_leaves_some_to_the_next(workloads):
    lines, pids = workloads("slow", "fine", seconds=8.0)
    assert lines["slow"]["outcome"] == "cut short"
    assert lines["slow"]["seconds"] < 8
    assert lines["fine"]["outcome"] == "passed"
    assert pids["slow"] == pids["fine"]


def test_a_workload_that_is_not_come_to_has_not_failed(workloads, capfd):
    lines, _ = workloads("fine", "other", seconds=0.0)
    assert {line["outcome"] for line in lines.values()} == {"not run"}
    assert capfd.readouterr().out.splitlines()[-1] == "[]"


def test_a_device_that_answers_no_more_is_met_by_nobody_else(workloads):
    lines, pids = workloads("poisons", "fine")
    assert lines["poisons"]["error"] == "RuntimeError: cudaErrorIllegalAddress"
    assert pids["poisons"] != pids["fine"]


class Busy:
    """Is at work in its finalizer, where an exception is printed and lost."""

    def __del__(self):
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            pass


def test_out_of_time_comes_again_where_it_was_lost(monkeypatch):
    lost = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: lost.append(unraisable.exc_type))

    def work():
        Busy()
        time.sleep(10)

    with together.at_most(0.3), pytest.raises(together.OutOfTime):
        work()
    assert lost == [together.OutOfTime]
