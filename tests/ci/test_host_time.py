"""The host's work for a step on CUDA stays within limits: launches, requests for memory, copies, waits, calls.

A count above its limit is a step that takes the host longer. Find out what asks for more; raise the limit only where
that is worth it. Lower it with a change that needs less.
"""

import pytest

from benchmarks import host_steps, host_time

pytestmark = pytest.mark.cpu

NAMES = ("launches", "allocations", "cudaMalloc", "to device", "to host", "waits", "calls")
GRAPH = "MLP, Adam, batch 8, graph and schedule"
LIMITS = {  # the counts of today but for calls, which may grow by 5 %
    "MLP, SGD, batch 8": (18, 22, 0, 0, 0, 0, 908),
    "MLP, SGD, batch 128": (18, 22, 0, 0, 0, 0, 908),
    "MLP, Adam, batch 8": (18, 22, 0, 0, 0, 0, 953),
    "MLP, Adam, batch 128": (18, 22, 0, 0, 0, 0, 953),
    "MLP, Adam, batch 8, compiled": (12, 15, 0, 0, 0, 0, 669),
    GRAPH: (4, 1, 0, 1, 0, 0, 130),  # two inputs, the graph, the loss; memory for the loss; one copy of numbers
    "PINN": (146, 134, 0, 0, 0, 0, 3829),
    "PINN, compiled": (60, 58, 0, 0, 0, 0, 1380),
    "Hessian, loop of grad": (269, 284, 0, 0, 0, 0, 9550),
    "Hessian, loop of grad, with backward": (1103, 966, 0, 0, 0, 0, 25600),
    "Hessian, vmap(hessian)": (29, 28, 0, 0, 0, 0, 4110),
    "Hessian, vmap(hessian), with backward": (112, 121, 0, 0, 0, 0, 6890),
    "20 layers": (107, 125, 0, 0, 0, 0, 4740),
    "20 layers, save_on_cpu": (107, 185, 0, 60, 60, 60, 12700),
    "20 layers, save_on_cpu, pinned": (107, 166, 0, 41, 41, 0, 13800),
    "Adam, 100 parameters": (1, 0, 0, 0, 0, 0, 1220),
    "foreach.add_, 100 tensors": (1, 0, 0, 0, 0, 0, 305),
}
MORE_CALLS = 1.05  # they differ a little between versions of Python


@pytest.fixture(scope="module")
def found():
    """The record of each step."""
    return {record["case"]: record for record in host_time.records(host_steps.STEPS)}


def test_every_step_has_limits():
    assert list(host_steps.STEPS) == list(LIMITS)


@pytest.mark.parametrize("case", LIMITS)
def test_counts_are_within_limits(found, case):
    assert "error" not in found[case], found[case]["error"]
    counts, limits = found[case]["counts"], dict(zip(NAMES, LIMITS[case], strict=True))
    limits["calls"] = int(limits["calls"] * MORE_CALLS)
    beyond = {name: (counts[name], limit) for name, limit in limits.items() if counts[name] > limit}
    assert not beyond, f"more than the limits: {beyond}"


def test_the_package_takes_a_part_of_the_time():
    (record,) = host_time.records(["MLP, Adam, batch 8"], 7)
    assert 0 < record["counts"]["us, package"] < 1e6 * max(record["samples"])


def test_a_replay_takes_the_host_a_small_part_of_the_step():
    """A quarter of the time would be much: by the counts above it makes a fifth of the step's calls."""
    step, replay = host_time.records(["MLP, Adam, batch 8", GRAPH], 7)
    assert replay["counts"]["us, package"] < 0.25 * step["counts"]["us, package"]


def test_a_step_that_fails_is_named():
    (record,) = host_time.records(["no such step"])
    assert record == {"case": "no such step", "error": "KeyError: 'no such step'"}
