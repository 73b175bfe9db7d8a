"""What cannot be recorded is refused: the call stays eager and right, and one warning says why, where, what to do."""

import re

import numpy as np
import pytest
from refused_calls import REFUSED, calls, fault, started
from refused_calls.reads_and_hooks import item

import autograd_gpu as ag
from autograd_gpu import func, nn
from autograd_gpu.autograd import grad

pytestmark = pytest.mark.cpu


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    assert fault(name) == ""


@pytest.mark.parametrize("name", ["item", "mask", "module_hook", "attribute_of_a_module", "numbers_of_python"])
def test_fullgraph_raises(name):
    make, pattern = REFUSED[name]
    f = ag.compile(started(make)[0], fullgraph=True)
    with pytest.raises(ag.compile.CompileError, match=pattern):
        calls(f)


def test_the_warning_names_the_line():
    f = ag.compile(item())
    with pytest.warns(UserWarning, match=rf"{re.escape(item.__code__.co_filename)}:{item.__code__.co_firstlineno + 2}"):
        calls(f, 1)


def test_modes_of_the_caller():
    f = ag.compile(lambda x: x * 2)
    ag.autograd.set_detect_anomaly(True, check_nan=False)
    try:
        with pytest.warns(UserWarning, match="anomaly mode is on"):
            calls(f, 3)
    finally:
        ag.autograd.set_detect_anomaly(False)
    with pytest.warns(UserWarning, match="inside of saved-tensor hooks"), ag.autograd.graph.save_on_cpu():
        calls(f, 3)
    assert (f.counts.traced, f.counts.eager) == (0, 6)


def test_arguments_without_a_key():
    f = ag.compile(lambda x, y: x + 1)
    with pytest.warns(UserWarning, match="neither a tensor nor hashable"):
        f(ag.ones(2), np.ones(2))


def test_inside_of_a_transform_it_is_python():
    f = ag.compile(lambda x: (x * x).sum())
    for _ in range(3):
        assert (ag.func.vmap(f)(ag.ones(3, 2)) == 2).all()
    assert (f.counts.traced, f.counts.compiled, f.counts.eager) == (0, 0, 0)
    outer = ag.compile(lambda x: f(x) * 2)
    for _ in range(3):
        assert outer(ag.ones(2)) == 4
    assert (outer.counts.compiled, f.counts.traced) == (1, 0)


def test_containers_among_the_arguments():
    f = ag.compile(lambda x, found: found.append(x))
    with pytest.warns(UserWarning, match="changes a container among its arguments"):
        f(ag.ones(2), [])


def test_a_tensor_from_outside_in_the_memory_of_an_argument():
    x = ag.ones(4, 3)
    row = x[0]
    f = ag.compile(lambda x: x * row)
    with pytest.warns(UserWarning, match="shares memory with a tensor that the function knows"):
        f(x)


def test_a_leaf_beside_what_is_computed_from_it():
    w = ag.ones(3, requires_grad=True)
    f = ag.compile(lambda x: (w, w * w * x))
    with pytest.warns(UserWarning, match="a leaf is returned beside"):
        f(ag.ones(3))


def test_a_collective():
    """A replay would give what the ranks had in a recorded call."""
    ag.distributed.init_process_group()
    try:
        f = ag.compile(lambda x: ag.distributed.nn.functional.all_reduce(x * 2))
        with pytest.warns(UserWarning, match="a collective communicates"):
            f(ag.ones(2))
        assert f(ag.ones(2)).tolist() == [2.0, 2.0]
        assert f.counts.compiled == 0
    finally:
        ag.distributed.destroy_process_group()


@pytest.mark.parametrize("beside", [False, True])
def test_a_leaf_that_the_call_makes_is_no_result(beside):
    """A replay would give a result of CompiledBackward in its place."""

    def f(x):
        at = x.clone().detach().requires_grad_()
        return ((at**3).sum(), at) if beside else (at,)

    compiled = ag.compile(f)
    with pytest.warns(UserWarning, match="a result is a leaf that requires grad and was made by the call"):
        compiled(ag.ones(3))
    for i in range(3):
        *out, at = compiled(ag.full((3,), float(i)))
        assert at.is_leaf
        assert not beside or grad(*out, at)[0].tolist() == [3.0 * i * i] * 3


def test_a_derivative_of_higher_order_finds_the_tensors_of_the_call():
    """It runs the function again, when functional_call has put back the parameters."""
    layer = nn.Linear(2, 1)
    layer.compile()
    x = ag.ones(1, 2, requires_grad=True) * 2
    out = func.functional_call(layer, {name: p * 3 for name, p in layer.named_parameters()}, (x,))
    with pytest.raises(RuntimeError, match="weight is another tensor than in the call"):
        grad(out.sum(), x, create_graph=True)
    (first,) = grad(layer(x).sum(), x, create_graph=True)
    assert first.tolist() == layer.weight.tolist()


@pytest.mark.parametrize("f", [
    lambda y, x: nn.functional.leaky_relu_(y, 0.1) * x,
    lambda y, x: y * grad(y.sum(), x, create_graph=True)[0],
], ids=["writes", "differentiates"])  # fmt: skip
def test_a_call_that_needs_the_history_of_an_argument_runs_as_it_is(f):
    x, seen = ag.tensor([1.0, -2.0], requires_grad=True), []
    compiled = ag.compile(f)
    with pytest.warns(UserWarning, match="it needs the history of an argument, without which it raises: "):
        compiled(x**3, x)
    for call in (f, compiled, compiled):
        (first,) = grad(call(x**3, x).sum(), x, create_graph=True)
        seen.append((first.tolist(), grad((first**2).sum(), x)[0].tolist()))
    assert seen[0] == seen[1] == seen[2]
    assert compiled.counts.eager == 2


def test_an_error_of_a_call_with_a_history_is_raised_once_more_and_refuses_nothing():
    x = ag.ones(2, requires_grad=True)
    compiled = ag.compile(lambda y, size: y.view(size))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="shape"):
            compiled(x * 2, (3,))
    assert compiled.explain().refused == []


def test_a_second_derivative_that_cannot_be_told_apart():
    w = ag.ones(3, requires_grad=True)
    f = ag.compile(lambda y: (y * w * w).sum())
    for _ in range(3):
        out = f(w * 2)
    with pytest.raises(RuntimeError, match="computed from a tensor that the function uses itself"):
        ag.autograd.grad(out, w, create_graph=True)


def test_a_second_derivative_of_what_writes():
    total = ag.zeros(3)

    def f(x):
        total.add_(x.detach())
        return (x**3).sum()

    compiled = ag.compile(f)
    for _ in range(3):
        x = ag.ones(3, requires_grad=True)
        out = compiled(x)
    with pytest.raises(RuntimeError, match="writes to tensors outside"):
        ag.autograd.grad(out, x, create_graph=True)
    assert total.tolist() == [3.0] * 3
