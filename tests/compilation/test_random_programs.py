"""Random steps, compiled beside eager: results, parameters, grads, arguments, versions and random numbers are equal."""

import gc
import os
import tracemalloc

import numpy as np
import pytest
from random_steps import BETWEEN, INSTRUCTIONS, Session

import autograd_gpu as ag
from autograd_gpu import nn, optim

hypothesis = pytest.importorskip("hypothesis")
st = pytest.importorskip("hypothesis.strategies")

pytestmark = [pytest.mark.cpu, pytest.mark.filterwarnings("ignore::RuntimeWarning")]
COUNT = int(os.environ.get("PROGRAMS", "20"))
number = st.integers(0, 11)
steps = st.lists(st.tuples(st.sampled_from(INSTRUCTIONS), number, number, number), min_size=2, max_size=12)
# A program is made after two to four calls; what happens later meets it.
events = st.lists(st.sampled_from(BETWEEN), max_size=3)


def agree(step, adam, events):
    calls = ["", "", "", ""]
    for event in events:
        calls += [event, "", ""]
    expected = Session(step, adam, False).run(calls)
    session = Session(step, adam, True)
    seen = session.run(calls)
    for i, (a, b) in enumerate(zip(expected, seen, strict=False)):
        assert a == b, f"call {i} ({calls[i] if i < len(calls) else 'generator'}) differs; {session.call.counts}"
    assert len(seen) == len(expected)
    return session.call.counts


@hypothesis.settings(max_examples=COUNT, deadline=None, derandomize="PROGRAMS" not in os.environ,
                     suppress_health_check=list(hypothesis.HealthCheck))  # fmt: skip
@hypothesis.given(steps, st.booleans(), events)
def test_random_steps(step, adam, events):
    agree(step, adam, events)


@pytest.mark.more
@hypothesis.settings(max_examples=600, deadline=None, derandomize=True,
                     suppress_health_check=list(hypothesis.HealthCheck))  # fmt: skip
@hypothesis.given(steps, st.booleans(), events)
def test_many_random_steps(step, adam, events):
    agree(step, adam, events)


def test_most_random_steps_are_compiled():
    """The other tests compare programs with eager calls, not eager calls with themselves."""
    random, counts = np.random.default_rng(0), []
    for _ in range(20):
        step = [(INSTRUCTIONS[i], *map(int, random.integers(0, 12, 3)))
                for i in random.integers(0, len(INSTRUCTIONS), random.integers(2, 8))]  # fmt: skip
        counts.append(agree(step, True, ["rate", "eval"]))
    assert sum(c.compiled for c in counts) > sum(c.eager for c in counts)
