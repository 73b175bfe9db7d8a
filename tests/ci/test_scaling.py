"""The workload `scaling` at its smallest size, and the model of docs/distributed-scaling.md."""

import json

import pytest
import ranks

from benchmarks import scaling, scaling_model, scaling_tables
from benchmarks.report import OURS
from benchmarks.scaling_ranks import hessian_names, names

pytestmark = pytest.mark.cpu


@pytest.mark.more
def test_ranks_send_the_bytes_of_a_ring(tmp_path, capsys):
    if ranks.mpiexec() is None:
        pytest.skip("needs mpi4py and mpiexec")
    path = tmp_path / "scaling.json"
    scaling.main(["--tiny", "--peers", "torch", "--repeats", "7", "--json", str(path)])
    result = json.loads(path.read_text())
    assert [case["case"] for case in result["cases"]] == result["planned"]
    counts = [case["contenders"][OURS]["counts"] for case in result["cases"]]
    assert all(count["bytes sent"] == count["ring bound"] for count in counts if count)
    assert [count["collectives"] for count in counts if "collectives" in count] == [1] * 4
    assert set(result["summary"]) == {f"{name}: speed-up on 2 ranks" for name in hessian_names(True)}
    result["config"]["tiny"] = False
    assert "fitted to the all-reduces" in scaling_tables.whole(result)


def test_names_of_cases_are_those_of_a_run():
    assert set(names(False, 2)) - set(names(False, 1)) == {f"all-reduce of {n} KiB" for n in (4, 64)} | {
        f"all-reduce of {n} MiB" for n in (1, 16)}  # fmt: skip


def test_the_model_of_an_all_reduce():
    link = scaling_model.Link(1e-5, 1e9)
    assert scaling_model.ring(8e6, 2, link) == pytest.approx(2e-5 + 8e-3)
    assert scaling_model.ring(8e6, 8, link) == pytest.approx(14e-5 + 14e-3)
    assert scaling_model.shortest(8, 1024, link) == scaling_model.tree(8, 1024, link)
    assert scaling_model.shortest(8e9, 8, link) == scaling_model.ring(8e9, 8, link)
    assert scaling_model.all_reduce(4e6, 1) == 0
    assert scaling_model.all_reduce(4e6, 8) < scaling_model.all_reduce(4e6, 64) < scaling_model.all_reduce(4e6, 1024)
    fitted = scaling_model.fitted({size: scaling_model.ring(size, 2, link) for size in (0, 4096, 1 << 24)})
    assert fitted == pytest.approx(link)
