"""A profile that is off costs nothing, and one that is on changes nothing but the time."""

from __future__ import annotations

import sys

import pytest
from profiled import mlp

import autograd_gpu as ag
from autograd_gpu.profiler import ProfilerActivity, profile
from benchmarks import small_graph

MODES = ag.modes.MODES


def instructions(function):
    """How many bytecode instructions a call takes, and the files that they are in."""
    count, files = 0, set()

    def trace(frame, event, arg):
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            count += 1
        elif event == "call":
            files.add(frame.f_code.co_filename)
        return trace

    for _ in range(3):
        function()
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()  # Python 3.13 tells no instructions of the first call
        count, files = 0, set()
        function()
    finally:
        sys.settrace(before)
    return count, files


@pytest.mark.parametrize("case", ["a*b", "grad(a*b, [a, b], g)", "20 mixed operators, forward and grad"])
def test_off_is_free(case):
    """The instructions of benchmarks/small_graph are the same after a profile, and none are the profiler's."""
    call = small_graph.tensor_calls(ag, "cpu")[case]
    before, files = instructions(call)
    with profile(activities=[ProfilerActivity.CPU]) as prof:
        on, _ = instructions(call)
    assert instructions(call)[0] == before < on
    spans = sum(not e.is_instant for e in prof.events()) // 5  # of the calls, one was counted
    assert on - before < 400 * spans
    assert not [file for file in files if "autograd_gpu/profiler/" in file]
    assert (MODES.bits, MODES.stack) == (0, ())


def test_a_call_asks_nothing_about_profiles():
    """The functions of ops, and the engine's loop, do not mention the tracer."""
    ag.ones(1) * ag.ones(1)
    for function in (ag.mul, ag.core.engine.task.GraphTask.run):
        assert not {"TRACING", "tracer"} & {*function.__code__.co_names}


def program(device):
    x = ag.randn(6, 6, device=device, requires_grad=True)
    y = x * 2
    y.mul_(3.0).add_(x)
    y[1:].exp_()
    grads = ag.autograd.grad((y @ y).tanh().sum(), x, create_graph=True)
    grads[0].pow(2).sum().backward()
    others = [ag.ones(3, device=device), ag.ones(2, device=device)]
    ag.foreach.mul_(others, 2.0)
    return [x.grad, *others, *ag.func.vmap(ag.func.grad(lambda t: (t * t.sin()).sum()))(x.detach())]


def counted(function, *args):
    with ag.profiler.count() as c:
        result = function(*args)
    return result, c


def test_on_changes_no_result_and_no_count(device):
    ag.manual_seed(1)
    expected, before = counted(program, device)
    ag.manual_seed(1)
    with profile(profile_memory=True, record_shapes=True, with_stack=True):
        result, during = counted(program, device)
    assert all((a == b).all() for a, b in zip(result, expected, strict=True))
    assert (during.matmuls, during.launches, during.rules) == (before.matmuls, before.launches, before.rules)


def test_training_is_the_same(device):
    plain, profiled = mlp(device), mlp(device)
    for _ in range(3):
        plain()
    with profile(profile_memory=True):
        for _ in range(3):
            profiled()
    pairs = zip(plain.model.parameters(), profiled.model.parameters(), strict=True)
    assert all((a == b).all() for a, b in pairs)
