"""The op table against PyTorch, where it is installed: values, first and second gradients, result dtypes."""

from __future__ import annotations

import functools
import itertools
import re

import numpy as np
import pytest
from op_db import AS_PYTORCH, FLOATS, INPUTS, Call, Sample, as_tuple, assert_close, values, whole
from op_oracle import Theirs, to_torch, torch_call
from op_rows import ROWS

from autograd_gpu import backend
from autograd_gpu.autograd.backward import grad
from autograd_gpu.backend.arrays.device import Device
from autograd_gpu.core.declare.op import REGISTRY
from autograd_gpu.core.tensor import wrap

torch = pytest.importorskip("torch")

DTYPES = (*FLOATS, "int8", "int16", "int32", "int64", "uint8", "bool")


def against_torch(name):
    """Parametrises over the rows that this check compares."""
    rows = [row for row in ROWS if row.op in REGISTRY and row.compared(name) == "yes"]
    return pytest.mark.parametrize("row", rows, ids=[row.op for row in rows])


def same(ours, theirs, what):
    """Equal values; None on either side stands for zeros."""
    if ours is None or theirs is None:
        assert ours is None or not np.any(values(ours)), f"{what}: not zero"
        assert theirs is None or not np.any(theirs.numpy(force=True)), f"{what}: not zero"
        return
    assert_close(ours, theirs.numpy(force=True), AS_PYTORCH, what)


@against_torch("oracle_forward")
def test_forward(row, device):
    for sample in row.draw_different(INPUTS):
        call = Call(row, sample, device)
        theirs = Theirs(call)
        call.run()
        assert len(call.outs) == len(theirs.outs)
        for out, expected in zip(call.outs, theirs.outs, strict=True):
            assert str(out.dtype) == str(expected.dtype).removeprefix("torch."), sample
            same(out, expected, sample)


ONE_DEAD = ("least_squares",)  # singular values, which the row makes


def first_order(call, theirs):
    """Our cotangents, their outputs, their cotangents, for outputs that have a gradient; cotangents require grad."""
    pairs = [(o, t) for o, t in zip(call.outs, theirs.outs, strict=True) if o.requires_grad]
    assert pairs
    assert all(t.requires_grad for _, t in pairs)
    dead = [t for o, t in zip(call.outs, theirs.outs, strict=True) if not o.requires_grad and t.requires_grad]
    assert len(dead) == (call.row.op in ONE_DEAD), "an output that has a gradient in PyTorch"
    call.outs = tuple(o for o, _ in pairs)
    ours = [g.requires_grad_() for g in call.cotangents()]
    return ours, [t for _, t in pairs], [torch.tensor(values(g), requires_grad=True) for g in ours]


@against_torch("oracle_grad")
def test_gradients(row, device):
    for sample in [*row.draw_different(INPUTS), *(point.sample for point in row.points)]:
        call = Call(row, sample, device).run()
        theirs = Theirs(call)
        ours_g, outs, theirs_g = first_order(call, theirs)
        grads = grad(call.outs, call.inputs, ours_g, allow_unused=True)
        expected = torch.autograd.grad(outs, theirs.inputs, theirs_g, allow_unused=True)
        for i, (g, e) in enumerate(zip(grads, expected, strict=True)):
            same(g, e, f"gradient {i} of {sample}")


@against_torch("oracle_gradgrad")
def test_second_gradients(row, device):
    """The gradients of <first gradients, w> with respect to inputs and cotangents."""
    for sample in row.draw_different(INPUTS):
        call = Call(row, sample, device).run()
        theirs = Theirs(call)
        ours_g, outs, theirs_g = first_order(call, theirs)
        first = grad(call.outs, call.inputs, ours_g, create_graph=True, allow_unused=True)
        expected = torch.autograd.grad(outs, theirs.inputs, theirs_g, create_graph=True, allow_unused=True)
        result = _second(first, [*call.inputs, *ours_g], grad, lambda w: _ours(w, device))
        expected = _second(expected, [*theirs.inputs, *theirs_g], torch.autograd.grad, torch.tensor)
        for i, (g, e) in enumerate(zip(result, expected, strict=True)):
            same(g, e, f"second gradient {i} of {sample}")


def _second(first, variables, differentiate, make):
    rng = np.random.default_rng(3)
    outs, weights = [], []
    for g, w in [(g, rng.normal(size=tuple(g.shape))) if g is not None else (None, None) for g in first]:
        if g is not None and g.requires_grad:
            outs.append(g)
            weights.append(make(np.asarray(w)))
    if not outs:
        return [None] * len(variables)
    return differentiate(outs, variables, weights, allow_unused=True)


def _ours(array, device):
    return wrap(backend.to_device(array, Device(device)))


# ---- floats without a derivative ----------------------------------------------------------------------

GRADIENTS = ("class_nll_grad", "cross_entropy_grad", "logits_cross_entropy_grad", "gamma_slope")  # of composed rows


def test_a_float_input_without_a_derivative(device):
    """If it requires grad, the call raises, or backward, or the results are constants: as in PyTorch."""
    rows = [row for row in ROWS if row.op in REGISTRY and row.compared("oracle_forward") == "yes"]
    for row in [row for row in rows if row.op not in GRADIENTS]:
        op = row.definition
        for sample in row.draw():
            for i, x in enumerate(sample.args):
                constant = not op.has_rules or op.inputs[0 if op.variadic else i] in (*op.nondiff, *row.constant)
                if constant and isinstance(x, np.ndarray) and x.dtype.kind == "f":
                    call = Call(row, sample, device, wants=())
                    theirs = [_plain(value) for value in call.args]
                    result = _outcome(functools.partial(_ours_of, row, sample), call.args, i, grad)
                    run = functools.partial(torch_call, row, kwargs=sample.kwargs)
                    expected = _outcome(run, theirs, i, torch.autograd.grad)
                    assert result == expected, f"{row.op}: {op.inputs[i]} of {sample}"


def _ours_of(row, sample, args):
    return row.call(*args, **sample.kwargs)


def _outcome(run, args, i, differentiate):
    args[i].requires_grad_()
    try:
        outs = [out for out in as_tuple(run(args)) if out.requires_grad]
    except RuntimeError as error:
        return re.search(r"is not differentiable with respect to argument '\w+'", str(error))[0]
    try:
        return bool(outs) and differentiate([out.sum() for out in outs], args[i], allow_unused=True)
    except (NotImplementedError, RuntimeError) as error:
        return re.search("is not implemented", str(error))[0]


# ---- result dtypes ----------------------------------------------------------------------------------


def check_dtype(row, sample, dtype, device):
    """Compares one call; returns what PyTorch says where it does not take these dtypes, else None."""
    call = Call(row, sample, device, dtype=dtype)
    try:
        theirs = torch_call(row, [_plain(a) for a in call.args], sample.kwargs)
    except (RuntimeError, TypeError, NotImplementedError) as error:
        return str(error).partition("\n")[0]
    with np.errstate(all="ignore"):
        ours = call.run().outs
    results = [str(out.dtype) for out in ours]
    assert results == [str(out.dtype).removeprefix("torch.") for out in as_tuple(theirs)], f"{sample} in {dtype}"


def check_dtypes(row, samples, dtype, device):
    """As check_dtype for each; empty tensors count only where PyTorch takes others: it often does not look at them."""
    full = [sample for sample in samples if all(a.size for a in sample.arrays)]
    refusals = [check_dtype(row, sample, dtype, device) for sample in full]
    if not all(refusals):
        refusals += [check_dtype(row, sample, dtype, device) for sample in samples if sample not in full]
    return refusals


def skip_if_refused(refusals):
    """A test in which PyTorch took no call has compared nothing: it is skipped, with what PyTorch said."""
    if refusals and all(refusals):
        pytest.skip(f"PyTorch: {refusals[0]}")


def _plain(value):
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return to_torch(value) if hasattr(value, "_array") else value


@against_torch("oracle_dtypes")
@pytest.mark.parametrize("dtype", DTYPES)
def test_result_dtypes(row, dtype, device):
    """All float inputs in one dtype, beside numbers where the op takes them."""
    if dtype == "bool" and "oracle_bool" in row.skip:
        pytest.skip(row.skip["oracle_bool"])
    skip_if_refused(check_dtypes(row, row.draw_in(dtype), dtype if dtype in FLOATS else "float32", device))


@against_torch("oracle_dtypes")
def test_promotion(row, device):
    """Two tensor inputs of different dtypes, and 0-d beside dimensioned ones."""
    pairs, refusals = [], []
    for sample in row.draw():
        positions = [i for i, a in enumerate(sample.args) if isinstance(a, np.ndarray) and a.dtype.kind == "f"]
        pairs += [(sample, positions[:2])] if len(positions) > 1 else []
    for which, dtype, other in itertools.product((0, 1), FLOATS, ("int64", "uint8", "bool")):
        samples = []
        for sample, positions in pairs:
            args = list(sample.args)
            args[positions[which]] = whole(args[positions[which]], other)
            samples.append(Sample(*args, **sample.kwargs))
        refusals += check_dtypes(row, samples, dtype, device)
    if not refusals:
        pytest.skip("takes one float tensor")
    skip_if_refused(refusals)
