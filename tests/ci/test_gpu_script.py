"""ci/gpu.sh keeps its times and loses nothing: stages that hang, crash or do not start, and a script that is killed."""

import json
import os
import re
import signal
import subprocess
import threading
import time
import traceback

import pytest
from checkout import ROOT
from gpu_script import CRASHES, DEFAULT, HANGS, SCRIPT, SLEEPS, Script, archive, check_whole, lines

from benchmarks import tables
from ci.gpu import stages

pytestmark = [pytest.mark.cpu, pytest.mark.more]


@pytest.fixture
def script(tmp_path):
    return Script(tmp_path)


def until(condition, seconds=30.0):
    """Waits until something is so."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.02)


# ---- what comes out --------------------------------------------------------------------------------------


def test_all_stages_but_the_sanitizer_run(script):
    code, text = script.run()
    assert code == 0
    assert script.began() == DEFAULT
    summary = script.summary()
    assert list(summary) == DEFAULT
    assert {row["outcome"] for row in summary.values()} == {"passed"}
    assert all({"exit_code", "seconds", "begun", "commit", "counts"} <= set(row) for row in summary.values())
    assert summary["core"]["counts"] == {"passed": 1, "failed": 1}
    assert summary["probe"]["counts"] == {"ok": 1, "not ok": 1}
    assert summary["bench"]["counts"] == {"passed": 1}
    files = {path.name for path in script.out.iterdir()}
    assert files == {"summary.json", "log.txt", "device.json", "probe.jsonl", "failures.jsonl", "results.tar"}
    assert all(f"this is {name}\n" in text for name in DEFAULT)
    assert all(f"this is {name}\n" in (script.out / "log.txt").read_text() for name in DEFAULT)
    suites = [f"{name}.{suffix}" for name in ("capture", "core", "ops", "rest") for suffix in ("xml", "outcomes.jsonl")]
    assert set(archive(script.out)) == {"cuda-kernels.json", "bench.jsonl", *suites}


def test_only_the_stages_that_are_named_run(script):
    assert script.run("ops", "core")[0] == 0
    assert script.began() == ["ops", "core"]
    assert script.run("sanitizer")[0] == 0
    assert list(script.summary()) == ["ops", "core", "sanitizer"]


@pytest.mark.parametrize(("words", "said"), [
    (["bench", "benhc"],
     "there is no stage 'benhc'; there are: device, probe, capture, core, bench, ops, rest, sanitizer"),
    (["--from", "nowhere"], "--from nowhere: there is no such folder"),
])  # fmt: skip
def test_wrong_arguments_are_refused(script, words, said):
    code, text = script.run(*words)
    assert code == 2
    assert said in text
    assert not script.out.exists()


@pytest.mark.parametrize(("words", "seconds"), [
    ([], {"device": 10, "probe": 60, "capture": 45, "core": 90, "bench": 100, "ops": 150, "rest": 79}),
    (["device", "probe", "core", "bench"], {"device": 10, "probe": 60, "core": 90, "bench": 374}),
    (["core", "ops", "rest"], {"core": 90, "ops": 150, "rest": 294}),
    (["bench"], {"bench": 534}),
    (["probe"], {"probe": 60}),
])  # fmt: skip
def test_the_plan_says_what_each_stage_gets(script, words, seconds):
    """The last stage takes what is left."""
    code, text = script.run("--plan", *words)
    assert code == 0
    assert {line.split()[0]: int(line.split()[1]) for line in text.splitlines()} == seconds
    assert not script.out.exists()
    assert not (script.behaviour / "began").exists()


def test_the_calls_that_the_guide_names_fit(script):
    """Their words are taken, and each stage has time to begin."""
    guide = (ROOT / "docs" / "gpu-questions.md").read_text()
    calls = re.findall(r"^    ci/gpu\.sh (out\d)(?: --from out\d)? ([a-z ]+?) *(?:#.*)?$", guide, re.MULTILINE)
    assert len(calls) >= 3
    for _, words in calls:
        code, text = script.run("--plan", *words.split())
        assert code == 0
        for line in text.splitlines():
            name, seconds, _ = line.split()
            assert float(seconds) - stages.STAGES[name].spare > stages.LEAST


def test_an_outdir_that_cannot_be_is_refused(script):
    code, text = script.run(out=script.python)
    assert code == 2
    assert "OUTDIR" in text


def test_a_folder_is_found_from_where_the_script_is_called(script):
    assert script.run("device", out="here")[0] == 0
    check_whole(script.folder / "here")


def test_results_are_what_tables_reads(script, tmp_path):
    script.run("bench")
    folder = tmp_path / "results"
    folder.mkdir()
    command = ["tar", "-xf", script.out / "results.tar", "-C", folder, "--wildcards", "cuda-*.json"]
    subprocess.run(command, check=True)
    assert [path.name for path in folder.iterdir()] == ["cuda-kernels.json"]
    assert [result["benchmark"] for result in tables.load(folder)] == ["kernels"]


def test_every_benchmark_is_run(script):
    # host_time counts the same without a GPU, formulas and compile_time measure code for the CPU, and scaling has CPU
    # cores for its ranks.
    assert set(stages.BENCHMARKS) == set(tables.WORKLOADS) - {"host_time", "formulas", "compile_time", "scaling"}


def test_the_head_of_the_script_says_the_limits():
    text = SCRIPT.read_text()
    for name, stage in stages.STAGES.items():
        assert f"#   {name:<10}{f'{stage.limit:g} s' if stage.limit else '':>5}   " in text
    limits = [stage.limit or 0.0 for stage in stages.STAGES.values()]
    assert sum(limits) + stages.RESERVE < stages.TOTAL - stages.STAGES["rest"].spare


# ---- stages that go wrong --------------------------------------------------------------------------------


def test_a_stage_that_hangs_is_interrupted_and_killed(script):
    script.tell(core=HANGS)
    begin = time.monotonic()
    assert script.run("core", "bench", scale=0.05)[0] == 1  # core has 4.5 s
    assert time.monotonic() - begin < 10
    core, bench = script.summary().values()
    assert (core["exit_code"], core["outcome"]) == (124, "timeout")
    assert re.fullmatch(r"interrupted after [345]\.\d s, and killed.*", core["note"])
    assert core["seconds"] < 6
    assert core["counts"] == {"passed": 1, "failed": 1}
    assert bench["outcome"] == "passed"
    assert "core.outcomes.jsonl" in archive(script.out)


def test_a_stage_may_end_when_it_is_interrupted(script):
    script.tell(core="trap 'echo sorry; exit 2' INT; sleep 600 & wait")
    script.run("core", "probe", scale=0.05)
    core, _ = script.summary().values()
    assert core["note"].startswith("interrupted after")
    assert "killed" not in core["note"]
    assert "sorry" in (script.out / "log.txt").read_text()


def test_what_a_stage_leaves_running_is_ended(script):
    script.tell(probe="sleep 600 & echo $! >$BEHAVIOUR/pid; echo gone")
    begin = time.monotonic()
    assert script.run("probe")[0] == 0
    assert time.monotonic() - begin < 20
    until(lambda: not os.path.exists(f"/proc/{(script.behaviour / 'pid').read_text().strip()}"))


def test_a_crash_ends_one_stage(script):
    script.tell(probe=CRASHES)
    assert script.run("probe", "core")[0] == 1
    probe, core = script.summary().values()
    assert (probe["exit_code"], probe["outcome"], probe["note"]) == (139, "crashed", "ended by SIGSEGV")
    assert probe["counts"] == {"ok": 1, "not ok": 1}
    assert core["outcome"] == "passed"


@pytest.mark.parametrize(("last", "outcome"), [
    ("ModuleNotFoundError: No module named 'cupy'", "did not start"),
    ("/usr/bin/python3: No module named pytest", "did not start"),
    ("1 failed, 3 passed in 3 s", "failed"),
])  # fmt: skip
def test_a_stage_that_fails_to_start_is_named(script, last, outcome):
    script.tell(bench=f'echo "{last}"; exit 1')
    assert script.run("bench", "ops")[0] == 1
    bench, ops = script.summary().values()
    assert (bench["exit_code"], bench["outcome"]) == (1, outcome)
    assert bench["note"] == last
    assert ops["outcome"] == "passed"


@pytest.mark.parametrize("code", [126, 127])
def test_a_python_that_is_not_there_is_named(script, code):
    missing = script.folder / "no-python"
    if code == 126:
        missing.write_text("")
    assert script.run("device", "probe", python=missing)[0] == 1
    for row in script.summary().values():
        assert (row["exit_code"], row["outcome"]) == (code, "did not start")
        assert "no-python" in row["note"]


def test_a_suite_that_was_cut_short_says_so(script):
    line = '{"session": "7 of 9 tests were not run"}'
    script.tell(ops=f"echo '{line}' >>$results/ops.outcomes.jsonl; exit 2")
    assert script.run("ops")[0] == 1
    (ops,) = script.summary().values()
    assert (ops["exit_code"], ops["outcome"], ops["note"]) == (2, "cut short", "7 of 9 tests were not run")


@pytest.mark.more
def test_all_stages_together_keep_the_time_though_each_hangs(script):
    script.tell(**dict.fromkeys(DEFAULT, HANGS))
    scale = 0.02
    begin = time.monotonic()
    assert script.run(scale=scale)[0] == 1
    assert time.monotonic() - begin < 540 * scale + 1  # the start of the script itself does not scale
    summary = script.summary()
    assert {name: row["outcome"] for name, row in summary.items()} == dict.fromkeys(DEFAULT, "timeout")
    assert summary["rest"]["seconds"] > 60 * scale


def test_a_stage_without_time_is_not_started_and_keeps_its_results(script):
    script.run("ops")
    script.tell(rest=HANGS)
    code, text = script.run("device", "rest", "ops", "bench", scale=0.01)
    assert code == 1
    summary = script.summary()
    assert summary["rest"]["seconds"] > 4.8  # of 5.4: all that the others have left
    assert "ops: not started, no time is left" in text
    assert summary["ops"]["outcome"] == "passed"
    assert summary["bench"]["outcome"] == "not started"


# ---- a script that is ended ------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("behaviour", [SLEEPS, HANGS])
def test_a_signal_ends_the_stage_and_keeps_what_there_is(script, number, behaviour):
    script.tell(core=behaviour)
    process = script.start("probe", "core", "ops")
    until(lambda: script.behaviour.joinpath("began").exists() and "core" in script.began())
    begin = time.monotonic()
    process.send_signal(number)
    process.communicate(timeout=30)
    assert time.monotonic() - begin < 6
    assert process.returncode == 128 + number
    check_whole(script.out)
    summary = script.summary()
    assert list(summary) == ["probe", "core"]
    assert summary["core"]["outcome"] == "interrupted"
    assert "core.outcomes.jsonl" in archive(script.out)


def test_a_kill_leaves_whole_files(script):
    script.tell(core=f"echo $$ >$BEHAVIOUR/pid; {SLEEPS}", bench="echo x >$CUPY_CACHE_DIR/kernel.cubin")
    process = script.start("bench", "core", scale=0.2)
    try:
        until(lambda: (script.out / "results.tar").exists() and "core.outcomes.jsonl" in archive(script.out))
    finally:
        process.kill()
        process.communicate()
    check_whole(script.out)
    until(lambda: not os.path.exists(f"/proc/{(script.behaviour / 'pid').read_text().strip()}"))
    assert script.summary()["core"] == {"outcome": "running"} | {
        key: script.summary()["core"][key] for key in ("begun", "commit")
    }
    assert "cuda-kernels.json" in archive(script.out)
    assert (script.out / "kernels-1.zip").exists()


def test_files_are_whole_at_any_time(script):
    """As a reader sees them who looks all the time."""
    change = (
        "for i in {1..30}; do head -c 600000 /dev/urandom >$CUPY_CACHE_DIR/$stage-$i.cubin; "
        "echo \"{\\\"i\\\": $i}\" >$results/x.part; mv $results/x.part $results/cuda-ops.json; sleep 0.02; done"
    )
    script.tell(bench=change, core=change)
    seen, wrong, over = set(), [], threading.Event()

    def look():
        try:
            while not over.is_set():
                seen.update(_look(script.out) if script.out.exists() else ())
        except Exception as error:
            wrong.append("".join(traceback.format_exception(error)))

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        script.run("bench", "core", scale=0.05)
    finally:
        over.set()
        watcher.join()
    assert not wrong
    assert {name for name, _ in seen} >= {"results.tar", "kernels-1.zip", "kernels-2.zip", "summary.json"}
    assert len(seen) > 15  # they have changed under the reader's eyes
    assert "compiled kernels are packed, those used last" in (script.out / "log.txt").read_text()


def _look(out):
    for attempt in range(3):
        try:
            check_whole(out)
            break
        except FileNotFoundError:  # a file of the listing has been renamed into another
            assert attempt < 2
    return {(path.name, path.stat().st_mtime_ns) for path in out.iterdir() if path.exists()}


# ---- going on --------------------------------------------------------------------------------------------


def test_results_of_other_stages_are_kept(script):
    script.run("core", "bench", "ops")
    before = archive(script.out)
    script.tell(core="echo again >$results/core.xml")
    script.run("core")
    assert list(script.summary()) == ["bench", "ops", "core"]
    after = archive(script.out)
    assert after.pop("core.xml") == "again\n"
    assert before.pop("core.xml") == "<testsuites/>\n"
    assert after == before
    assert [line["test"] for line in lines(script.out / "failures.jsonl")] == ["ops::bad", "core::bad"]
    assert script.passed("core") == []


def test_an_earlier_run_brings_kernels_and_leaves_out_what_passed(script):
    script.tell(core="echo one >$CUPY_CACHE_DIR/a.cubin; echo two >$CUPY_CACHE_DIR/b.cubin")
    script.run("core", "bench")
    later = script.folder / "later"
    script.tell(core=f"[[ -f $CUPY_CACHE_DIR/b.cubin ]] || {CRASHES}")
    code, text = script.run("--from", script.out, "core", "ops", out=later)
    assert code == 0
    assert f"{script.out} brings 2 compiled kernels and 1 tests that passed" in text
    assert script.kernels("core") == ["a.cubin", "b.cubin"]
    assert script.passed("core") == script.passed("ops") == ["core::good"]
    assert list(script.summary(later)) == ["bench", "core", "ops"]
    assert script.summary(later)["core"]["counts"] == {"passed": 1, "failed": 1}
    assert "cuda-kernels.json" in archive(later)
    third = script.folder / "third"
    script.run("ops", "--from", later, out=third)
    assert sorted(script.passed("ops")) == ["core::good", "ops::good"]


def test_a_test_that_passed_earlier_has_a_line_that_says_so(script):
    line = '{"test": "core::once", "outcome": "passed"}'
    script.tell(core=f"echo '{line}' >>$results/core.outcomes.jsonl")
    script.run("core")
    later = script.folder / "later"
    script.tell(core="")
    script.run("core", "--from", script.out, out=later)
    actual = [json.loads(line) for line in archive(later)["core.outcomes.jsonl"].splitlines()]
    assert actual[0] == {"test": "core::good", "outcome": "passed", "earlier": True}
    assert script.summary(later)["core"]["counts"] == {"passed": 1, "passed earlier": 1, "failed": 1}


def test_a_run_may_go_on_in_its_own_folder(script):
    script.run("core")
    script.run("core", "--from", script.out)
    assert script.passed("core") == ["core::good"]
    assert script.summary()["core"]["counts"] == {"passed": 1, "failed": 1}


def test_an_earlier_run_does_not_take_the_place_of_newer_results(script):
    script.run("core", "bench")
    later = script.folder / "later"
    script.tell(core="echo new >$results/core.xml")
    script.run("core", out=later)
    script.run("device", "--from", script.out, out=later)
    assert archive(later)["core.xml"] == "new\n"
