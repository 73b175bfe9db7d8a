"""The generated functions that record calls at a level of reverse mode."""

import inspect

import pytest

import autograd_gpu as ag
from autograd_gpu.core.codegen.level_record import make_level_record
from autograd_gpu.core.declare.op import REGISTRY
from autograd_gpu.core.interpret.batched import Batching
from autograd_gpu.core.interpret.interpreters import entered, replaced
from autograd_gpu.core.interpret.recorded import Recorded, Recording, recorded

pytestmark = pytest.mark.cpu


def test_every_op_has_one():
    for op in [op for op in REGISTRY.values() if op.has_rules]:
        kinds = ("*",) if op.variadic else ("T",) * len(op.inputs)
        function = make_level_record(op, kinds, Recorded, recorded)
        assert list(inspect.signature(function).parameters)[:3] == ["level", "outs", "extras"], op.name


@pytest.fixture
def level():
    with entered(Batching(2)), entered(Recording()) as level:
        yield level


def plain(values):
    """A tensor from outside of all levels."""
    with replaced(()):
        return ag.tensor(values)


def test_what_is_saved_is_what_lies_below(level):
    x = level.lift(plain([1.0, 2.0]))
    y = x.exp()
    assert type(y._fn._saved_result) is ag.Tensor
    assert y._fn._saved_result.array is y._value.array
    z = x * x
    assert z._fn._saved_self is x._value


def test_edges_are_those_of_the_level_only(level):
    w = plain([3.0, 4.0])
    x = level.lift(plain([1.0, 2.0]))
    node = (x * w)._fn
    assert (node.edges, node.mask, node.nrs, node.topological_nr) == ((x._fn, None), 1, None, 1)
    node = ag.cat([x, w, x])._fn
    assert (node.edges, node.mask) == ((x._fn, None, x._fn), 0b101)
    a, b = x.unbind(0)
    node = (b * a)._fn
    assert (node.nrs, node.edges[0].name()) == ((2, 1), "UnbindBackward0")
    assert (w * w)._fn is None


def test_numbers_and_missing_inputs(level):
    x = level.lift(plain([[1.0, 2.0]]))
    assert (x * 2.0)._fn.edges == (x._fn, None)
    y = ag.nn.functional.linear(x, plain([[1.0, 1.0]] * 3))
    assert (type(y), y._fn.name()) == (Recorded, "LinearBackward0")
