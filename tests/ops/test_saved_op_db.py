"""Saved-tensor hooks on every row of the op table (op_db.py)."""

from __future__ import annotations

import gc
import itertools
import weakref

import numpy as np
import pytest
from copying_codec import copying as memory_hook
from copying_codec import quantize
from op_checks import has_own_code, over
from op_db import Call, assert_close, values
from op_rows import ROWS

import autograd_gpu as ag
from autograd_gpu.autograd.backward import grad
from autograd_gpu.autograd.graph import saved_tensors_hooks
from autograd_gpu.core.declare.op import REGISTRY

NOT_TWICE = {"standard_gamma", "random_log_gamma"}  # the second derivative is not implemented
RULED = [row for row in ROWS if row.op in REGISTRY and row.definition.has_rules]
more = pytest.mark.more
rows = over(RULED, lambda op: not has_own_code(op))


def copying(device):
    return lambda t: t.clone(), lambda t: t


def through_numpy(device):
    return lambda t: t.numpy(force=True).copy(), lambda a: ag.as_tensor(a, device=device)


def differentiated(row, sample, device, hooks=None):
    """The call, its result and gradients, and second gradients with respect to inputs and cotangents."""
    call = Call(row, sample, device)
    if hooks is None:
        call.run()
    else:
        with saved_tensors_hooks(*hooks) if isinstance(hooks, tuple) else hooks:
            call.run()
    if not call.differentiable:
        return call, list(call.outs)
    cotangents = [g.requires_grad_() for g in call.cotangents()]
    first = grad(call.differentiable, call.inputs, cotangents, create_graph=True, allow_unused=True)
    again = [g for g in first if g is not None and g.requires_grad and row.op not in NOT_TWICE]
    ones = [ag.ones_like(g) for g in again]
    second = grad(again, [*call.inputs, *cotangents], ones, allow_unused=True) if again else ()
    return call, [*call.outs, *first, *second]


def packed_once(device):
    return memory_hook()[1]


@rows
@pytest.mark.parametrize("pair", [packed_once, *[pytest.param(pair, marks=more) for pair in (copying, through_numpy)]])
def test_hooks_change_nothing(row, pair, device):
    """Result, gradients and second gradients; a copy may be laid out in another way, and sum in another order."""
    for sample in row.draw():
        _, plain = differentiated(row, sample, device)
        _, hooked = differentiated(row, sample, device, pair(device))
        for a, b in itertools.zip_longest(plain, hooked):
            assert (a is None) == (b is None)
            if a is not None:
                assert_close(b, values(a), 1e-13, sample)
                assert (a.dtype, a.requires_grad) == (b.dtype, b.requires_grad)


@rows
@pytest.mark.parametrize("skip_leaves", [False, pytest.param(True, marks=more)])
def test_every_op_runs_behind_quantize(row, skip_leaves, device):
    """Results and gradients have the shapes and dtypes that they have without, and are finite where they were."""
    for sample in row.draw():
        _, plain = differentiated(row, sample, device)
        hook = quantize("float16", skip_leaves=skip_leaves)
        call, result = differentiated(row, sample, device, hook)
        for a, b in itertools.zip_longest(plain, result):
            assert (a is None) == (b is None)
            if a is not None:
                assert (a.dtype, a.shape, a.requires_grad) == (b.dtype, b.shape, b.requires_grad)
                assert (np.isfinite(values(a)) == np.isfinite(values(b))).all()
        assert hook.bytes_saved > 0 or not hook.bytes_held
        del call, result, a, b
        assert hook.bytes_held == 0


def nodes_of(tensors):
    results, stack = [], [t.grad_fn for t in tensors]
    while stack:
        node = stack.pop()
        if node is not None and node not in results:
            results.append(node)
            stack += [child for child, _ in node.next_functions]
    return results


def read_all(nodes):
    """Everything that the nodes say they save, by `_saved_NAME` and `_raw_saved_NAME`."""
    names = ("_saved_", "_raw_saved_")
    return [getattr(node, name) for node in nodes for name in dir(node) if name.startswith(names)]


@pytest.mark.cpu
@rows
def test_each_save_is_packed_once_and_numbers_never(row, device):
    for sample in row.draw():
        call, packed = Call(row, sample, device), []
        with saved_tensors_hooks(lambda t, into=packed: into.append(t) or t, lambda t: t):
            call.run()
        saved = [s for node in nodes_of(call.outs) for _, s in node.saved_by_name()]
        numbers = [s for s in saved if s.tensor is not None]  # what was not packed
        assert len(packed) == len(saved) - len(numbers)
        plain_numbers = [a for a in sample.args if isinstance(a, (int, float))]
        assert all(s.tensor.ndim == 0 and s.tensor.item() in plain_numbers for s in numbers)
        if plain_numbers and all(a.ndim for a in sample.arrays):
            assert not [t for t in packed if t.ndim == 0 and t.item() in plain_numbers], str(sample)


@pytest.mark.cpu
@rows
def test_no_reference_cycles_behind_hooks(row, device):
    """With what hooks get and keep, and with saved tensors that were read, all dies with the last tensor."""
    gc.disable()
    try:
        for sample in row.draw():
            call, results = differentiated(row, sample, device, (lambda t: t, lambda t: t))
            tensors = [t for t in (*results, *call.inputs) if t is not None]
            died = [weakref.ref(x) for x in (*tensors, *nodes_of(tensors))]
            del call, results, tensors
            assert not [ref() for ref in died if ref() is not None], f"{sample}: behind hooks"
            call = Call(row, sample, device).run()
            read_all(nodes_of(call.outs))
            died = [weakref.ref(x) for x in (*call.outs, *call.inputs, *nodes_of(call.outs))]
            del call
            assert not [ref() for ref in died if ref() is not None], f"{sample}: after reading"
    finally:
        gc.enable()
