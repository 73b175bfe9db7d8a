"""Streams behind activations: one native code for the factors and the chain rule has the bits of the passes."""

import numpy as np
import pytest
from formula_bits import same_bits, values

import autograd_gpu as ag
from autograd_gpu.backend.cpu import streams
from autograd_gpu.backend.formulas.native import switch
from autograd_gpu.ops.jets import activation_jet
from autograd_gpu.ops.nn.linear_activation import ACTIVATIONS, all_parameters, by_result

pytest.importorskip("llvmlite", reason="native code needs the extra [native]")
pytestmark = pytest.mark.cpu
ROWS, H = 40, 130
FORMS = [(2, (((0, 0),), ((0, 1),), ((1, 1),)), True), (3, (((0, 0), (1, 2)),), False), (2, (), True)]
NEEDED = [(True, True), (False, True), (True, False)]  # by the operand, by the stream


@pytest.mark.parametrize("form", FORMS, ids=["full", "laplacian", "first"])
@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
def test_native_code_has_the_bits_of_the_passes(activation, form, monkeypatch):
    d, groups, seconds = form
    monkeypatch.setattr(switch, "LOADS", 1)
    monkeypatch.setattr(switch, "COMPILES", 1)
    assert ROWS * H > streams.FEW
    special, random = values(ROWS * H).reshape(ROWS, H), np.random.default_rng(1)
    t = random.standard_normal((ROWS, d + len(groups) * seconds, H)).astype(np.float32)
    g = random.standard_normal((ROWS, d + len(groups), H)).astype(np.float32)
    bias = None if by_result(activation) else random.standard_normal(H).astype(np.float32)
    options = {"activation": activation, "d": d, "groups": groups, "parameters": all_parameters(activation, {})}
    results = []
    for on in (False, True):
        made = []
        with switch.numpy_code_alone(), np.errstate(all="ignore"):
            switch.SETTING.on = on
            for need in NEEDED:
                by_operand, by_stream = need
                z, b, stream = ag.tensor(special), None if bias is None else ag.tensor(bias), ag.tensor(t)
                inputs = [x.requires_grad_() for x in (z, b) if x is not None and by_operand]
                inputs += [stream.requires_grad_()] if by_stream else []
                out = activation_jet(z, stream, b, **options)
                made.append(out)
                if out.requires_grad:
                    made += ag.autograd.grad(out, inputs, ag.tensor(g), allow_unused=True)
        results.append([None if x is None else x.numpy(force=True) for x in made])
    for native, passes in zip(*results, strict=True):
        assert (native is None) == (passes is None)
        if native is not None:
            same_bits(native, passes)
