"""The jvp and batch words of matrix ops, where the op table cannot ask."""

import numpy as np
import pytest
from op_db import values

from autograd_gpu import backend
from autograd_gpu.backend.arrays.device import Device
from autograd_gpu.core.declare.batch_rules import run_batched
from autograd_gpu.core.declare.jvp_rules import push_forward
from autograd_gpu.core.declare.op import RECORD, REGISTRY
from autograd_gpu.core.declare.op_call import Call
from autograd_gpu.core.tensor import wrap

DECOMPOSITIONS = ("inv", "cholesky", "eigh", "eigvalsh", "eig", "eigvals", "lu_factor_ex", "qr_factors", "svd",
                  "svdvals", "pinv", "matrix_exp")  # fmt: skip


def make(device, array):
    return wrap(backend.to_device(np.asarray(array), Device(device)))


def batched(name, n, which, inputs, **attributes):
    return run_batched(RECORD, REGISTRY[name], n, which, inputs, attributes)


# ---- what is refused -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DECOMPOSITIONS)
def test_vectors_are_no_matrices_in_a_batch(name, device):
    """Three vectors of three are a matrix to look at."""
    with pytest.raises(RuntimeError, match="at least 2 dimensions"):
        batched(name, 3, [True], [make(device, np.eye(3))])


@pytest.mark.parametrize("name", ["tril", "triu"])
def test_triangles_of_vectors_are_refused(name, device):
    with pytest.raises(RuntimeError, match="at least 2 dimensions"):
        batched(name, 3, [True], [make(device, np.eye(3))])


@pytest.mark.parametrize(
    ("name", "attributes"), [("solve", {}), ("solve_triangular", {"upper": True}), ("least_squares", {})]
)
def test_systems_without_a_matrix_are_refused(name, attributes, device):
    with pytest.raises(RuntimeError, match="at least 2 dimensions"):
        batched(name, 3, [True, False], [make(device, np.eye(3)), make(device, np.ones((3, 2)))], **attributes)


def test_unpacking_of_vectors_is_refused(device):
    with pytest.raises(RuntimeError, match="at least 2 dimensions"):
        batched("lu_unpack", 3, [True, False], [make(device, np.eye(3)), make(device, np.array([1, 2, 3], np.int32))])


# ---- systems -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "attributes"), [("solve", {}), ("solve_triangular", {"upper": True})])
def test_many_right_hand_sides_of_one_matrix_are_one_system(name, attributes, device, monkeypatch):
    shapes, solve = [], getattr(RECORD, name)

    def spy(a, b, *rest):
        shapes.append((a.shape, b.shape))
        return solve(a, b, *rest)

    monkeypatch.setattr(RECORD, name, spy)
    batched(name, 5, [False, True], [make(device, np.eye(3)), make(device, np.ones((5, 3, 2)))], **attributes)
    assert shapes == [((3, 3), (3, 10))]


def test_a_batch_of_matrices_does_not_make_a_matrix_a_vector(device):
    """b is a matrix for each example, although it has the shape of the batch without a last dimension."""
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(3, 3, 3)) + 3 * np.eye(3), rng.normal(size=(3, 3))
    result = batched("solve", 3, [True, False], [make(device, a), make(device, b)])
    np.testing.assert_allclose(values(result), np.stack([np.linalg.solve(x, b) for x in a]), rtol=1e-10)


@pytest.mark.parametrize("left", [True, False])
def test_no_examples_of_a_system(left, device):
    a, b = np.eye(3), np.ones((0, 3, 2) if left else (0, 2, 3))
    assert batched("solve", 0, [False, True], [make(device, a), make(device, b)], left=left).shape == b.shape


# ---- outputs that are left out, or have no derivative --------------------------------------------------


def test_factors_that_are_not_asked_for_are_empty_in_every_example(device):
    a = np.random.default_rng(4).normal(size=(3, 4, 2))
    q, r = batched("qr_factors", 3, [True], [make(device, a)], with_q=False)
    assert q.shape == (3, 0)
    assert r.shape == (3, 2, 2)
    pivots = np.ones((3, 2), np.int32)
    parts = batched("lu_unpack", 3, [True, True], [make(device, a), make(device, pivots)], unpack_data=False)
    assert [x.shape for x in parts] == [(3, 4, 4), (3, 0), (3, 0)]
    parts = batched("lu_unpack", 3, [True, True], [make(device, a), make(device, pivots)], unpack_pivots=False)
    assert [x.shape for x in parts] == [(3, 0), (3, 4, 2), (3, 2, 2)]


def test_no_tangents_of_parts_that_were_not_unpacked(device):
    op, inputs = REGISTRY["lu_unpack"], [make(device, np.eye(2)), make(device, np.array([1, 2], np.int32))]
    call = Call(op, inputs, {"unpack_data": False}, RECORD.lu_unpack(*inputs, unpack_data=False))
    assert push_forward(RECORD, call, (make(device, np.ones((2, 2))), None)) == (None, None, None)


@pytest.mark.parametrize(
    ("attributes", "match"), [({"with_q": False}, "mode='r'"), ({"complete": True}, "nrows > ncols")]
)
def test_qr_without_a_derivative_has_none_forward(attributes, match, device):
    op, a = REGISTRY["qr_factors"], make(device, np.random.default_rng(5).normal(size=(4, 2)))
    call = Call(op, [a], attributes, RECORD.qr_factors(a, **attributes))
    with pytest.raises(RuntimeError, match=match):
        push_forward(RECORD, call, (a,))


@pytest.mark.parametrize("shape", [(4, 2), (2, 4)])
def test_further_singular_vectors_have_a_zero_tangent(shape, device):
    rng = np.random.default_rng(6)
    a, t = (make(device, rng.normal(size=shape)) for _ in range(2))
    op, k = REGISTRY["svd"], 2
    whole, thin = ([values(x) for x in push_forward(RECORD, Call(op, [a], words, RECORD.svd(a, **words)), (t,))]
                   for words in ({"full_matrices": True}, {"full_matrices": False}))
    np.testing.assert_allclose(whole[0][:, :k], thin[0], rtol=1e-8)
    np.testing.assert_allclose(whole[1], thin[1], rtol=1e-8)
    np.testing.assert_allclose(whole[2][:k], thin[2], rtol=1e-8)
    assert whole[0].shape == (shape[0], shape[0])
    assert whole[2].shape == (shape[1], shape[1])
    assert not whole[0][:, k:].any()
    assert not whole[2][k:].any()
