"""Call: what it answers to a rule, and which of its outputs have a derivative."""

import numpy as np
import pytest

from autograd_gpu.core.declare.op import RAW, REGISTRY
from autograd_gpu.core.declare.op_call import Call, differentiable_outputs, is_differentiable
from autograd_gpu.core.declare.parse import parse

pytestmark = pytest.mark.cpu

ones = np.ones(3)


def call_of(op, *args, **attributes):
    result = getattr(RAW, op.name)(*args, **attributes)
    return Call(op, args, attributes, (result,) if op.single else result)


class TestCall:
    def test_defaults_are_filled_in(self):
        call = call_of(REGISTRY["sum"], ones)
        assert call.attributes == {"dim": None, "keepdim": False, "dtype": None}
        assert call_of(REGISTRY["sum"], ones, dim=0).attributes["dim"] == 0

    def test_a_list_input_answers_with_lists(self):
        op = REGISTRY["cat"]
        call = Call(op, ([ones, ones[:1]],), {}, (np.ones(4),))
        assert [len(x) for x in call.inputs] == [3, 1]
        answers = dict(zip(["dim", "tensors_shape"], call.answers(op.joint), strict=True))
        assert answers == {"dim": 0, "tensors_shape": [(3,), (1,)]}

    def test_numbers_have_no_shape(self):
        def forward(xp, x, y): return x * y
        def rule(F, g, y_shape): return y_shape
        op = parse(type("without_shapes", (), {"forward": forward, "grad_x": rule, "grad_y": rule}))
        call = Call(op, (ones, 2.0), {}, (ones * 2,))
        assert call.answers(call.op.rules["x"]) == [None]

    def test_outputs_with_a_derivative(self):
        assert differentiable_outputs(call_of(REGISTRY["sort"], ones)) == [True, False]
        assert differentiable_outputs(call_of(REGISTRY["unbind"], ones)) == [True] * 3

    def test_attributes_decide_about_a_derivative(self):
        assert is_differentiable(call_of(REGISTRY["sum"], ones))
        assert not is_differentiable(call_of(REGISTRY["sum"], ones, dtype=np.dtype("int64")))
