"""The passes: what is left of small programs; that no bit changes is tested with all programs of this folder."""

import logging

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.autograd import grad

pytestmark = pytest.mark.cpu


def left(f, *args):
    """The ops that the program of f runs; the compiled function gives what f gives."""
    compiled = ag.compile(f, fullgraph=True)
    for _ in range(3):
        results, expected = compiled(*args), f(*args)
        for x, y in zip(*[r if isinstance(r, tuple) else (r,) for r in (results, expected)], strict=True):
            assert np.array_equal(x.detach().numpy(), y.detach().numpy())
    return compiled.explain().programs[0].ops


def test_dead():
    assert left(lambda x: (x.sin(), x.cos())[1], ag.ones(3)) == {"cos": 1}


def test_constants():
    assert left(lambda x: x * (ag.ones(3) * 2 + 1), ag.ones(3)) == {"mul": 1}


def test_common():
    assert left(lambda x: (x * 2).sin() + (x * 2).cos(), ag.ones(3)) == {"mul": 1, "sin": 1, "cos": 1, "add": 1}


def test_results_that_the_caller_can_write_to_stay_apart():
    compiled = ag.compile(lambda x: (x * 2, x * 2))
    for _ in range(3):
        a, b = compiled(ag.ones(2))
        a.zero_()
        assert b.tolist() == [2.0, 2.0]


def test_no_call_is_taken_across_a_write():
    def f(x):
        y = x * 1.5
        before = y.sin()
        y.add_(1)
        return before + y.sin()

    assert left(f, ag.ones(3))["sin"] == 2


def test_a_copy_is_dropped_if_it_is_read_before_the_write_only():
    def f(x):
        y = x * 1.5
        y.add_(x)
        return y

    compiled = ag.compile(f)
    for _ in range(3):
        assert compiled(ag.ones(2)).tolist() == [2.5, 2.5]
    assert "copy" not in compiled.print_readable(print_output=False)

    def saved(x):
        y = x * 1.5
        y.mul_(y)
        return grad(y.sum(), x)[0]

    x = ag.tensor([1.0, 2.0], requires_grad=True)
    assert left(saved, x)


def test_algebra():
    assert left(lambda x: (x * 2) * ag.ones(3), ag.ones(3)) == {"mul": 1}
    assert left(lambda x: (x * 2).clone().sin(), ag.ones(3)) == {"mul": 1, "sin": 1}
    assert left(lambda x: x.clone(), ag.ones(3)) == {"clone": 1}  # the caller's memory
    assert left(lambda x: (x * 2) * ag.ones(2, 3), ag.ones(3)) == {"mul": 2}  # it broadcasts
    assert left(lambda x: (x * 2) * ag.arange(1.0, 4.0), ag.ones(3)) == {"mul": 2}  # a one is not all


def test_a_gradient_is_no_part_of_what_another_one_shows():
    w, v = ag.ones(3, requires_grad=True), ag.ones(3, requires_grad=True)

    def step(x):
        w.grad = v.grad = None
        (x * (w + v)).sum().backward()

    compiled = ag.compile(step)
    for _ in range(5):
        compiled(ag.ones(3))
        w.grad.zero_()
        assert v.grad.tolist() == [1.0] * 3


def test_a_recomputation_stays_one():
    w = ag.ones(3, requires_grad=True)

    def f(x):
        y = ag.utils.checkpoint.checkpoint(lambda z: (z * w).exp(), x, use_reentrant=False)
        return y.detach(), grad(y.sum(), w)[0]

    assert left(f, ag.ones(3))["exp"] == 2


def test_the_log_shows_the_passes(caplog):
    with caplog.at_level(logging.DEBUG, "autograd_gpu.compilation"):
        left(lambda x: (x * 2).clone().sin(), ag.ones(3))
    texts = [record.getMessage().partition(":")[0] for record in caplog.records]
    assert texts[:2] == ["traced", "constants"]
    assert "  sin: f32[3] = sin(mul)" in caplog.text


def test_an_elementwise_result_whose_inputs_are_saved_is_computed_again():
    weight = ag.randn(4, 4, requires_grad=True)

    def fn(x):
        y = x @ weight
        return (y.sin() * y.cos()).sum()

    f, seen = ag.compile(fn, fullgraph=True), []
    for g in (fn, f, f, f):
        x = ag.linspace(-1, 1, 16).reshape(4, 4).requires_grad_()
        weight.grad = None
        g(x).backward()
        seen.append((x.grad.numpy().tobytes(), weight.grad.numpy().tobytes()))
    assert len(set(seen)) == 1
    assert f.counts.compiled == 1
    assert f.explain().saved_bytes == 64  # y alone: sin and cos of it are computed again
