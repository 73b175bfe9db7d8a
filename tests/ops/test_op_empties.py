"""Every op of the table with a size of 0 or 1 in place of another, and without dimensions, against PyTorch."""

from __future__ import annotations

import pytest
from op_oracle import torch_call
from op_rows import ROWS
from outcomes import difference, outcome, shapes, variants

import autograd_gpu as ag
from autograd_gpu.core.declare.op import REGISTRY

torch = pytest.importorskip("torch")

SAMPLES = 4  # of different shapes, per row
# Rows that PyTorch has a function for; the others are parts of functions, with arguments that these have checked.
# PyTorch's lu_unpack ends the process for pivots that do not fit.
COMPARED = [row for row in ROWS if row.op in REGISTRY and row.op != "lu_unpack"
            and row.compared("oracle_forward") == "yes" and isinstance(row.torch, str)]
ALLOWED = {  # op -> the kinds of `difference` that it may have, and why
    "mT": ("raises", "PyTorch warns that a tensor of no dimensions is about to be refused"),
    "addmv": ("refused", "PyTorch's gradient takes no 0-d input, which its forward does"),
    "floor_divide": ("refused", "PyTorch has no derivative, which is zero"),
    "heaviside": ("refused", "PyTorch has no derivative, which is zero"),
    "unique_values": ("refused", "PyTorch has no derivative, and says so in backward"),
    "safe_softmax": ("raises", "attention has two dimensions or more"),
}  # fmt: skip


def samples_of(row):
    seen = {}
    for sample in row.draw():
        if all(a.size for a in sample.arrays):
            seen.setdefault((shapes(sample.args), repr(sample.kwargs)), sample)
    return list(seen.values())[:SAMPLES]


@pytest.mark.parametrize("row", COMPARED, ids=[row.op for row in COMPARED])
def test_as_pytorch(row, device):
    if device == "cuda" and row.op == "embedding":
        pytest.skip("on CUDA nobody looks whether an index is within a smaller table")
    seen = []
    for sample in samples_of(row):
        for args in variants(sample.args):
            ours = outcome(ag, lambda m, *args, how=sample.kwargs: row.call(*args, **how), *args)
            theirs = outcome(torch, lambda m, *args, how=sample.kwargs: torch_call(row, list(args), how), *args)
            differs = difference(ours, theirs)
            kind = differs and differs.partition(":")[0]
            if differs and kind != "error" and kind != ALLOWED.get(row.op, (None,))[0]:
                seen.append(f"{shapes(args)}, {sample.kwargs}: {differs}")
    assert not seen, "\n".join(seen)
