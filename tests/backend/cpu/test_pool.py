"""The pool of large NumPy arrays: memory comes back when nobody can see it any more, and not before."""

import fault_injection
import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.backend.cpu import pool

pytestmark = pytest.mark.cpu

SHAPE = (512, 512)


@pytest.fixture(autouse=True)
def _empty_pool():
    pool.release()
    yield
    pool.release()


def address(array):
    return array.__array_interface__["data"][0]


def test_memory_is_used_again():
    a = pool.empty(SHAPE, np.dtype("float32"))
    first = address(a)
    del a
    assert pool.held_bytes() == 512 * 512 * 4
    b = pool.empty((256, 1024), np.dtype("float32"))
    assert address(b) == first
    assert pool.held_bytes() == 0


def test_a_view_keeps_it():
    a = pool.empty(SHAPE, np.dtype("float32"))
    view = a[3:5].T.reshape(-1)
    row = a[7]
    row[...] = 7
    del a, view
    other = pool.empty(SHAPE, np.dtype("float32"))
    other[...] = 0
    assert (row == 7).all()
    assert pool.held_bytes() == 0


def test_what_waits_is_bounded(monkeypatch):
    monkeypatch.setattr(pool, "MAX_FREE", 4 << 20)
    for n in range(1, 60):
        del_me = pool.empty((n * 64, 1024), np.dtype("float32"))
        del del_me
        assert pool.held_bytes() <= pool.MAX_FREE


@pytest.mark.more
def test_varying_batches_stay_bounded():
    w = ag.rand(256, 256, requires_grad=True)
    for n in range(8, 60):
        (ag.rand(n * 64, 256) @ w).sum().backward()
        w.grad = None
    assert pool.held_bytes() <= pool.MAX_FREE


def test_small_and_foreign_types_are_plain():
    assert pool.empty((4,), np.dtype("float32")).base is None
    assert pool.empty((1 << 20,), ag.bfloat16).base is None


def test_ownership():
    a = pool.empty(SHAPE, np.dtype("float32"))
    assert pool.owns(a)
    assert pool.owns(np.empty(3))
    assert not pool.owns(a[1:])
    assert not pool.owns(np.empty(3)[1:])


def test_a_leaf_takes_a_fresh_gradient_over():
    """The weight gradient of a layer is not copied: its memory is the product's, from the pool."""
    w, x = ag.rand(512, 512, requires_grad=True), ag.rand(64, 512)
    (x @ w).sum().backward()
    assert isinstance(w.grad.array.base, pool.Block)
    y = x @ w
    (y + y + y).sum().backward(create_graph=False)
    assert isinstance(w.grad.array.base, pool.Block)


def test_waiting_memory_is_given_back_before_memory_runs_out():
    waiting = pool.empty(SHAPE, np.dtype("float32"))
    del waiting
    with fault_injection.out_of_memory(ag.device("cpu"), at=1) as allocations:
        a = pool.empty((1024, 1024), np.dtype("float32"))
    assert a.size == 1 << 20
    assert allocations.count == 2
    assert pool.held_bytes() == 0
    with pytest.raises(MemoryError, match="Unable to allocate"), fault_injection.out_of_memory(ag.device("cpu"), at=1):
        pool.empty((1024, 1024), np.dtype("float32"))
