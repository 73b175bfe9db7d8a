"""Each row of the op table is captured in a CUDA graph, and replayed on other data: the word `no_capture` is right."""

from __future__ import annotations

import itertools
import types

import pytest
from op_checks import over
from op_db import BETWEEN_RUNS, Call, Sample, assert_close, values
from op_rows import ROWS

import autograd_gpu as ag
from autograd_gpu.autograd.backward import grad
from autograd_gpu.core.declare import uncaptured
from autograd_gpu.core.declare.op import REGISTRY
from autograd_gpu.core.declare.uncaptured import REASONS
from autograd_gpu.cuda import graphs
from autograd_gpu.cuda.capture_errors import CaptureError

pytestmark = pytest.mark.cuda
SAMPLES = 4  # of each row that are captured

# Ops that can be captured with some arguments only, and which not.
SOMETIMES = {
    "to_device": "from the host", "advanced_index": "masks", "advanced_index_backward": "masks",
    "advanced_set": "masks", "advanced_add": "masks", "one_hot": "where the classes are counted",
    "random_normal": "standard deviations are checked", "random_multinomial": "probabilities are checked",
    "repeat_positions": "the counts are added up", "lu_unpack": "pivots",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _no_collections(monkeypatch):
    """A collection before each capture would take nearly all of the time."""
    monkeypatch.setattr(graphs, "gc", types.SimpleNamespace(collect=lambda: None))


def differentiated(call, cotangents):
    """Results and gradients of a call, as tensors."""
    call.run()
    if not call.differentiable:
        return list(call.outs)
    return [*call.outs, *grad(call.differentiable, call.inputs, cotangents, allow_unused=True)]


def pairs(row, device):
    """Samples twice: with their floats, and with others of the same shapes."""
    both = zip(row.draw(), row.draw(1), strict=True)
    for sample, other in [pair for pair in both if all(a.size for a in pair[0].arrays)][:SAMPLES]:
        if [a.shape for a in sample.arrays] == [a.shape for a in other.arrays]:
            args = [theirs if hasattr(mine, "shape") or isinstance(mine, list) else mine
                    for mine, theirs in zip(sample.args, other.args, strict=True)]
            yield Call(row, sample, device), Call(row, Sample(*args, **sample.kwargs), device)


def replayed(call, other):
    """What a replay of `call` gives on the numbers of `other`, and what the call itself gives on them."""
    cotangents = call.run().cotangents()
    differentiated(call, cotangents)  # compiles the kernels
    recorded = ag.cuda.CUDAGraph()
    with ag.cuda.graph(recorded):
        results = differentiated(call, cotangents)
    for (_, tensor), (_, new) in zip(call.tensors, other.tensors, strict=True):
        tensor.array[...] = new.array
    ag.manual_seed(5)  # that of the rows that draw
    recorded.replay()
    return results, differentiated(other, cotangents)


def captured(op):
    return op.no_capture is None


@over([row for row in ROWS if row.op in REGISTRY and captured(row.definition)])
def test_a_replay_computes_what_the_call_does(row, device):
    count = refused = 0
    for call, other in pairs(row, device):
        try:
            results, expected = replayed(call, other)
        except CaptureError:
            assert row.op in SOMETIMES
            refused += 1
            continue
        count += 1
        for a, b in itertools.zip_longest(results, expected):
            assert (a is None) == (b is None)
            if a is not None:
                assert_close(a, values(b), BETWEEN_RUNS["cuda"], call.sample)
    assert count or refused or not list(pairs(row, device))


@over([row for row in ROWS if row.op in REGISTRY and not captured(row.definition)])
def test_what_cannot_be_captured_says_why(row, device, monkeypatch):
    for call, _ in pairs(row, device):
        call.run()
        recorded, reason = ag.cuda.CUDAGraph(), REASONS[row.definition.no_capture]

        def fail(call=call, recorded=recorded):
            with ag.cuda.graph(recorded):
                call.run()

        with pytest.raises(CaptureError, match=rf"\w+ cannot be captured in a CUDA graph, at .*: {reason}\."):
            fail()
        monkeypatch.setattr(uncaptured.capture, "is_captured", lambda stream: False)
        with pytest.raises(CaptureError, match=f"{row.op} cannot be captured"):  # without the word, too
            fail()
        break
