"""What the op table cannot say about the words jvp and batch.

How many products a batch takes, how bad examples are refused, and losses of classes of which none counts.
"""

from __future__ import annotations

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.autograd.backward import grad
from autograd_gpu.core.declare.batch_rules import run_batched
from autograd_gpu.core.declare.jvp_rules import push_forward
from autograd_gpu.core.declare.op import RECORD, REGISTRY
from autograd_gpu.core.declare.op_call import Call
from autograd_gpu.core.interpret.implementation import run_keeping_saved

N = 7


def batch(name, batched, *inputs, **attributes):
    result = run_batched(RECORD, REGISTRY[name], len(inputs[batched.index(True)]), batched, inputs, attributes)
    return result[0] if REGISTRY[name].saved else result


def drawn(shapes, batched):
    rng = np.random.default_rng(0)
    return [ag.tensor(rng.normal(size=(N, *s) if b else s)) for s, b in zip(shapes, batched, strict=True)]


SHARED = [
    ("gemm", ((2, 3), (3, 4)), (True, False), (2 * N, 3, 4)),
    ("gemm", ((2, 3), (3, 4)), (False, True), (4 * N, 3, 2)),
    ("mm", ((2, 3), (3, 4)), (True, False), (2 * N, 3, 4)),
    ("mm", ((2, 3), (3, 4)), (False, True), (4 * N, 3, 2)),
    ("mv", ((2, 3), (3,)), (False, True), (N, 3, 2)),
    ("mv", ((2, 3), (3,)), (True, False), (2 * N, 3, 1)),
    ("matmul", ((2, 3), (3,)), (False, True), (N, 3, 2)),
    ("matmul", ((3,), (3, 4)), (True, False), (N, 3, 4)),
    ("matmul", ((5, 2, 3), (3, 4)), (True, False), (10 * N, 3, 4)),
    ("matmul", ((5, 2, 3), (3, 4)), (False, True), (4 * N, 3, 10)),
    ("matmul", ((5, 2, 3), (3, 4)), (True, True), (N, 10, 3, 4)),
    ("linear", ((3,), (4, 3), (4,)), (True, False, False), (N, 3, 4)),
    ("linear", ((5, 3), (4, 3), (4,)), (True, False, True), (5 * N, 3, 4)),
    ("linear", ((5, 3), (4, 3), (4,)), (False, True, True), (4 * N, 3, 5)),
    ("addmm", ((4,), (2, 3), (3, 4)), (False, True, False), (2 * N, 3, 4)),
    ("addmm", ((4,), (2, 3), (3, 4)), (True, False, False), (2, 3, 4)),
]


@pytest.mark.parametrize(("name", "shapes", "batched", "product"), SHARED)
def test_a_shared_operand_makes_one_product(name, shapes, batched, product, device):
    """Of two matrices on the CPU; cuBLAS takes a batch of strided views as it lies."""
    with ag.profiler.count() as counts:
        batch(name, batched, *drawn(shapes, batched))
    assert list(counts.matmuls.values()) == [1]
    assert device == "cuda" or list(counts.matmuls) == [product]


REFUSED = [
    ("mm", ((3,), (3, 4)), "self must be a matrix"),
    ("mm", ((2, 3), (4, 5)), r"cannot be multiplied \(2x3 and 4x5\)"),
    ("bmm", ((3, 4), (2, 4, 5)), "batch1 must be a 3D tensor"),
    ("bmm", ((1, 3, 4), (2, 4, 5)), "Expected size for first two dimensions"),
    ("mv", ((3,), (3,)), "matrix @ vector expected"),
    ("mv", ((2, 3), (2,)), "size mismatch"),
    ("matmul", ((), (3,)), "at least 1D, but they are 0D and 1D"),
    ("matmul", ((2, 3), (4,)), r"got input \(2\), mat \(2x3\), vec \(4\)"),
    ("linear", ((3,), (2, 3, 3)), "but got 3"),
    ("linear", ((2, 3), (4, 3), (3,)), r"expanded size of the tensor \(4\)"),
    ("addmm", ((3,), (2, 3), (3, 4)), r"expanded size of the tensor \(4\)"),
    ("addmm", ((2, 4), (3,), (3, 4)), "self must be a matrix"),
    ("addbmm", ((4,), (2, 2, 3), (3, 3, 4)), "same number of batches, got 2"),
    ("addmv", ((2,), (2,), (4,)), "expected, got 1, 1, 1"),
    ("addr", ((1,), (2, 2), (4,)), "Expected 1-D argument vec1, but got 2-D"),
]


@pytest.mark.parametrize(("name", "shapes", "text"), REFUSED)
def test_examples_are_refused_as_the_op_refuses_them(name, shapes, text):
    op, batched = REGISTRY[name], (True,) * len(shapes)
    with pytest.raises(RuntimeError, match=text):
        getattr(RECORD, name)(*drawn(shapes, (False,) * len(shapes)))
    missing = (None,) * (len(op.inputs) - len(shapes))
    with pytest.raises(RuntimeError, match=text):
        batch(name, (*batched, *(False for _ in missing)), *drawn(shapes, batched), *missing)


# ---- losses of classes ---------------------------------------------------------------------------------

TARGETS = np.array([[0, 2, 1], [-100, 1, -100], [-100, -100, -100]])  # all, some and no rows count


def losses(name, reduction, own_weights):
    """x, the loss of each example by one batched call, and the losses by calls of their own."""
    rng = np.random.default_rng(1)
    x = ag.tensor(rng.normal(size=(3, 3, 4)), requires_grad=True)
    weights = ag.tensor(rng.uniform(0.5, 2.0, size=(3, 4) if own_weights else 4))
    attributes = {"ignore_index": -100, "reduction": reduction}
    together = batch(name, (True, True, own_weights), x, ag.tensor(TARGETS), weights, **attributes)
    apart = [
        getattr(RECORD, name)(x[i], ag.tensor(TARGETS[i]), weights[i] if own_weights else weights, **attributes)
        for i in range(3)
    ]
    if name != "class_nll":
        together, apart = together[0], [one.loss for one in apart]
    return x, together, ag.stack(apart)


@pytest.mark.parametrize("own_weights", [False, True])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", ["class_cross_entropy", "logits_cross_entropy", "class_nll"])
def test_each_example_ignores_and_weighs_by_itself(name, reduction, own_weights):
    x, together, apart = losses(name, reduction, own_weights)
    np.testing.assert_allclose(together.numpy(force=True), apart.numpy(force=True), rtol=1e-12)
    assert np.isnan(together.numpy(force=True)).any() == (reduction == "mean")
    results, expected = (grad(loss, x, ag.ones_like(loss))[0].numpy(force=True) for loss in (together, apart))
    np.testing.assert_allclose(results, expected, rtol=1e-12, atol=1e-15)
    assert not results[2].any()


@pytest.mark.cpu
def test_a_class_out_of_range_is_refused_in_a_batch_as_well():
    with pytest.raises(IndexError, match=r"Target 4 is out of bounds"):
        batch("class_nll", (True, True, False), ag.ones(2, 3, 4), ag.tensor([[0, 1, 2], [0, 4, 0]]), None)


@pytest.mark.parametrize("name", ["class_cross_entropy", "logits_cross_entropy", "class_nll"])
def test_where_no_row_counts_tangents_are_zero_as_gradients_are(name):
    op, attributes = REGISTRY[name], {"ignore_index": -100, "reduction": "mean"}
    args = ag.ones(3, 4), ag.tensor(TARGETS[2]), None
    outs, saved = run_keeping_saved(op, args, attributes)
    outs = (outs,) if op.single else outs
    assert np.isnan(outs[0].item())
    tangents = push_forward(RECORD, Call(op, args, attributes, outs, saved), (ag.ones(3, 4), None, None))
    assert tangents[0].item() == 0.0
