"""Streams by native code have the bits of the passes."""

import numpy as np
import pytest
from formula_bits import same_bits, values

from autograd_gpu.backend.cpu import streams
from autograd_gpu.backend.formulas import jets
from autograd_gpu.backend.formulas.native import switch

pytest.importorskip("llvmlite", reason="native code needs the extra [native]")
pytestmark = pytest.mark.cpu
ROWS, H = 37, 130
NEEDED = [(True, True, True), (False, False, True), (True, True, False), (True, False, True)]
GROUPS = {
    "full": (2, (((0, 0),), ((0, 1),), ((1, 1),))),
    "diagonal": (3, (((0, 0),), ((1, 1),), ((2, 2),))),
    "laplacian": (2, (((0, 0), (1, 1)),)),
    "mixed": (3, (((2, 0), (0, 0), (1, 2)), ((1, 1),))),
    "first": (2, ()),
}


def stream(count, seed, by_planes=False):
    data = np.random.default_rng(seed).standard_normal((ROWS, count, H)).astype(np.float32)
    return np.ascontiguousarray(data.swapaxes(0, 1)).swapaxes(0, 1) if by_planes else data


def native_of(made):
    made.compile(np.dtype(np.float32))
    return made


@pytest.mark.parametrize("bends", [True, False])
@pytest.mark.parametrize("seconds", [True, False])
@pytest.mark.parametrize("name", GROUPS)
def test_streams_and_their_gradients(name, seconds, bends):
    d, groups = GROUPS[name]
    form = jets.Form(d, groups, seconds and bool(groups), bends)
    f1, f2 = values(ROWS * H).reshape(ROWS, H), values(ROWS * H, seed=1).reshape(ROWS, H) if bends else None
    t, g = stream(form.arriving, 2, seconds), stream(form.leaving, 3)
    results = []
    native_of(jets.push(form))
    for needed in NEEDED:
        native_of(jets.pull(form, jets.Needed(*needed)))
    for on in (True, False):
        with switch.numpy_code_alone(), np.errstate(all="ignore"):
            switch.SETTING.on = on
            out = np.empty_like(g)
            streams.push_block(f1, f2, t, out, d, groups)
            made = [out]
            for needed in NEEDED:
                shapes = (f1.shape, f1.shape, t.shape)
                bars = [np.empty(shape, f1.dtype) if n else None for n, shape in zip(needed, shapes, strict=True)]
                streams.pull_block(f1, f2, t, g, *bars, d, groups)
                made += [bar for bar in bars if bar is not None]
        results.append(made)
    for native, passes in zip(*results, strict=True):
        same_bits(native, passes)


def test_a_stream_of_many_rows_runs_by_passes():
    groups = tuple([((i, j),) for i in range(5) for j in range(i, 5)])
    assert jets.push(jets.Form(5, groups, True, True)) is None
    assert jets.pull(jets.Form(5, groups, True, True), jets.Needed(True, True, True)) is None
