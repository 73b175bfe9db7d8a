"""Checks on every row of the op table (op_db.py): the table itself, values and dtypes, layouts, errors.

A check is one function; a row may `skip` it with a reason. Others are in test_op_rules.py and test_op_memory.py.
"""

from __future__ import annotations

import doctest
import inspect
import itertools

import numpy as np
import pytest
from effort import fewer
from op_checks import Spy, calls, check, has_own_code, rows_of
from op_db import Call, Sample, assert_close, values
from op_rows import BY_MODULE, ROWS

import autograd_gpu as ag
from autograd_gpu import backend
from autograd_gpu.backend.arrays.device import Device
from autograd_gpu.core.declare.op import FLOAT, RECORD, REGISTRY
from autograd_gpu.core.tensor import wrap

HALF = ("float16", "bfloat16")

# ---- the table itself -------------------------------------------------------------------------------


def test_every_op_has_a_row():
    missing = sorted(set(REGISTRY) - {row.op for row in ROWS})
    assert not missing, f"write a row in tests/support/op_rows/ for: {', '.join(missing)}"


def test_every_row_names_an_op():
    unknown = sorted({row.op for row in ROWS} - set(REGISTRY))
    assert not unknown, f"rows for ops that do not exist: {', '.join(unknown)}"


def test_rows_lie_in_the_namesake_of_their_ops_module():
    homes = {row.op: f"autograd_gpu.ops.{module}" for module, rows in BY_MODULE.items() for row in rows}
    assert {op: home for op, home in homes.items() if getattr(RECORD, op).__module__ != home} == {}


@pytest.mark.cpu
@pytest.mark.parametrize(("what", "holds"), [("empty", lambda t: t.numel() == 0), ("zero_dim", lambda t: t.ndim == 0)])
def test_samples_contain_a_tensor_that_is(what, holds):
    lacking = [row.op for row in rows_of(what)
               if not any(holds(t) for call in calls(row, "cpu") for _, t in call.tensors)]
    assert not lacking, f'add such samples, or skip={{"{what}": reason}}'


@pytest.mark.cpu
@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_docstring_has_an_example_that_runs(name):
    doc = inspect.cleandoc(REGISTRY[name].doc)
    examples = doctest.DocTestParser().get_doctest(doc, {"ag": ag, "np": np}, name, None, 0)
    assert examples.examples, f"{name} has no example in its docstring"
    report = []
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(examples, out=report.append)
    assert not report, "".join(report)


# ---- forward ----------------------------------------------------------------------------------------


def compare(call, tolerance):
    """Values and dtypes against the reference: its floats stand for the dtype under test."""
    row, expected = call.row, call.expected()
    assert len(call.outs) == len(expected), f"{len(call.outs)} outputs, reference has {len(expected)}"
    for i, (out, array) in enumerate(zip(call.outs, expected, strict=True)):
        dtype = call.dtype if array.dtype == np.float64 else str(array.dtype)
        dtype = row.result(call.dtype) if row.result is not None else dtype
        dtype = dtype[i] if isinstance(dtype, tuple) else dtype
        assert str(out.dtype) == dtype, f"{call.sample}: result is {out.dtype}, expected {dtype}"
        assert_close(out, array, tolerance, call.sample)


@check("forward")
def test_forward_equals_the_reference(row, device):
    for call in calls(row, device, wants=[]):
        compare(call.run(), row.tolerance("float64"))
        assert not any(out.requires_grad for out in call.outs)


@check("dtypes")
@pytest.mark.parametrize("dtype", ["float32", *[pytest.param(d, marks=pytest.mark.more) for d in HALF]])
def test_dtypes(row, device, dtype):
    """Results and gradients in each float dtype: of that dtype, and near the float64 ones of the same inputs."""
    if dtype not in row.dtypes:
        pytest.skip(f"{row.op} does not take {dtype}")
    tolerance = row.tolerance(dtype)
    for call in calls(row, device, dtype=dtype):
        compare(call.run(), tolerance)
        if not call.differentiable or not call.inputs:
            continue
        exact = Call(row, Sample(*[_values_of(a) for a in call.args], **call.sample.kwargs), device).run().grad()
        with Spy(row.definition) as spy:
            plain = call.grad(retain_graph=True)
        result = set(spy.dtypes) - {dtype}
        # NumPy widens bfloat16, and beside a number half types are computed with in float32.
        widened = dtype == "bfloat16" or any(isinstance(a, (int, float)) for a in call.sample.args)
        assert not result or widened, f"{call.sample}: a rule gives {result}"
        for grads in (plain, call.grad(create_graph=True)):
            for g, wide, x in zip(grads, exact, call.inputs, strict=True):
                assert (g is None) == (wide is None)
                if g is not None:
                    assert g.dtype == x.dtype, f"{call.sample}: gradient is {g.dtype} for an input of {x.dtype}"
                    assert_close(g, values(wide), 4 * tolerance, f"gradient of {call.sample}")


def _values_of(argument):
    if isinstance(argument, list):
        return [_values_of(a) for a in argument]
    return values(argument) if isinstance(argument, ag.Tensor) else argument


@check("integers")
def test_integer_inputs(row, device):
    """int64 inputs: float ops give the default float dtype, the others what the reference gives."""
    samples = row.draw() if row.integer_samples is None else row.integer_samples(np.random.default_rng(0))
    for sample in samples:
        if row.integers is None:
            with pytest.raises((RuntimeError, TypeError)):
                Call(row, _integral(sample), device).run()
            continue
        call = Call(row, _integral(sample), device).run()
        for out, array in zip(call.outs, call.expected(), strict=True):
            dtype = "float32" if row.definition.types == FLOAT or array.dtype == np.float64 else str(array.dtype)
            dtype = dtype if row.integers == "auto" else row.integers
            assert str(out.dtype) == dtype, f"{call.sample}: result is {out.dtype}, expected {dtype}"
            assert_close(out, array, row.tolerance("float32"), call.sample)
            assert not out.requires_grad


def _integral(sample):
    """Floats of the sample as integers, away from zero: signs and non-zeros stay."""

    def convert(value):
        if isinstance(value, list):
            return [convert(item) for item in value]
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            return np.where(value >= 0, np.ceil(value), np.floor(value)).astype(np.int64)
        return int(np.copysign(np.ceil(abs(value)), value)) if isinstance(value, float) else value

    return Sample(*map(convert, sample.args), **sample.kwargs)


# ---- layouts ----------------------------------------------------------------------------------------


def transposed(array):
    """The same values with the first dimension contiguous."""
    return array.T.copy(order="C").T


def strided(array):
    """The same values, every second element of a larger block."""
    xp = backend.namespace(array)
    block = xp.zeros([2 * n for n in array.shape], array.dtype)
    view = block[(..., *(slice(1, None, 2) for _ in array.shape))]
    view[...] = array
    return view


def reversed_(array):
    """The same values with negative strides."""
    flip = (..., *(slice(None, None, -1) for _ in array.shape))
    return array[flip].copy(order="C")[flip]


def stretched(array):
    """The first slice, repeated with stride 0; masks stay, since they decide about shapes."""
    if not array.ndim or not array.size or array.dtype == bool:
        return array
    return backend.namespace(array).broadcast_to(array[:1], array.shape)


def stretched_copy(array):
    return stretched(array).copy()


def lies_as_declared(call, out, layout):
    """Whether a result is contiguous, or in the order of transposed inputs of its shape if the op keeps it.

    On CUDA our kernels write rows, and everywhere a power of a number is contiguous.
    """
    op = call.row.definition
    if op.contiguous or op.view or layout is not transposed or {t.shape for _, t in call.tensors} != {out.shape}:
        return out.is_contiguous() or not op.contiguous
    steps = [[s for n, s in zip(t.shape, t.stride(), strict=True) if n > 1] for t in (call.tensors[0][1], out)]
    return steps[0] == steps[1] or (out.is_contiguous() and (call.device == "cuda" or op.name.endswith("pow")))


LAYOUTS = [(transposed, None), (strided, None), (reversed_, None), (stretched, stretched_copy)]


@check("layouts")
def test_layouts(row, device):
    """Non-contiguous inputs: the result of the contiguous ones, in the layout that the op says."""
    samples = row.draw()
    samples = samples if has_own_code(row.definition) else samples[: fewer(len(samples), 2)]
    for sample, (layout, plain) in itertools.product(samples, LAYOUTS):
        call = Call(row, sample, device, layout=layout).run()
        dense = Call(row, sample, device, **({"layout": plain} if plain else {})).run()
        for out, expected in zip(call.outs, dense.outs, strict=True):
            assert_close(out, values(expected), 1e-12, sample)
            assert lies_as_declared(call, out, layout), sample


@check("layouts", rules=True)
def test_gradients_of_layouts(row, device):
    """Non-contiguous inputs: the gradients of the contiguous ones."""
    for sample, (layout, plain) in itertools.product(row.draw(), LAYOUTS):
        call = Call(row, sample, device, layout=layout).run()
        if call.differentiable:
            dense = Call(row, sample, device, **({"layout": plain} if plain else {})).run()
            for g, expected in zip(call.grad(), dense.grad(), strict=True):
                assert (g is None) == (expected is None)
                if g is not None:
                    assert_close(g, values(expected), 1e-12, f"gradient of {sample}")


# ---- errors -----------------------------------------------------------------------------------------

ERRORS = [(row, error) for row in ROWS if row.op in REGISTRY for error in row.errors]


@pytest.mark.parametrize(("row", "error"), ERRORS, ids=[f"{row.op}: {error.what}" for row, error in ERRORS])
def test_errors(row, error, device):
    if error.by_value and device == "cuda":
        pytest.skip("on CUDA values are not read on the host")

    def x(*shape, dtype="float32"):
        return wrap(backend.to_device(np.ones(shape, ag.backend.arrays.dtypes.as_dtype(dtype)), Device(device)))

    with pytest.raises(error.exception, match=error.match):
        error.call(row.call, x)
