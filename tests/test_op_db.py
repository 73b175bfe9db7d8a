"""Every check on every row of the op table (op_db.py). A check is one function; a row may `skip` it with a reason."""

from __future__ import annotations

import contextlib
import dataclasses
import doctest
import itertools
import weakref

import numpy as np
import pytest
from op_db import FLOATS, Call, Sample, assert_close, values
from op_rows import ROWS

import autograd_gpu as ag
from autograd_gpu import backend
from autograd_gpu.autograd.backward import grad
from autograd_gpu.backend import counters
from autograd_gpu.backend.device import Device
from autograd_gpu.core import nodegen
from autograd_gpu.core.op import FLOAT, REGISTRY
from autograd_gpu.core.saved import FREED
from autograd_gpu.core.tensor import wrap
from autograd_gpu.core.views import bump_version


def check(name):
    """Parametrises a check over the rows that do not skip it."""
    rows = [row for row in ROWS if row.op in REGISTRY and name not in row.skip]
    return pytest.mark.parametrize("row", rows, ids=[row.op for row in rows])


def calls(row, device, **options):
    """Each sample as a call, ready to run."""
    return [Call(row, sample, device, **options) for sample in row.draw()]


def subsets(count):
    """The non-empty subsets of range(count)."""
    return [s for size in range(1, count + 1) for s in itertools.combinations(range(count), size)]


class Spy:
    """Records which rules of an op really run, and their dtypes: wraps them where the generated code finds them."""

    def __init__(self, op):
        self.op, self.called, self.dtypes = op, [], []

    def __enter__(self):
        self.undo, node = contextlib.ExitStack(), self.op.node
        for name in ("run_raw", "run_recorded"):
            if name not in vars(node):  # they are written at their first run
                setattr(node, name, nodegen.make_run(self.op, name))
            scope = getattr(node, name).__globals__
            for key in [k for k in scope if k.startswith("grad_") or k in ("joint", "rule")]:
                self.undo.callback(scope.__setitem__, key, scope[key])
                scope[key] = self._watch(key, scope[key])
        return self

    def __exit__(self, *exc):
        self.undo.close()

    def _watch(self, key, rule):
        def watched(F, g, *args):
            if key == "joint":
                self.called += [name for name, need in zip(self.op.inputs, args[0], strict=True) if need]
            else:
                self.called.append(self.op.inputs[0] if key == "rule" else key[5:])
            found = rule(F, g, *args)
            self.dtypes += [str(x.dtype) for x in (found if key == "joint" else (found,)) if x is not None]
            return found

        return watched


# ---- the table itself -------------------------------------------------------------------------------


def test_every_op_has_a_row():
    missing = sorted(set(REGISTRY) - {row.op for row in ROWS})
    assert not missing, f"write a row in tests/op_rows/ for: {', '.join(missing)}"


def test_every_row_names_an_op():
    unknown = sorted({row.op for row in ROWS} - set(REGISTRY))
    assert not unknown, f"rows for ops that do not exist: {', '.join(unknown)}"


@check("empty")
def test_samples_contain_an_empty_tensor(row):
    arrays = [t for call in calls(row, "cpu") for _, t in call.tensors]
    assert any(t.numel() == 0 for t in arrays), 'add such a sample, or skip={"empty": reason}'


@check("zero_dim")
def test_samples_contain_a_0d_tensor(row):
    arrays = [t for call in calls(row, "cpu") for _, t in call.tensors]
    assert any(t.ndim == 0 for t in arrays), 'add such a sample, or skip={"zero_dim": reason}'


@pytest.mark.cpu
@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_docstring_has_an_example_that_runs(name):
    examples = doctest.DocTestParser().get_doctest(REGISTRY[name].doc, {"ag": ag, "np": np}, name, None, 0)
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
@pytest.mark.parametrize("dtype", [dtype for dtype in FLOATS if dtype != "float64"])
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
        found = set(spy.dtypes) - {dtype}
        # NumPy widens bfloat16, and beside a number half types are computed with in float32.
        widened = dtype == "bfloat16" or any(isinstance(a, (int, float)) for a in call.sample.args)
        assert not found or widened, f"{call.sample}: a rule gives {found}"
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


# ---- derivatives ------------------------------------------------------------------------------------


def _tolerances(row, device):
    """Whole Jacobians on the CPU; on CUDA, where every call costs more, a product with random vectors."""
    return {"atol": row.grad_atol, "rtol": 1e-4, "fast_mode": device == "cuda"}


@check("gradcheck")
def test_gradcheck(row, device):
    for call in calls(row, device):
        has_gradient = call.inputs and row.definition.has_rules
        assert bool(call.run().differentiable) == bool(has_gradient and _records(call))
        if call.differentiable:
            assert ag.autograd.gradcheck(call.function(), tuple(call.inputs), **_tolerances(row, device))


@check("gradgradcheck")
def test_gradgradcheck(row, device):
    for call in calls(row, device):
        if call.run().differentiable:
            cotangents = [g.requires_grad_() for g in call.cotangents()]
            first = grad(call.differentiable, call.inputs, cotangents, create_graph=True, allow_unused=True)
            ruled = [row.definition.rule_of(name) is not None for name in call.names]
            assert all(g is None or g.requires_grad == r for g, r in zip(first, ruled, strict=True)), call.sample
            assert ag.autograd.gradgradcheck(call.function(), tuple(call.inputs), **_tolerances(row, device))


POINTS = [row for row in ROWS if row.op in REGISTRY and row.points]


@pytest.mark.parametrize("row", POINTS, ids=[row.op for row in POINTS])
@pytest.mark.parametrize("recording", [False, True], ids=["raw", "recorded"])
def test_gradients_at_special_points(row, recording, device):
    """Kinks, ties, boundaries: the gradient that the docstring or PyTorch documents."""
    for point in row.points:
        call = Call(row, point.sample, device).run()
        ones = [wrap(backend.namespace(out._array).ones_like(out._array)) for out in call.differentiable]
        found = grad(call.differentiable, call.inputs, ones, create_graph=recording)
        for g, x, expected in zip(found, call.inputs, point.grads, strict=True):
            assert_close(g, np.broadcast_to(np.asarray(expected, np.float64), x.shape), 1e-12, point.sample)


def _records(call):
    """Whether this call makes a node, by what the block says."""
    op = call.row.definition
    attributes = {**op.attributes, **call.sample.kwargs}
    return op.differentiable is None or op.differentiable(*[attributes[name] for name in op.attributes])


@check("need")
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
                    found = call.grad(wrt, retain_graph=True, create_graph=recording)
            finally:
                counters.ACTIVE.remove(counts)
            ruled = [call.names[i] for i in wrt if op.rule_of(call.names[i]) is not None]
            assert sorted(spy.called) == sorted(ruled), f"{sample}: rules run for {wrt}"
            counted = [name for name in counts.rules.elements() if name.startswith(f"{op.name}.")]
            assert sorted(counted) == sorted(f"{op.name}.grad_{name}" for name in ruled)
            for i, g in zip(wrt, found, strict=True):
                assert (g is None) == (full[i] is None)
                if g is not None:
                    assert_close(g, values(full[i]), 1e-12, f"{sample}: gradient {i} of {wrt}")


@check("adds")
def test_a_rule_that_adds_gives_what_the_rule_gives(row, device):
    """`add_<input>` of a block against its `grad_<input>`."""
    for sample in row.draw() if row.definition.adders else ():
        call = Call(row, sample, device).run()
        tensors = dict(call.tensors)
        for i in call.node.adds:
            g = backend.to_device(np.asarray(np.random.randn(*call.outs[0].shape)), Device(device))
            ruled = call.node.run_raw(g, 1 << i, False)[i]
            into = tensors[call.node.input_names[i]]._array.copy()
            expected = backend.to_numpy(into + backend.sum_to(ruled, into.shape))
            assert call.node.run_adding(g, 1 << i, False, {i: into})[i] is None
            np.testing.assert_allclose(backend.to_numpy(into), expected, rtol=1e-12, err_msg=str(sample))


@check("fused")
def test_a_fused_rule_gives_what_the_rules_give(row, device):
    """`fused` of a block against its `grad_<input>`, for every subset of inputs; of several outputs for the first."""
    op = row.definition
    rules = nodegen.make_run(dataclasses.replace(op, fused=None), "run_raw")
    for sample in row.draw() if op.fused else ():
        call = Call(row, sample, device).run()
        g = backend.to_device(np.asarray(np.random.randn(*call.outs[0].shape)), Device(device))
        g = g if op.single else (g, *[None] * (len(call.outs) - 1))
        for wrt in subsets(len(call.inputs)):
            need = sum(call.bits[i] for i in wrt)
            expected = rules(call.node, g, need, False)
            for found, wanted in zip(call.node.run_raw(g, need, False), expected, strict=True):
                assert (found is None) == (wanted is None), f"{sample}: {wrt}"
                if found is not None:
                    found, wanted = backend.to_numpy(found), backend.to_numpy(wanted)
                    np.testing.assert_allclose(found, wanted, 1e-10, 1e-12, err_msg=f"{sample}: {wrt}", strict=True)


@check("saved")
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
            arrays, extras = _asked(call, [call.names[i] for i in wants])
            saved = sum(s.tensor.nbytes for _, s in node.saved_by_name())
            assert saved == sum(array.nbytes for array in arrays), f"{sample}: {wants}"
            kept = {name for name in op.saved if hasattr(node, f"e_{name}") and getattr(node, f"e_{name}") is not FREED}
            assert kept == extras, f"{sample}: {wants}"


def _asked(call, names):
    """Arrays, and names of what forward computed besides, that the rules of the inputs `names` read."""
    op, slots, extras = call.row.definition, set(), set()
    for name in names:
        rule = op.rule_of(name)
        for _, kind, what in op.asked(rule) if rule is not None else []:
            if kind == "extra":
                extras.add(what)
            elif kind in ("input", "out"):
                slots.add((kind, what))
    arrays = []
    for kind, what in slots:
        if kind == "input":
            arrays += [t._array for name, t in call.tensors if name == what]
        else:
            arrays.append(call.outs[0 if op.outputs is None else op.outputs.index(what)]._array)
    return arrays, extras


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


LAYOUTS = [(transposed, None), (strided, None), (reversed_, None), (stretched, stretched_copy)]


@check("layouts")
@pytest.mark.parametrize(("layout", "plain"), LAYOUTS, ids=[layout.__name__ for layout, _ in LAYOUTS])
def test_layouts(row, device, layout, plain):
    """Non-contiguous inputs: the result and the gradients of the contiguous ones."""
    for sample in row.draw():
        call = Call(row, sample, device, layout=layout).run()
        dense = Call(row, sample, device, **({"layout": plain} if plain else {})).run()
        for out, expected in zip(call.outs, dense.outs, strict=True):
            assert_close(out, values(expected), 1e-12, sample)
        if call.differentiable:
            for g, expected in zip(call.grad(), dense.grad(), strict=True):
                assert (g is None) == (expected is None)
                if g is not None:
                    assert_close(g, values(expected), 1e-12, f"gradient of {sample}")


# ---- memory -----------------------------------------------------------------------------------------


@check("cycles")
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


@check("unmodified")
def test_inputs_are_not_modified(row, device):
    for sample in row.draw():
        for recording in (False, True):
            call = Call(row, sample, device)
            before = [values(t).copy() for _, t in call.tensors]
            call.run()
            after = [values(out).copy() for out in call.outs]
            if call.differentiable:
                cotangents = call.cotangents()
                given = [values(g).copy() for g in cotangents]
                grad(call.differentiable, call.inputs, cotangents, create_graph=recording, allow_unused=True)
                for g, was in zip(cotangents, given, strict=True):
                    np.testing.assert_array_equal(values(g), was)
            for (name, t), was in zip(call.tensors, before, strict=True):
                np.testing.assert_array_equal(values(t), was, err_msg=f"{sample}: {name}")
                assert t._version == 0
            for out, was in zip(call.outs, after, strict=True):
                np.testing.assert_array_equal(values(out), was, err_msg=f"{sample}: output")


@check("freed")
def test_second_backward_needs_retain_graph(row, device):
    """It raises where something was saved, and works where nothing was."""
    for sample in row.draw():
        call = Call(row, sample, device).run()
        if not call.differentiable:
            continue
        rules = filter(None, {row.definition.rule_of(name) for name in call.names})
        kinds = {kind for rule in rules for _, kind, _ in row.definition.asked(rule)}
        first = call.grad()
        if kinds & {"input", "out", "extra"}:  # a number in the place of an input is freed as well, as in PyTorch
            with pytest.raises(RuntimeError, match="backward through the graph a second time"):
                call.grad()
            assert not call.node.saved_by_name()
        else:
            for a, b in zip(first, call.grad(), strict=True):
                assert_close(b, values(a), 0.0, sample)


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
                arrays, _ = _asked(call, [call.names[i] for i in wrt])
                bumped = [t._array for t in tensors if t._storage is storage]  # a view shares its base's storage
                expected = any(x is array for x in bumped for array in arrays)
                raised = None
                try:
                    call.grad(wrt, create_graph=recording)
                except RuntimeError as error:
                    raised = str(error)
                assert (raised is not None) == expected, f"{sample}: {wrt}, tensor {victim}: {raised}"
                assert raised is None or "modified by an inplace operation" in raised


# ---- errors -----------------------------------------------------------------------------------------

ERRORS = [(row, error) for row in ROWS if row.op in REGISTRY for error in row.errors]


@pytest.mark.parametrize(("row", "error"), ERRORS, ids=[f"{row.op}: {error.what}" for row, error in ERRORS])
def test_errors(row, error, device):
    if error.by_value and device == "cuda":
        pytest.skip("on CUDA values are not read on the host")

    def x(*shape, dtype="float32"):
        return wrap(backend.to_device(np.ones(shape, ag.backend.dtypes.as_dtype(dtype)), Device(device)))

    with pytest.raises(error.exception, match=error.match):
        error.call(row.call, x)


