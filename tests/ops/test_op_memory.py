"""What every op in the op table (op_db.py) saves, frees and leaves alone; a row may `skip` a check with a reason."""

from __future__ import annotations

import itertools
import weakref

import numpy as np
import pytest
from op_checks import asked, check, subsets
from op_db import BETWEEN_RUNS, Call, assert_close, values

from autograd_gpu.autograd.backward import grad
from autograd_gpu.core.graph.storage import bump_version
from autograd_gpu.core.saved.saved_tensor import FREED


@check("saved", rules=True)
def test_saved_bytes_are_what_the_needed_rules_ask_for(row, device):
    """For every subset of inputs that require grad; read from the rules' parameter names."""
    op = row.definition
    for sample in row.draw():
        for wants in subsets(len(Call(row, sample, device).inputs)):
            call = Call(row, sample, device, wants=wants).run()
            node = call.node
            if node is None:
                assert not call.differentiable, f"{sample}: no {op.name} node although the output requires grad"
                continue
            arrays, extras = asked(call, wants)
            saved = sum(s.tensor.nbytes for _, s in node.saved_by_name())
            assert saved == sum(array.nbytes for array in arrays), f"{sample}: {wants}"
            kept = {name for name in op.saved if hasattr(node, f"e_{name}") and getattr(node, f"e_{name}") is not FREED}
            assert kept == extras, f"{sample}: {wants}"


@check("cycles", rules=True)
def test_no_reference_cycles(row, device, no_gc):
    """Outputs, nodes, inputs and gradients die with the last tensor, after forward and after double backward."""
    for sample in row.draw():
        call = Call(row, sample, device).run()
        died = [weakref.ref(x) for x in (*call.outs, *call.inputs, *(out._node for out in call.outs if out._node))]
        del call
        assert not [ref() for ref in died if ref() is not None], f"{sample}: alive after forward"
        call = Call(row, sample, device).run()
        if not call.differentiable:
            continue
        grads = [g for g in call.grad(create_graph=True) if g is not None]
        died = [weakref.ref(x) for x in (*call.outs, *call.inputs, *grads)]
        died += [weakref.ref(t._node) for t in (*call.outs, *grads) if t._node is not None]
        del call, grads
        assert not [ref() for ref in died if ref() is not None], f"{sample}: alive after backward with create_graph"


@check("unmodified", rules=True)
def test_inputs_are_not_modified(row, device):
    for sample in row.draw():
        for recording in (False, True):
            call = Call(row, sample, device)
            before = [values(t).copy() for _, t in call.tensors]
            call.run()
            after = [values(out).copy() for out in call.outs]
            if call.differentiable:
                cotangents = call.cotangents()
                arguments = [values(g).copy() for g in cotangents]
                grad(call.differentiable, call.inputs, cotangents, create_graph=recording, allow_unused=True)
                for g, was in zip(cotangents, arguments, strict=True):
                    np.testing.assert_array_equal(values(g), was)
            for (name, t), was in zip(call.tensors, before, strict=True):
                np.testing.assert_array_equal(values(t), was, err_msg=f"{sample}: {name}")
                assert t._version == 0
            for out, was in zip(call.outs, after, strict=True):
                np.testing.assert_array_equal(values(out), was, err_msg=f"{sample}: output")


@check("freed", rules=True)
def test_second_backward_needs_retain_graph(row, device):
    """It raises where something was saved, and works where nothing was."""
    for sample in row.draw():
        call = Call(row, sample, device).run()
        if not call.differentiable:
            continue
        rules = filter(None, {row.definition.rule_of(name) for name in call.names})
        before = dict(zip(row.definition.inputs, sample.args, strict=False))
        scalars = {name for name in row.definition.scalars if isinstance(before.get(name), (int, float))}
        kinds = {kind for rule in rules for _, kind, what in row.definition.asked(rule) if what not in scalars}
        first = call.grad()
        if kinds & {"input", "out", "extra"}:  # another number in the place of an input is freed, as in PyTorch
            with pytest.raises(RuntimeError, match="backward through the graph a second time"):
                call.grad()
            assert not call.node.saved_by_name()
        else:
            for a, b in zip(first, call.grad(), strict=True):
                assert_close(b, values(a), BETWEEN_RUNS[device], sample)


@pytest.mark.cpu
@check("versions")
def test_version_bump_raises_iff_a_needed_rule_saved_the_tensor(row, device):
    for sample in row.draw():
        call = Call(row, sample, device).run()
        if not call.differentiable or (call.outs[0]._is_view() and call.outs[0]._made):
            continue  # one of several views cannot even be read after its base was written to
        count = len(call.inputs)
        victims = range(len(call.tensors) + len(call.outs))
        for wrt, victim in itertools.product([*((i,) for i in range(count)), tuple(range(count))], victims):
            for recording in (False, True):
                call = Call(row, sample, device).run()
                tensors = [t for _, t in call.tensors] + list(call.outs)
                bump_version(tensors[victim])
                storage = tensors[victim]._storage
                arrays, _ = asked(call, wrt)
                bumped = [t._array for t in tensors if t._storage is storage]  # a view shares its base's storage
                expected = any(x is array for x in bumped for array in arrays)
                raised = None
                try:
                    call.grad(wrt, create_graph=recording)
                except RuntimeError as error:
                    raised = str(error)
                assert (raised is not None) == expected, f"{sample}: {wrt}, tensor {victim}: {raised}"
                assert raised is None or "modified by an inplace operation" in raised
