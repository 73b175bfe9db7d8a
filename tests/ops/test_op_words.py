"""The jvp and batch words of every op, from the op table: against its own gradient rules, and against a loop."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from effort import fewer
from op_checks import check, has_own_code
from op_db import Call as TensorCall
from op_db import Sample, as_tuple, assert_close, values

from autograd_gpu import backend
from autograd_gpu.autograd.backward import grad
from autograd_gpu.backend.arrays.device import Device
from autograd_gpu.core.declare.batch_rules import run_batched
from autograd_gpu.core.declare.jvp_rules import push_forward
from autograd_gpu.core.declare.op import RAW, RECORD, REGISTRY
from autograd_gpu.core.declare.op_call import Call
from autograd_gpu.core.interpret.implementation import run_keeping_saved
from autograd_gpu.core.tensor import Tensor, wrap

N = 3  # examples in a batch


def test_every_op_says_how_it_is_batched():
    assert not sorted(name for name, op in REGISTRY.items() if op.batch is None)


def test_every_op_with_derivatives_says_how_tangents_go_forward():
    assert not sorted(name for name, op in REGISTRY.items() if op.has_rules and op.jvp is None)


def test_no_op_without_derivatives_claims_a_jvp():
    assert not sorted(name for name, op in REGISTRY.items() if not op.has_rules and op.jvp is not None)


def on(device, array):
    return wrap(backend.to_device(np.asarray(array), Device(device)))


def array_of(value):
    """What RAW takes in place of tensors."""
    if isinstance(value, list):
        return [array_of(item) for item in value]
    return value._array if isinstance(value, Tensor) else value


def flat(args, op):
    return tuple(args[0]) if op.variadic else tuple(args)


# ---- jvp --------------------------------------------------------------------------------------------


class Forward:
    """A sample's call, recorded and on arrays, with tangents for its differentiable inputs."""

    def __init__(self, row, sample, device):
        self.op, self.device = row.definition, device
        self.made = TensorCall(row, sample, device)
        self.made.run()  # rows with a function of their own may change arguments: only its inputs are used
        self.args, self.attributes = self.made.args, _attributes(self.op, self.made.args, sample)
        self.args = self.args[: len(self.op.inputs)] + [None] * (len(self.op.inputs) - len(self.args))
        self.rng = np.random.default_rng(zlib.crc32(row.op.encode()))
        outs, extras = self._run()
        self.call = Call(self.op, self.args, self.attributes, outs, extras)
        self.raw = Call(
            self.op, array_of(self.args), self.attributes, [t._array for t in outs],
            {name: array_of(value) for name, value in extras.items()},
        )  # fmt: skip

    def _run(self):
        if self.op.saved:
            outs, extras = run_keeping_saved(self.op, tuple(self.args), self.attributes)
        else:
            outs, extras = getattr(RECORD, self.op.name)(*self.args, **self.attributes), {}
        return as_tuple(outs), extras

    def live(self):
        """The numbers of the differentiable inputs, among the elements of a list input or the arguments."""
        inputs = flat(self.args, self.op)
        return [i for i, x in enumerate(inputs) if any(x is mine for mine in self.made.inputs)]

    def tangents(self, chosen):
        inputs = flat(self.args, self.op)
        return [on(self.device, self.rng.normal(size=x.shape)) if i in chosen else None for i, x in enumerate(inputs)]


def _attributes(op, args, sample):
    """All of a call's attributes: those given after the inputs by position, and by keyword."""
    words = dict(zip(op.attributes, args[len(op.inputs) :], strict=False))
    return {**words, **{k: v for k, v in sample.kwargs.items() if k in op.attributes}}


def choices(live):
    """Tangents for all inputs, and for each alone."""
    return [live, *([i] for i in live if len(live) > 1)]


@pytest.mark.filterwarnings("ignore:Using a target size")
@check("jvp", lambda op: op.has_rules, rules=True)
def test_jvp_is_the_transpose_of_the_gradient(row, device):
    """<w, jvp(t)> = <vjp(w), t>, and the same for the derivatives of both sides; on arrays the same jvp."""
    for sample in row.draw():
        forward = Forward(row, sample, device)
        live = forward.live()
        inputs = [flat(forward.args, forward.op)[i] for i in live]
        outs = [out for out in forward.call.outs if out.requires_grad]
        if not outs:
            continue
        for chosen in choices(live):
            tangents = forward.tangents(chosen)
            result = push_forward(RECORD, forward.call, tangents)
            on_arrays = push_forward(RAW, forward.raw, [None if t is None else t._array for t in tangents])
            for out, t, raw in zip(forward.call.outs, result, on_arrays, strict=True):
                assert (t is None) == (raw is None)
                if t is not None:
                    assert out.requires_grad, "a tangent for an output that has no gradient"
                    assert t.shape == out.shape
                    assert t.dtype == out.dtype
                    assert_close(wrap(raw), values(t), 1e-10, sample)
            _compare_products(forward, result, inputs, [tangents[i] for i in live], sample)


def _compare_products(forward, actual, inputs, tangents, sample):
    """Both sides of the identity, and their gradients with respect to the inputs and the weights."""
    weights = [on(out.device, forward.rng.normal(size=out.shape)).requires_grad_() for out in forward.call.outs]
    pairs = [(o, w, t) for o, w, t in zip(forward.call.outs, weights, actual, strict=True) if o.requires_grad]
    back = grad([o for o, _, _ in pairs], inputs, [w for _, w, _ in pairs], create_graph=True, allow_unused=True)
    left = _inner([(w, t) for _, w, t in pairs])
    right = _inner(zip(back, tangents, strict=True))
    assert_close(left, values(right), 1e-8, f"<w, jvp> of {sample}")
    variables = [*inputs, *(w for _, w, _ in pairs)]
    derivatives = [
        grad([side], variables, allow_unused=True, retain_graph=True) if side.requires_grad else [None] * len(variables)
        for side in (left, right)
    ]
    for i, (a, b) in enumerate(zip(*derivatives, strict=True)):
        a, b = (np.zeros(variables[i].shape) if x is None else values(x) for x in (a, b))
        scale = 1 + np.abs(b).max(initial=0)
        np.testing.assert_allclose(a, b, atol=1e-7 * scale, err_msg=f"derivative {i} of <w, jvp> of {sample}")


def _inner(pairs):
    terms = [(a * b).sum() for a, b in pairs if a is not None and b is not None]
    return sum(terms[1:], terms[0]) if terms else wrap(np.zeros(()))


# ---- batch ------------------------------------------------------------------------------------------


def examples(row, k, device):
    """Sample number k of N draws, with the numbers of the first; if the shapes differ the first one N times."""
    drawn = [row.draw(seed)[k] for seed in range(N)]
    first = drawn[0]
    drawn = [
        Sample(*(b if isinstance(b, (np.ndarray, list)) else a for a, b in zip(first.args, other.args, strict=True)),
               **first.kwargs)
        for other in drawn
    ]  # fmt: skip
    if len({repr(sample) for sample in drawn}) > 1:
        drawn = drawn[:1] * N
    return [TensorCall(row, sample, device) for sample in drawn]


def batches(count):
    """Which inputs are batched: all, and each alone."""
    every = tuple([True] * count)
    return dict.fromkeys([every, *(tuple(j == i for j in range(count)) for i in range(count))])


@pytest.mark.filterwarnings("ignore:Using a target size")
@check("batch")
def test_batch_is_a_loop_over_examples(row, device):
    op, samples = row.definition, row.draw()
    for k, sample in enumerate(samples if has_own_code(op) else samples[: fewer(len(samples))]):
        made = examples(row, k, device)
        attributes = _attributes(op, made[0].args, sample)
        many = [flat(call.args[: len(op.inputs)], op) for call in made]
        positions = [i for i, x in enumerate(many[0]) if isinstance(x, Tensor)]
        for chosen in batches(len(positions)):
            batched = [False] * len(many[0])
            for i, b in zip(positions, chosen, strict=True):
                batched[i] = b
            one_by_one = [
                [inputs[i] if batched[i] else x for i, x in enumerate(many[0])] for inputs in many
            ]
            if row.no_batch(sample, batched):
                with pytest.raises(RuntimeError, match=f"{op.name} cannot be batched: .* depends on"):
                    _compare_batch(op, one_by_one, batched, attributes, sample)
            else:
                _compare_batch(op, one_by_one, batched, attributes, sample)


def _compare_batch(op, one_by_one, batched, attributes, sample):
    def run(inputs):
        if op.saved:
            outs, extras = run_keeping_saved(op, [*inputs, *[None] * missing], attributes)
            return as_tuple(outs), extras
        return as_tuple(getattr(RECORD, op.name)(*([inputs] if op.variadic else inputs), **attributes)), {}

    missing = len(op.inputs) - len(one_by_one[0]) if not op.variadic else 0
    expected, kept = zip(*[run(inputs) for inputs in one_by_one], strict=True)
    stacked = [
        RECORD.stack([inputs[i] for inputs in one_by_one]) if b else x
        for (i, b), x in zip(enumerate(batched), one_by_one[0], strict=True)
    ]
    stacked, batched = stacked + [None] * missing, [*batched, *[False] * missing]
    result = run_batched(RECORD, op, N, batched, stacked, attributes)
    on_arrays = run_batched(RAW, op, N, batched, [array_of(x) for x in stacked], attributes)
    if op.saved:
        result, extras = result
        on_arrays, raw_extras = on_arrays
        _compare_extras(extras, {name: array_of(x) for name, x in extras.items()}, kept, (sample, batched))
        _compare_extras(extras, raw_extras, kept, (sample, batched, "on arrays"))
    result = as_tuple(result)
    on_arrays = (on_arrays,) if op.single else tuple(on_arrays)
    assert len(result) == len(expected[0]) == len(on_arrays)
    for j, (out, raw) in enumerate(zip(result, on_arrays, strict=True)):
        loop = np.stack([values(outs[j]) for outs in expected])
        assert out.dtype == expected[0][j].dtype
        assert_close(out, loop, 1e-9, f"{sample}, batched {batched}")
        assert_close(wrap(raw), loop, 1e-9, f"{sample} on arrays, batched {batched}")


def _compare_extras(extras, arrays, kept, where):
    """Extras that are tensors are those of the examples, stacked; a number for all rows may be one for each row."""
    assert set(extras) == set(arrays) == set(kept[0])
    for name, x in extras.items():
        if isinstance(kept[0][name], Tensor):
            assert x.dtype == arrays[name].dtype == kept[0][name].dtype, (name, where)
            assert len(arrays[name]) == N, (name, where)
            for i, mine in enumerate(kept):
                loop = np.broadcast_to(values(mine[name]), x.shape[1:])
                assert_close(wrap(arrays[name][i]), loop, 1e-9, f"{name} of {where}")
        else:
            assert all(mine[name] == x == arrays[name] for mine in kept), (name, where)
