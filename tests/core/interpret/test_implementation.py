"""The core of an op: the call on arrays, below all interpreters."""

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.core.declare.op import REGISTRY
from autograd_gpu.core.interpret.implementation import kinds_of, run_core, run_keeping_saved

pytestmark = pytest.mark.cpu


def test_kinds():
    assert kinds_of((ag.ones(1), 2.0, None, 3)) == ("T", "N", "0", "N")


def test_a_core_records_and_takes_another_forward():
    x, exp = ag.ones(2, requires_grad=True), REGISTRY["exp"]
    assert run_core(exp, [x], ()).grad_fn.name() == "ExpBackward0"
    assert run_core(exp, [x], (), lambda xp, x: x * 7).tolist() == [7.0, 7.0]
    assert run_core(REGISTRY["cat"], [x, x], (0,)).shape == (4,)


def test_saved_extras_are_constants():
    x = ag.tensor([1.0, np.nan, 3.0], requires_grad=True)
    out, extras = run_keeping_saved(REGISTRY["nanmean"], [x], {"dim": None})
    assert (out.item(), extras["count"].item(), extras["count"].requires_grad) == (2.0, 2, False)
    assert run_keeping_saved(REGISTRY["exp"], [ag.zeros(1)], {})[1] == {}
