"""Tracing, the seams between the library and `ag.compile`; tests/compilation has what becomes of the notes."""

import gc
import weakref

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.compilation.tracer import Tracer
from autograd_gpu.core.graph.tensor_base import TensorBase
from autograd_gpu.core.interpret.interpreters import entered
from autograd_gpu.core.interpret.tracing import refuse, tracer

pytestmark = pytest.mark.cpu


def traced(f, *args):
    """The names of the instructions of a call, and its result."""
    level = Tracer()
    with entered(level, above=0):
        result = f(*args)
        level.flush()
    return [node.name for node in level.nodes], result


def test_nothing_is_on_outside_of_a_trace():
    assert tracer() is None
    refuse("nothing", "happens")


def test_ops_are_seen_below_transforms_and_the_engine():
    x = ag.ones(3, 2, requires_grad=True)
    names, _ = traced(lambda: ag.autograd.grad(x.sin().sum(), x)[0])
    assert names == ["sin", "sum", "expand", "cos", "mul"]
    names, _ = traced(lambda: ag.func.vmap(lambda row: row * 2)(x.detach()))
    assert names == ["mul"]


def test_a_fused_rule_is_one_instruction():
    m = ag.nn.LayerNorm(3)
    names, _ = traced(lambda: ag.autograd.grad(m(ag.ones(2, 3)).sum(), list(m.parameters())))
    assert [name for name in names if name.endswith("fused")] == ["native_layer_norm.fused"]


def test_func_grad_is_the_plain_graph():
    """As without a trace, so that hooks and checkpoints work, and the bits are the same."""
    seen = []

    def f(x):
        y = x.exp()
        seen.append(type(y).__name__)
        return y.sum()

    traced(lambda: ag.func.grad(f)(ag.ones(2)))
    assert seen == ["Tensor"]


def test_writes_copies_draws_and_checks():
    x = ag.ones(3)
    names, _ = traced(lambda: (x.add_(1), ag.rand(2), x.gather(0, ag.tensor([1]))))
    assert names == ["copy", "add", "write", "draw", "check", "gather_along"]


def test_a_gradient_is_added_in_place():
    w = ag.ones(2, requires_grad=True)
    (w * 2).sum().backward()
    held = w.grad
    traced(lambda: (w * 2).sum().backward())
    assert w.grad is held
    assert held.tolist() == [4.0, 4.0]


def test_reads_of_arrays_cost_nothing_outside_of_a_trace():
    before = TensorBase.__dict__["array"]
    f = ag.compile(lambda x: x * 2)
    for _ in range(3):
        f(ag.ones(1))
    assert TensorBase.__dict__["array"] is before
    assert ag.Tensor.__dict__["grad"].fget.__name__ == "grad"


def test_what_was_compiled_is_freed():
    x = ag.ones(1000)
    f = ag.compile(lambda x: (x * 2).sum())
    for _ in range(3):
        f(x)
    array = weakref.ref(x._array)
    del x, f
    gc.collect()
    assert array() is None


def test_results_are_what_they_are_without_it():
    rng = np.random.default_rng(0)
    x = ag.tensor(rng.standard_normal((4, 3)), requires_grad=True)
    f = lambda: ag.autograd.grad((x.softmax(1) * x).sum(), x)[0]  # noqa: E731
    assert np.array_equal(traced(f)[1].numpy(), f().numpy())
