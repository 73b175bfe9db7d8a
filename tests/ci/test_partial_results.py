"""A benchmark's JSON is written after every case, whole at any time, and the tables say what it lacks."""

import json
import os

import pytest

from benchmarks import common, headline_tables, kernels, ops, report, small_graph, tables
from benchmarks.report import OURS, Report
from benchmarks.timing import Timing
from benchmarks.together import OutOfTime

pytestmark = [pytest.mark.cpu, pytest.mark.more]
PAIR = {OURS: Timing((1.0,) * 7), "torch": Timing((2.0,) * 7)}
RESULTS = [result for result in tables.load() if not tables.gaps(result)]  # those of the CPU, as committed


@pytest.fixture
def path(tmp_path):
    return tmp_path / "cpu-small_graph.json"


def cases_in(path):
    return [case["case"] for case in json.loads(path.read_text())["cases"]]


def test_the_file_is_written_after_every_case(path):
    written = Report("small_graph", "title", "cpu", {"tiny": False}, {}, path)
    written.plan(["a", "b"])
    assert cases_in(path) == []
    written.add("a", PAIR)
    assert cases_in(path) == ["a"]
    written.add("b", PAIR)
    assert cases_in(path) == ["a", "b"]
    assert json.loads(path.read_text())["planned"] == ["a", "b"]
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_cases_that_were_measured_in_turns_are_written_together(path, monkeypatch):
    written, replaced = Report("ops", "title", "cpu", {"tiny": False}, {}, path), []
    monkeypatch.setattr(os, "replace", lambda source, target: replaced.append(source.rename(target)))
    with written.at_once():
        for case in "abc":
            written.add(case, PAIR)
    assert (cases_in(path), len(replaced)) == (["a", "b", "c"], 1)
    written.add("d", PAIR)
    assert cases_in(path)[-1] == "d"


def test_the_file_is_whole_where_writing_is_cut_short(path, monkeypatch):
    written = Report("small_graph", "title", "cpu", {"tiny": False}, {}, path)
    written.add("a", PAIR)

    def killed(*names):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        written.add("b", PAIR)
    assert cases_in(path) == ["a"]


@pytest.fixture
def agreement(monkeypatch):
    """`agreement[case] = error` makes the comparison of a case of small_graph raise it."""
    errors = {}

    def require_agreement(results, tolerance, case):
        if case in errors:
            raise errors[case]
        return common.require_agreement(results, tolerance, case)

    monkeypatch.setattr(small_graph, "require_agreement", require_agreement)
    return errors


def run(path):
    small_graph.main(["--tiny", "--peers", "none", "--repeats", "7", "--json", str(path)])


def test_a_case_that_fails_takes_no_other_along(path, agreement, capsys):
    agreement["a*b"] = common.Disagreement("a*b: they differ")
    with pytest.raises(SystemExit, match="small_graph: 1 of 4 cases failed"):
        run(path)
    result = json.loads(path.read_text())
    assert result["failed"] == {"a*b": "Disagreement: a*b: they differ"}
    assert cases_in(path) == result["planned"][1:]
    assert len(result["planned"]) == 4
    assert "a*b: failed, Disagreement" in capsys.readouterr().out


def test_what_was_measured_stays_when_time_is_up(path, agreement):
    agreement["20 products, forward and grad"] = OutOfTime()
    with pytest.raises(OutOfTime):
        run(path)
    assert cases_in(path) == ["a*b", "grad(a*b, [a, b], g)"]


def test_ops_come_out_some_at_a_time_on_cuda(monkeypatch):
    written, sizes = Report("ops", "title", "cuda", {}, {}), []
    cases = {str(number): {OURS: int} for number in range(2 * ops.TOGETHER + 1)}

    def interleave(contenders, *args, **kwargs):
        sizes.append(len(contenders))
        return {contender.name: PAIR[OURS] for contender in contenders}

    monkeypatch.setattr(ops, "interleave", interleave)
    monkeypatch.setattr(ops, "check", lambda case, calls: None if case != "3" else 1 / 0)
    for device, expected in (("cuda", [ops.TOGETHER - 1, ops.TOGETHER, 1]), ("cpu", [2 * ops.TOGETHER])):
        sizes.clear()
        args = ops.parser().parse_args(["--device", device])
        args.sample_s = 1e-3
        ops.measure(written, cases, {}, args)
        assert sizes == expected
    assert written.failed == {"3": "ZeroDivisionError: division by zero"}


def test_a_family_that_fails_takes_no_other_along(monkeypatch):
    written = Report("kernels", "title", "cuda", {}, {})
    measured = []

    def measure_family(report, name, clock, args):
        measured.append(name)
        if name == "softmax":
            raise RuntimeError("cudaErrorInvalidValue")

    monkeypatch.setattr(kernels, "measure_family", measure_family)
    monkeypatch.setattr(kernels, "DeviceClock", lambda nbytes: None)
    args = kernels.parser().parse_args(["--device", "cuda", "--tiny", "--families", "row_sum,softmax,dropout"])
    kernels.measure_kernels(written, args)
    assert measured == ["row_sum", "softmax", "dropout"]
    assert list(written.failed) == [f"softmax, {dtype}" for dtype in ("float32", "float64", "float16", "bfloat16")]


# ---- tables ----------------------------------------------------------------------------------------------


def shortened(result, count):
    """The result of a run that stopped after `count` cases, before its last one in any event."""
    planned = [case["case"] for case in result["cases"]]
    return result | {"planned": planned, "cases": result["cases"][:-1][:count], "summary": {}}


@pytest.mark.parametrize("count", [0, 1, 3, -1])
@pytest.mark.parametrize("result", RESULTS, ids=lambda result: result["benchmark"])
def test_tables_say_what_is_missing(result, count):
    short = shortened(result, count)
    missing = len(short["planned"]) - len(short["cases"])
    said = f"Cut short: {missing} of {len(short['planned'])} cases were not measured: "
    for render in [render for name, render in tables.BLOCKS.items() if name not in ("headlines", "ratios")]:
        text = " ".join(render([short]).split())  # its lines are wrapped
        assert (said in text) == (text != "")
        if text:
            assert result["title"].partition(", ms a step")[0] in text
            assert short["planned"][len(short["cases"])] in text
            assert f", and {missing - tables.NAMED} more" in text or missing <= tables.NAMED


@pytest.mark.parametrize("count", [0, 1, -1])
@pytest.mark.parametrize("result", RESULTS, ids=lambda result: result["benchmark"])
def test_headlines_show_what_was_measured(result, count):
    short = shortened(result, count)
    chosen = {row.label: getattr(row, result["device"]) for row in headline_tables.SHOWN
              if row.benchmark == result["benchmark"]}  # fmt: skip
    measured = {case["case"] for case in short["cases"]}
    expected = [label for label, case in chosen.items() if case in measured]
    rows = [row for row in tables.BLOCKS["headlines"]([short]).splitlines() if row.startswith("| ")]
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows[2:]] == expected
    assert bool(rows) == bool(expected)


def test_kernels_are_shown_as_far_as_they_were_measured():
    written = Report("kernels", "Kernels", "cuda", {}, {})
    written.planned = ["softmax, float32", "softmax, float64", "product NN, TF32, 128", "SGD, batch 128"]
    counts = {OURS: {"GB/s": 60}, "copy": {"GB/s": 80}}
    written.add("softmax, float32", {OURS: PAIR[OURS], "copy": PAIR[OURS]}, counts=counts)
    written.failed["softmax, float64"] = "RuntimeError: two\nlines"
    text = tables.render_one({"benchmark": "kernels", "title": "Kernels"} | vars(written))
    assert "| `softmax` | 60 |" in text
    assert "| `softmax` | 100% |" in text
    assert "2 of 4 cases were not measured: product NN, TF32, 128; SGD, batch 128.</sub>" in text
    assert "<sub>softmax, float64 failed: RuntimeError: two lines</sub>" in text


def test_whole_results_have_no_such_line():
    assert all(tables.gaps(result) == [] for result in RESULTS)
    assert "Cut short" not in tables.render(RESULTS)


def test_the_environment_is_asked_once(path, monkeypatch):
    asked = []
    monkeypatch.setattr(report, "environment", lambda device: asked.append(device) or {})
    written = Report("small_graph", "title", "cpu", {}, {}, path)
    for case in "abc":
        written.add(case, PAIR)
    assert asked == ["cpu"]
