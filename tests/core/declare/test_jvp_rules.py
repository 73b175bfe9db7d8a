"""push_forward: what it answers and refuses. The jvp words of the ops are held against their rules in test_op_words."""

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import nn
from autograd_gpu.core.declare.jvp_rules import push_forward
from autograd_gpu.core.declare.op import RAW, REGISTRY
from autograd_gpu.core.declare.op_call import Call
from autograd_gpu.core.declare.parse import parse
from autograd_gpu.errors import MissingRuleError

pytestmark = pytest.mark.cpu


def block(name="without_words", **body):
    """An op of two inputs that is declared nowhere."""

    def forward(xp, x, y): return x + y
    def grad(F, g): return g
    return parse(type(name, (), {"forward": forward, "grad_x": grad, "grad_y": grad, **body}))


def call_of(op, *args, **attributes):
    result = getattr(RAW, op.name)(*args, **attributes) if op.name in REGISTRY else op.forward(np, *args)
    return Call(op, args, attributes, (result,) if op.single else result)


ones = np.ones(3)


class TestRefusals:
    def test_an_op_without_a_jvp_word_is_named(self):
        with pytest.raises(MissingRuleError, match=r"^Trying to use forward AD with without_words that does not"):
            push_forward(RAW, call_of(block(), ones, ones), (ones, None))

    @pytest.mark.parametrize("name", ["gammainc", "gammaincc", "zeta"])
    def test_an_op_whose_derivative_is_not_implemented_is_named(self, name):
        with pytest.raises(NotImplementedError, match=f"^Trying to use forward AD with {name} that does not support it "
                                                      f"because the derivative of {name} by . is not implemented"):
            push_forward(RAW, call_of(REGISTRY[name], 2 * ones, ones), (ones, ones))

    def test_but_not_where_no_tangent_arrives(self):
        assert push_forward(RAW, call_of(block(), ones, ones), (None, None)) == (None,)

    def test_one_tangent_per_output(self):
        def forward(xp, x, y): return x, y
        op = block(forward=forward, outputs=("a", "b"), jvp=lambda F, t: (t[0],))
        with pytest.raises(ValueError, match="argument"):
            push_forward(RAW, call_of(op, ones, ones), (ones, None))


class TestZeros:
    def test_an_op_without_rules_ends_tangents(self):
        assert push_forward(RAW, call_of(REGISTRY["argsort"], ones), (ones,)) == (None,)

    def test_attributes_that_leave_no_derivative_end_tangents(self):
        for name in ("sum", "prod", "cumsum"):
            attributes = {"dim": 0, "dtype": np.dtype("int64")}
            assert push_forward(RAW, call_of(REGISTRY[name], ones, **attributes), (ones,)) == (None,)
            (result,) = push_forward(RAW, call_of(REGISTRY[name], ones, dim=0), (ones,))
            assert np.sum(result) == {"sum": 3, "prod": 3, "cumsum": 6}[name]

    def test_zero_rules_answer_none(self):
        op = REGISTRY["sign"]
        assert op.rules["x"] is None
        assert push_forward(RAW, call_of(op, ones), (ones,)) == (None,)

    def test_indices_have_no_tangent(self):
        values, indices = push_forward(RAW, call_of(REGISTRY["sort"], np.array([3.0, 1.0, 2.0])), (np.arange(3.0),))
        assert values.tolist() == [1.0, 2.0, 0.0]
        assert indices is None

    def test_a_function_may_answer_none(self):
        op = block(jvp=lambda F, t: None)
        assert push_forward(RAW, call_of(op, ones, ones), (ones, ones)) == (None,)
        op = block(forward=lambda xp, x, y: (x, y), outputs=("a", "b"), jvp=lambda F, t: None)
        assert push_forward(RAW, call_of(op, ones, ones), (ones, ones)) == (None, None)


class TestWords:
    def test_linear_takes_zeros_for_inputs_without_a_tangent(self):
        (result,) = push_forward(RAW, call_of(REGISTRY["sub"], ones, 5.0, alpha=2), (ones * 3, None))
        assert result.tolist() == [3.0, 3.0, 3.0]
        (result,) = push_forward(RAW, call_of(REGISTRY["sub"], ones, ones * 5, alpha=2), (None, ones))
        assert result.tolist() == [-2.0, -2.0, -2.0]

    def test_linear_leaves_inputs_without_a_rule_alone(self):
        index, x = np.array([2, 0]), np.array([5.0, 6.0, 7.0])
        (result,) = push_forward(RAW, call_of(REGISTRY["scatter_sum"], x, index, x[:2], dim=-1), (None, None, x[:2]))
        assert result.tolist() == [6.0, 0.0, 5.0]

    def test_multilinear_is_the_product_rule(self):
        a, b = np.array([2.0]), np.array([3.0])
        (result,) = push_forward(RAW, call_of(REGISTRY["mul"], a, b), (np.array([10.0]), np.array([100.0])))
        assert result.tolist() == [230.0]

    def test_elementwise_stretches_what_broadcast(self):
        a, b = np.ones((2, 1)), np.ones(3)
        (result,) = push_forward(RAW, call_of(REGISTRY["lerp"], a, b, 0.25), (a, None, None))
        assert result.tolist() == [[0.75] * 3] * 2


class TestMissingDerivatives:
    @pytest.mark.parametrize("differentiate", [
        lambda loss, w: ag.func.jvp(loss, (w,), (w,)), lambda loss, w: loss(w.requires_grad_()),
        lambda loss, w: ag.func.grad(loss)(w), lambda loss, w: ag.func.jacrev(ag.func.jacrev(loss))(w),
        lambda loss, w: ag.func.vmap(ag.func.grad(loss))(w),
    ], ids=["jvp", "requires_grad", "grad", "jacrev twice", "vmap of grad"])
    def test_an_input_without_a_rule_that_is_differentiated_is_refused(self, differentiate):
        x, target, weight = ag.tensor([0.5]), ag.tensor([1.0]), ag.tensor([2.0])

        def loss(w):
            return nn.functional.binary_cross_entropy(x, target, w)

        with pytest.raises(MissingRuleError, match="binary_cross_entropy is not differentiable with respect to argument"
                           " 'weight', which depends on what is differentiated; detach"):
            differentiate(loss, weight)
        differentiate(lambda w: loss(w.detach()) + w.sum(), weight)

    def test_zero_is_an_answer(self):
        assert push_forward(RAW, call_of(REGISTRY["relu_grad"], ones, ones), (None, ones)) == (None,)
