"""`python -m benchmarks check` finds what was slowed down on purpose, and nothing in the noise."""

import copy
import json

import numpy as np
import pytest

from benchmarks import __main__, regressions
from benchmarks.report import OURS
from benchmarks.tables import RESULTS

pytestmark = pytest.mark.cpu
FILES = sorted(path.name for path in RESULTS.glob("*.json"))


def committed(name):
    return json.loads((RESULTS / name).read_text())


def resampled(result, rng, slowed=()):
    """Another run of the same: turns drawn from those of the first, ours slowed by a factor in some cases."""
    result = copy.deepcopy(result)
    for case in result["cases"]:
        factor = dict(slowed).get(case["case"], 1.0)
        turns = rng.integers(0, case["repeats"], case["repeats"])
        for name, contender in case["contenders"].items():
            taken = [contender["samples_s"][turn] * (factor if name == OURS else 1.0) for turn in turns]
            contender |= {"samples_s": taken, "median_s": float(np.median(taken)), "min_s": min(taken)}
        ours = case["contenders"][OURS]
        for contender in case["contenders"].values():
            contender["ratio"] = ours["median_s"] / contender["median_s"]
            contender["ratio_min"] = ours["min_s"] / contender["min_s"]
    return result


@pytest.mark.parametrize("name", FILES)
def test_the_noise_of_a_run_is_no_regression(name):
    """Turns drawn anew from the committed samples: the same code, with all the outliers that were there."""
    old, rng = committed(name), np.random.default_rng(3)
    found = [finding for _ in range(3) for finding in regressions.compare(resampled(old, rng), resampled(old, rng))]
    assert len(found) <= 3 * len(old["cases"]) / 1000, found


def scatter(case):
    """The slowest turn over the fastest of ours and of the peers: an outlier may be drawn several times."""
    taken = [case["contenders"][name]["samples_s"] for name in (OURS, *regressions.PEERS) if name in case["contenders"]]
    return max(max(samples) / min(samples) for samples in taken)


@pytest.mark.parametrize(("name", "factor"), [("cpu-hessian.json", 1.6), ("cpu-small_graph.json", 1.3)])
def test_planted_slowdowns_are_named(name, factor):
    old, rng = committed(name), np.random.default_rng(3)
    planted = [case["case"] for case in sorted(old["cases"], key=scatter)[:3]]
    found = regressions.compare(resampled(old, rng, [(case, factor) for case in planted]), old)
    assert {finding.where.partition(": ")[2] for finding in found} == set(planted)
    assert all(" times (ratio to " in finding.text and "; noise " in finding.text for finding in found)


def test_a_slowdown_in_the_noise_is_not_named():
    """Turns that scatter by a half say nothing about a fifth."""
    rng = np.random.default_rng(3)

    def case(factor):
        ours, theirs = (factor * np.exp(rng.normal(0, 0.5, 9)) for factor in (factor, 1.0))
        return {"case": "noisy", "contenders": {
            OURS: {"samples_s": list(ours), "counts": {}},
            "torch": {"samples_s": list(theirs), "counts": {}, "ratio_min": min(ours) / min(theirs)},
        }}  # fmt: skip

    assert [regressions.slower(case(1.2), case(1.0)) for _ in range(50)] == [None] * 50


def test_a_slow_machine_is_no_regression():
    """All libraries take twice as long: the ratios are the same."""
    old = committed("cpu-unrolled.json")
    new = copy.deepcopy(old)
    for contender in [c for case in new["cases"] for c in case["contenders"].values()]:
        contender["samples_s"] = [2 * seconds for seconds in contender["samples_s"]]
    assert regressions.compare(new, old) == []


def test_the_command(tmp_path, capsys):
    """Counts that grew and cases that fail are named; another machine, or another batch, is not compared."""
    def check(result, *words):
        (tmp_path / "new.json").write_text(json.dumps(result))
        code = __main__.main(["check", str(tmp_path / "new.json"), *words])
        return code, capsys.readouterr()

    old = committed("cpu-hessian.json")
    assert check(old) == (0, (check(old)[1][0], ""))
    new = copy.deepcopy(old)
    new["cases"][0]["contenders"][OURS]["counts"]["hidden products"] = 31
    failed = new["cases"].pop(3)["case"]
    new["failed"] = {failed: "ValueError: no"}
    code, said = check(new)
    assert code == 1
    assert f"  slower  cpu hessian: {failed}: fails now: ValueError: no\n" in said.out
    assert "  slower  cpu hessian: Tanh, Hessian: hidden products: 30, now 31\n" in said.out
    assert f"2 of {len(new['cases'])} cases became slower" in said.out
    new["environment"]["device"] = "another CPU"
    code, said = check(new)
    assert code == 2
    assert "not compared, measured on another CPU, 2 cores" in said.out
    assert "nothing could be compared" in said.err
    assert check(new, "--any-machine")[0] == 1
    new = copy.deepcopy(old)
    new["config"]["batch"] = 7
    code, said = check(new)
    assert code == 2
    assert "not compared, another batch than before" in said.out
    code, said = check(old, "--against", str(RESULTS / "cpu-unrolled.json"))
    assert code == 2
    assert "cpu hessian: not measured before" in said.out
