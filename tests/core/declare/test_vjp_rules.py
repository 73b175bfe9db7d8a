"""Rules run on a call at hand: every need, joint rules, list inputs, and sums over what was broadcast."""

import numpy as np
import pytest

from autograd_gpu.core.declare.op import RAW, REGISTRY
from autograd_gpu.core.declare.op_call import Call
from autograd_gpu.core.declare.vjp_rules import apply_rules, pull_back

pytestmark = pytest.mark.cpu

ones = np.ones(3)


def call_of(name, *args, **attributes):
    op = REGISTRY[name]
    result = getattr(RAW, name)(*args, **attributes)
    return Call(op, args, attributes, (result,) if op.single else result)


def test_only_needed_rules_run():
    a, b = np.array([2.0]), np.array([3.0])
    call = call_of("mul", a, b)
    assert apply_rules(RAW, call, np.array([10.0]), (True, False)) == (np.array([30.0]), None)
    assert apply_rules(RAW, call, np.array([10.0]), (False, True)) == (None, np.array([20.0]))


def test_gradients_are_summed_to_the_shapes_of_the_inputs():
    a, b = np.ones((2, 1)), np.ones(3)
    first, second = pull_back(RAW, call_of("mul", a, b), [np.ones((2, 3))], (True, True))
    assert first.tolist() == [[3.0], [3.0]]
    assert second.tolist() == [2.0, 2.0, 2.0]


def test_a_joint_rule_of_a_list():
    call = call_of("cat", [ones, ones[:2]], dim=0)
    first, second = pull_back(RAW, call, [np.arange(5.0)], (True, True))
    assert (first.tolist(), second.tolist()) == ([0.0, 1.0, 2.0], [3.0, 4.0])
    assert pull_back(RAW, call, [np.arange(5.0)], (False, True))[0] is None


def test_none_is_zero():
    call = call_of("sort", ones)
    assert pull_back(RAW, call, [None, None], (True,)) == (None,)
    assert pull_back(RAW, call_of("relu_grad", ones, ones), [ones], (False, True)) == (None, None)


def test_a_call_without_a_derivative():
    assert pull_back(RAW, call_of("sum", ones, dtype=np.dtype("int64")), [ones.sum()], (True,)) == (None,)
