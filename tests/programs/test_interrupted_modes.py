"""Ctrl-C in the `__enter__` or `__exit__` of what a call enters for itself leaves no mode on."""

import functools
import random
import warnings

import pytest
from interrupting import Interrupts
from selection import first

import autograd_gpu as ag
from autograd_gpu.autograd.context import RUNNING
from autograd_gpu.core.thread_state import THREAD
from autograd_gpu.modes import current_modes, restore_modes
from autograd_gpu.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

pytestmark = pytest.mark.cpu

SAVE = functools.partial(create_selective_checkpoint_contexts, [ag.matmul])
OPTIONS = {
    "plain": {"use_reentrant": False}, "selective": {"use_reentrant": False, "context_fn": SAVE},
    "debug": {"use_reentrant": False, "debug": True}, "to its end": {"use_reentrant": False, "early_stop": False},
    "reentrant": {"use_reentrant": True},
}  # fmt: skip


class Double(ag.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def recorded(**options):
    x = ag.ones(2, 2, requires_grad=True)
    return checkpoint(lambda x: ag.nn.functional.dropout((x @ x).exp(), 0.5).sin(), x, **options)


def entered(context):
    with warnings.catch_warnings(action="ignore"), context():
        pass


def cases():
    """name -> what makes a call to interrupt."""
    for name, options in OPTIONS.items():
        yield f"forward, {name}", lambda o=options: functools.partial(recorded, **o)
        yield f"backward, {name}", lambda o=options: recorded(**o).sum().backward
    plain = OPTIONS["plain"]
    yield "read of a saved tensor", lambda: functools.partial(getattr, recorded(**plain).grad_fn, "_saved_self")
    yield "Function", lambda: functools.partial(Double.apply, ag.ones(2, requires_grad=True))


CASES = dict(cases())


def modes():
    thread = THREAD.state
    return current_modes(), thread.depth, thread.task, len(thread.start_hooks), thread.anomaly, len(RUNNING.stack)


@pytest.fixture
def fresh():
    """No modes, all of them written down, so that they compare."""
    restore_modes({})
    before = modes()
    yield before
    restore_modes({})
    THREAD.state.depth, THREAD.state.anomaly = 0, False


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # dropped where a generator is closed
@pytest.mark.parametrize("case", first(CASES, 2))
def test_an_interrupt_anywhere(case, fresh):
    for _ in range(3):  # what is made at the first call is there, and Python 3.13 has seen the code traced
        call = CASES[case]()
        with Interrupts(exits=True) as interrupts:
            call()
    assert interrupts.count > 20
    places, struck = range(1, interrupts.count + 1), []
    chosen = places if len(places) < 200 else random.Random(0).sample(places, 200)
    for at in chosen:
        call = CASES[case]()
        try:
            with Interrupts(at, exits=True):
                call()
        except KeyboardInterrupt:
            struck.append(at)
        assert modes() == fresh
    assert len(struck) > 0.7 * len(chosen)  # Python 3.12 and newer do not trace each run of the same code alike


def test_in_the_enter_of_anomaly_mode(fresh):
    with Interrupts() as interrupts:
        entered(ag.autograd.detect_anomaly)
    for at in range(1, interrupts.count + 1):
        with pytest.raises(KeyboardInterrupt), Interrupts(at):
            entered(ag.autograd.detect_anomaly)
        assert modes() == fresh
