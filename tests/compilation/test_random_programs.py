"""Random steps, compiled beside eager: results, parameters, grads, arguments, versions and random numbers are equal."""

import contextlib
import gc
import os
import tracemalloc
import warnings
import weakref

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
@hypothesis.settings(max_examples=300, deadline=None, derandomize=True,
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


def held(count, run):
    """Bytes and objects that are left after `count` further calls."""
    run(), gc.collect()
    tracemalloc.start()
    try:
        run(), gc.collect()
        before, objects = tracemalloc.get_traced_memory()[0], len(gc.get_objects())
        for _ in range(count):
            run()
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before, len(gc.get_objects()) - objects
    finally:
        tracemalloc.stop()


def calls_of_all_kinds():
    """A function that makes four calls: a whole step, a forward, a refused one, one that raises."""
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Dropout(0.5), nn.Linear(4, 2))
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    x = ag.ones(5, 3)

    @ag.compile
    def step(x):
        optimizer.zero_grad()
        loss = (model(x) ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss

    @ag.compile
    def raises(x):
        return x.view(-1) @ ag.ones(4)

    forward, eager = ag.compile(model), ag.compile(lambda x: x * x.sum().item())

    def run():
        step(x)
        forward(x).sum().backward()
        eager(x)
        with contextlib.suppress(RuntimeError):
            raises(x)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that one stays eager
        for _ in range(70):  # native code is there from the 64th call on
            run()
    assert step.counts.compiled >= 1, step.explain()
    assert forward.counts.compiled >= 1
    return run


@pytest.mark.parametrize("count", [25, pytest.param(2500, marks=pytest.mark.more)])  # four calls each
def test_calls_leak_nothing(count):
    """Native code may come meanwhile, once; a leak grows again."""
    run = calls_of_all_kinds()
    for size, objects in (held(count, run) for _ in range(2)):
        if abs(objects) < 20 and size < 20_000:
            return
    pytest.fail(f"{count} calls left {objects} objects, {size} bytes")


def test_programs_die_with_their_function(no_gc):
    class Big:
        pass

    big = Big()
    ref = weakref.ref(big)
    f = ag.compile(lambda x, big=big: x * 2)
    for _ in range(4):
        f(ag.ones(2))
    del f, big
    assert ref() is None
