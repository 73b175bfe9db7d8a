"""The generated functions of an op: parameters, which calls run inline and which go to the general path."""

import inspect
import linecache
from types import SimpleNamespace

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.core.codegen.call import make_core, make_public, make_raw, signature
from autograd_gpu.core.codegen.source import materialize
from autograd_gpu.core.declare.op import REGISTRY

pytestmark = pytest.mark.cpu


@pytest.fixture
def general():
    """In place of the general path: notes the calls that reach it."""
    calls = []

    def note(op, args, attributes):
        calls.append((op.name, args, attributes))
        return "general"

    return SimpleNamespace(calls=calls, function=note)


def text_of(function):
    return "".join(linecache.getlines(materialize(function).__code__.co_filename))


def names(op):
    return {name: name for name in op.inputs}


class TestSignature:
    @pytest.mark.parametrize(("name", "expected"), [
        ("mul", "a, b"), ("exp", "x"), ("linear", "x, weight, bias=None"),
        ("sum", "x, dim=None, keepdim=False, dtype=None"), ("cat", "tensors, dim=0"),
    ])  # fmt: skip
    def test_inputs_come_first(self, name, expected):
        assert signature(REGISTRY[name], names(REGISTRY[name])) == expected

    def test_callers_have_pytorchs_names_and_numpys_words(self):
        listed = signature(REGISTRY["sum"], REGISTRY["sum"].parameter_names, words=True)
        assert listed.startswith("input, dim=")
        assert "axis=" in listed
        assert "keepdims=" in listed

    def test_the_public_function_is_shown_without_the_generators_names(self):
        assert list(inspect.signature(ag.mul).parameters) == ["input", "other", "out"]


class TestPublic:
    @pytest.mark.parametrize("parameter", [False, True])
    def test_tensors_run_inline(self, general, parameter):
        x = ag.nn.Parameter(ag.ones(2)) if parameter else ag.ones(2, requires_grad=True)
        y = make_public(REGISTRY["mul"], general.function)(x, ag.ones(2))
        assert general.calls == []
        assert y.grad_fn.name() == "MulBackward0"

    @pytest.mark.parametrize("other", [
        np.ones(2, np.float32), "text", None, ag.ones(2).to(ag.float64), ag.ones(2).to(ag.float8_e5m2),
    ], ids=["array", "text", "None", "another dtype", "codes"])  # fmt: skip
    def test_the_rest_goes_to_the_general_path(self, general, other):
        x = ag.ones(2)
        assert make_public(REGISTRY["mul"], general.function)(x, other) == "general"
        ((name, (a, b), attributes),) = general.calls
        assert (name, attributes) == ("mul", ())
        assert a is x
        assert b is other

    def test_so_does_a_call_whose_forward_raises(self, general):
        """There the error is explained."""
        assert make_public(REGISTRY["mul"], general.function)(ag.ones(2), ag.ones(3)) == "general"

    def test_so_does_a_call_in_a_mode_of_its_own(self, general):
        with ag.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            assert make_public(REGISTRY["mul"], general.function)(ag.ones(2), ag.ones(2)) == "general"

    def test_no_loop_over_arguments(self):
        text = text_of(make_public(REGISTRY["linear"], None))
        assert "for " not in text
        assert "forward(xp, x_x, x_weight, x_bias)" in text


class TestRaw:
    def test_arrays_in_and_arrays_out(self):
        x = np.arange(6.0).reshape(2, 3)
        total = make_raw(REGISTRY["sum"])(x, 0)
        assert type(total) is np.ndarray
        assert total.tolist() == [3.0, 5.0, 7.0]
        assert make_raw(REGISTRY["cat"])([x, x], 1).shape == (2, 6)


class TestCore:
    def test_the_kinds_say_what_is_a_tensor(self):
        x = ag.ones(2, requires_grad=True)
        y = make_core(REGISTRY["mul"], ("T", "N"))(x, 3.0)
        assert y.tolist() == [3.0, 3.0]
        assert ag.autograd.grad(y.sum(), x)[0].tolist() == [3.0, 3.0]

    def test_another_forward_may_answer(self):
        x = ag.ones(2, requires_grad=True)
        y = make_core(REGISTRY["exp"], ("T",), given_forward=True)(lambda xp, a: a * 5, x)
        assert y.tolist() == [5.0, 5.0]
        assert ag.autograd.grad(y.sum(), x)[0].tolist() == [5.0, 5.0]
