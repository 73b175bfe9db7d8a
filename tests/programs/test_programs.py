"""Random programs of operations, views, in-place writes, hooks and partial gradients, against PyTorch.

The same programs in every run. PROGRAMS=20000 pytest tests/programs/test_programs.py --hypothesis-seed=1 tries that
many others. What is left out on purpose stands where machine.py skips it; besides, x.mul_(x) has its gradient here,
where PyTorch raises at backward, and a view made under no_grad does not require grad, where in PyTorch it does.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from effort import fewer
from functional_form import FunctionalForm
from machine import Machine, array, weights
from programs import FATAL, flag, in_mode, kind_of, program, pure_program, sampled, with_grads

import autograd_gpu as ag

hypothesis = pytest.importorskip("hypothesis")
given, settings, st = hypothesis.given, hypothesis.settings, pytest.importorskip("hypothesis.strategies")

EXAMPLES = int(os.environ.get("PROGRAMS", "1200"))
PROFILE = settings(
    deadline=None, report_multiple_bugs=False, database=None, derandomize="PROGRAMS" not in os.environ,
)  # fmt: skip


def same(a, b, zeros=False):
    """Whether they are equal; with `zeros` an array of zeros may be None in the other."""
    if zeros and (a is None) != (b is None) and isinstance(b if a is None else a, np.ndarray):
        return not np.any(b if a is None else a)
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return type(a) is type(b) and (a.shape == b.shape or a.shape == (1,) or b.shape == (1,)) and np.allclose(
            a, b, rtol=1e-9, atol=1e-9)
    if isinstance(a, (list, tuple)):
        if not isinstance(b, (list, tuple)) or len(a) != len(b):
            return False
        return all(same(x, y, zeros) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return a == b


def large(state):
    return any(not (np.abs(part) < 1e3).all() for x in state for part in x if isinstance(part, np.ndarray))


def compare(program, ours, theirs, name, spare):
    """Two traces step by step; `spare(step, spared)`: which errors of theirs need not be ours."""
    for i, ((mine, states, spared), (yours, expected, _)) in enumerate(zip(ours, theirs, strict=False)):
        step, zeros = program[i] if i < len(program) else ("hooks",), FATAL[0] in spared
        if large(expected) or (yours in FATAL and mine not in FATAL and yours in spare(step, spared)):
            return
        assert same(mine, yours, zeros), f"step {i} {step}:\nours   {mine}\n{name} {yours}"
        if yours in FATAL:
            return  # how much of a failing backward was done is nobody's contract
        for k, (a, b) in enumerate(zip(states, expected, strict=True)):
            assert same(a, b, zeros), f"value {k} after step {i} {step}:\nours   {a}\n{name} {b}"
    assert len(ours) == len(theirs)


def in_part(step):
    """Whether a step differentiates by some inputs only."""
    return step[0] in ("grad", "materialized") or (step[0] == "backward" and len(step[2]) > 0)


@settings(PROFILE, max_examples=EXAMPLES)
@given(program(), flag)
def test_as_pytorch(program, look):
    """`look`: everything is looked at after each step, which gives stale views their nodes, or at the end only.

    We check what the running call needs only, and nothing behind a structural zero, where PyTorch raises anyway.
    """
    torch = pytest.importorskip("torch")
    ours, theirs = Machine(ag, look).run(program), Machine(torch, look).run(program)
    compare(program, ours, theirs, "torch ", lambda step, spared: FATAL if in_part(step) else spared)


@settings(PROFILE, max_examples=fewer(EXAMPLES // 5))
@given(program(), flag, sampled(["identity", "copy", "recorded"]))
def test_hooks_and_recording_change_nothing(program, look, what):
    """Behind hooks no version is checked, and so fewer errors are found; what they hold may be given other memory."""
    program = [step for step in with_grads(program, False) if step[0] != "data"]
    other = with_grads(program, "recorded") if what == "recorded" else in_mode(program, what)
    ours, plain = Machine(ag, look).run(other), Machine(ag, look).run(program)
    compare(program, ours, plain, "plain ", lambda step, spared: () if what == "recorded" else FATAL)


@settings(PROFILE, max_examples=fewer(EXAMPLES // 5))
@given(pure_program())
def test_writes_have_a_functional_form(program):
    """A program that copies on write gives what it gives without memory; without copies it does so, or is refused."""
    with ag.autograd.graph.allow_mutation_on_saved_tensors():
        machine, form = Machine(ag, look=False), FunctionalForm(ag)
        trace = machine.run(program)
        done = [step for step, (outcome, *_) in zip(program, trace, strict=False) if outcome is None]
        form.run(done)
        for x, expected in zip(machine.values, form.values, strict=True):
            assert same(array(x), array(expected))
            assert x.requires_grad == expected.requires_grad
        expected = derivatives(form)
        if not large([expected]):
            assert same(derivatives(machine), expected)
    plain = Machine(ag, look=False)
    plain.run(program)
    try:
        result = derivatives(plain)
    except RuntimeError as error:
        result = kind_of(error)
    assert result == FATAL[0] or large([expected]) or same(result, expected)


def derivatives(machine):
    """First and second derivatives of all values by the two leaves."""
    outs, leaves = [x for x in machine.values if x.requires_grad], machine.values[1:3]
    first = ag.autograd.grad(outs, leaves, [weights(ag, x.shape) for x in outs], create_graph=True)
    total = sum((g * g).sum() for g in first)
    second = ag.autograd.grad(total, leaves, materialize_grads=True) if total.requires_grad else leaves
    return [array(g) for g in (*first, *(second if total.requires_grad else [g * 0 for g in first]))]
