"""Each row of the op table is captured in a CUDA graph, and replayed on other data: the word `capture` is right."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from op_checks import over
from op_db import Call, values
from op_rows import ROWS

import autograd_gpu as ag
from autograd_gpu.autograd.backward import grad
from autograd_gpu.core.declare.op import REGISTRY
from autograd_gpu.cuda.capture_errors import CaptureError

pytestmark = pytest.mark.cuda


def differentiated(call):
    """Results and gradients of a call, as tensors."""
    call.run()
    if not call.differentiable:
        return list(call.outs)
    return [*call.outs, *grad(call.differentiable, call.inputs, call.cotangents(), allow_unused=True)]


def pairs(row, device):
    """Each sample twice: with its numbers, and with others where they are floats."""
    for sample, other in zip(row.draw(), row.draw(1), strict=True):
        pair = Call(row, sample, device), Call(row, other, device)
        if all(a.shape == b.shape for (_, a), (_, b) in zip(*[call.tensors for call in pair], strict=True)):
            yield pair


def replayed(call, other):
    """What a replay of `call` gives on the numbers of `other`."""
    differentiated(call)  # compiles the kernels
    recorded = ag.cuda.CUDAGraph()
    with ag.cuda.graph(recorded):
        results = differentiated(call)
    with ag.no_grad():
        for (_, tensor), (_, new) in zip(call.tensors, other.tensors, strict=True):
            tensor.array[...] = new.array
    recorded.replay()
    return results


@over([row for row in ROWS if row.op in REGISTRY], rules=False)
def test_a_replay_computes_what_the_call_does(row, device):
    for call, other in pairs(row, device):
        results = replayed(call, other)
        for ours, expected in itertools.zip_longest(results, differentiated(other)):
            assert (ours is None) == (expected is None)
            if ours is not None:
                np.testing.assert_array_equal(values(ours), values(expected))
