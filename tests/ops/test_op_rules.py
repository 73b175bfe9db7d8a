"""The derivative rules of every op in the op table (op_db.py); a row may `skip` a check with a reason."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import itertools

import numpy as np
import pytest
from op_checks import Spy, calls, check, has_own_code, over, rows_of, subsets
from op_db import BETWEEN_RUNS, Call, Sample, assert_close, values
from op_rows import ROWS

import autograd_gpu as ag
from autograd_gpu import backend
from autograd_gpu.autograd.backward import grad
from autograd_gpu.backend import counters
from autograd_gpu.backend.arrays.device import Device
from autograd_gpu.core.codegen import node_class
from autograd_gpu.core.declare.op import REGISTRY
from autograd_gpu.core.tensor import wrap

MANY = 256  # elements


def _options(call):
    """Whole Jacobians; of inputs of many elements, and on CUDA, where every call costs more, a product with vectors."""
    on_cuda = call.device == "cuda"
    options = {"atol": call.row.grad_atol, "rtol": 1e-4, "fast_mode": on_cuda, "nondet_tol": BETWEEN_RUNS[call.device]}
    if not on_cuda and any(x.numel() > MANY for x in call.inputs):
        # atol counts for each entry of the Jacobian: so an error of one entry shows as it does in the whole.
        options |= {"atol": 1e-7 * call.row.grad_atol, "rtol": 1e-9, "fast_mode": True}
    return options


def compared_with_the_cpu(op):
    """Whether test_derivatives_are_those_of_the_cpu stands for differences of an emulated device."""
    return not (op.random and has_own_code(op))


@over(rows_of("gradcheck"), compared_with_the_cpu)
def test_gradcheck(row, device):
    for call in calls(row, device):
        has_gradient = call.inputs and row.definition.has_rules
        assert bool(call.run().differentiable) == bool(has_gradient and _records(call))
        if call.differentiable:
            assert ag.autograd.gradcheck(call.function(), tuple(call.inputs), **_options(call))


def beside_pytorch(row):
    """Whether test_op_oracle.py compares the second derivatives with PyTorch's."""
    return importlib.util.find_spec("torch") is not None and row.compared("oracle_gradgrad") == "yes"


@over([row for row in rows_of("gradgradcheck") if not beside_pytorch(row)], compared_with_the_cpu)
def test_gradgradcheck(row, device):
    for call in calls(row, device):
        if call.run().differentiable:
            cotangents = [g.requires_grad_() for g in call.cotangents()]
            first = grad(call.differentiable, call.inputs, cotangents, create_graph=True, allow_unused=True)
            ruled = [row.definition.rule_of(name) is not None for name in call.names]
            assert all(g is None or g.requires_grad == r for g, r in zip(first, ruled, strict=True)), call.sample
            assert ag.autograd.gradgradcheck(call.function(), tuple(call.inputs), **_options(call))


@pytest.mark.cuda
@check("gradcheck", lambda op: has_own_code(op) and not op.random)
def test_derivatives_are_those_of_the_cpu(row, device):
    """The first and the second, which the CPU's tests compare with differences and with PyTorch."""
    for call, on_cpu in zip(calls(row, device), calls(row, "cpu"), strict=True):
        for actual, expected in zip(_derivatives(call), _derivatives(on_cpu), strict=True):
            assert (actual is None) == (expected is None), call.sample
            if actual is not None:
                assert_close(actual, values(expected), 1e-10, call.sample)


def _derivatives(call):
    """The gradients, and the gradients of their sum by inputs and cotangents."""
    ag.manual_seed(0)
    if not call.run().differentiable:
        return []
    cotangents = [g.requires_grad_() for g in call.cotangents()]
    first = grad(call.differentiable, call.inputs, cotangents, create_graph=True, allow_unused=True)
    recorded = [g for g in first if g is not None and g.requires_grad]
    if not recorded:
        return first
    weights = [ag.full_like(g, 1 + i) for i, g in enumerate(recorded)]
    return [*first, *grad(recorded, [*call.inputs, *cotangents], weights, allow_unused=True)]


@check("half", rules=True)
def test_gradients_of_half_types_do_not_overflow(row, device):
    """At large and small arguments: finite where the float64 ones of the same arguments are within float16's range."""
    if "float16" not in row.dtypes or not row.definition.has_rules or row.definition.random:
        return
    for sample, scale in itertools.product(row.draw(), (1e-3, 30.0, 500.0)):
        scaled = Sample(*[_scaled(value, scale) for value in sample.args], **sample.kwargs)
        with contextlib.suppress(RuntimeError, ValueError), np.errstate(all="ignore"):  # outside of the domain
            half, exact = [Call(row, scaled, device, dtype=dtype).run() for dtype in ("float16", "float64")]
            if half.differentiable and all(np.isfinite(values(out)).all() for out in half.outs):
                for g, wide in zip(half.grad(), exact.grad(), strict=True):
                    if g is not None:
                        within = abs(values(wide)) < 3e4
                        assert np.isfinite(values(g)[within]).all(), f"{sample} times {scale}"


def _scaled(value, scale):
    if isinstance(value, list):
        return [_scaled(item, scale) for item in value]
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
        return value
    return (value * scale).astype(np.float16).astype(np.float64)


POINTS = [row for row in ROWS if row.op in REGISTRY and row.points]


@pytest.mark.parametrize("row", POINTS, ids=[row.op for row in POINTS])
@pytest.mark.parametrize("recording", [False, True], ids=["raw", "recorded"])
def test_gradients_at_special_points(row, recording, device):
    """Kinks, ties, boundaries: the gradient that the docstring or PyTorch documents."""
    for point in row.points:
        call = Call(row, point.sample, device).run()
        ones = [wrap(backend.namespace(out._array).ones_like(out._array)) for out in call.differentiable]
        gradients = grad(call.differentiable, call.inputs, ones, create_graph=recording)
        for g, x, expected in zip(gradients, call.inputs, point.grads, strict=True):
            assert_close(g, np.broadcast_to(np.asarray(expected, np.float64), x.shape), 1e-12, point.sample)


def _records(call):
    """Whether this call makes a node, by what the block says."""
    op = call.row.definition
    attributes = {**op.attributes, **call.sample.kwargs}
    return op.differentiable is None or op.differentiable(*[attributes[name] for name in op.attributes])


@check("need", rules=True)
def test_every_need_mask(row, device):
    """grad with respect to any subset gives the same gradients, and runs the rules of that subset only."""
    op = row.definition
    for sample in row.draw():
        call = Call(row, sample, device).run()
        if not call.differentiable:
            continue
        full = call.grad(retain_graph=True)
        call.grad(retain_graph=True, create_graph=True)  # both runners are generated at their first run
        for wrt, recording in itertools.product(subsets(len(call.inputs)), (False, True)):
            counts = counters.Counts()
            counters.ACTIVE.append(counts)
            try:
                with Spy(op) as spy:
                    result = call.grad(wrt, retain_graph=True, create_graph=recording)
            finally:
                counters.ACTIVE.remove(counts)
            ruled = [call.names[i] for i in wrt if op.rule_of(call.names[i]) is not None]
            assert sorted(spy.called) == sorted(ruled), f"{sample}: rules run for {wrt}"
            counted = [name for name in counts.rules.elements() if name.startswith(f"{op.name}.")]
            assert sorted(counted) == sorted(f"{op.name}.grad_{name}" for name in ruled)
            for i, g in zip(wrt, result, strict=True):
                assert (g is None) == (full[i] is None)
                if g is not None:
                    assert_close(g, values(full[i]), 1e-12, f"{sample}: gradient {i} of {wrt}")


@check("adds", lambda op: op.adders)
def test_a_rule_that_adds_gives_what_the_rule_gives(row, device):
    """`add_<input>` of a block against its `grad_<input>`."""
    for sample in row.draw():
        call = Call(row, sample, device).run()
        tensors = dict(call.tensors)
        for i in call.node.adds:
            g = backend.to_device(np.asarray(np.random.randn(*call.outs[0].shape)), Device(device))
            ruled = call.node.run_raw(g, 1 << i, False)[i]
            into = tensors[call.node.input_names[i]]._array.copy()
            expected = backend.to_numpy(into + backend.sum_to(ruled, into.shape))
            assert call.node.run_adding(g, 1 << i, False, {i: into})[i] is None
            np.testing.assert_allclose(backend.to_numpy(into), expected, rtol=1e-12, err_msg=str(sample))


@check("fused", lambda op: op.fused or op.fused_cuda)
def test_a_fused_rule_gives_what_the_rules_give(row, device):
    """`fused` of a block against its `grad_<input>`, for every subset of inputs; of several outputs for the first."""
    op = row.definition
    rules = node_class.make_run(dataclasses.replace(op, fused=None, fused_cuda=None), "run_raw")
    for sample in row.draw():
        call = Call(row, sample, device).run()
        g = backend.to_device(np.asarray(np.random.randn(*call.outs[0].shape)), Device(device))
        g = g if op.single else (g, *[None] * (len(call.outs) - 1))
        for wrt in subsets(len(call.inputs)):
            need = sum(call.bits[i] for i in wrt)
            expected = rules(call.node, g, need, False)
            for actual, reference in zip(call.node.run_raw(g, need, False), expected, strict=True):
                assert (actual is None) == (reference is None), f"{sample}: {wrt}"
                if actual is not None:
                    actual, reference = backend.to_numpy(actual), backend.to_numpy(reference)
                    np.testing.assert_allclose(actual, reference, 1e-10, 1e-12, err_msg=f"{sample}: {wrt}", strict=True)
