"""Products that cuBLAS adds into an existing gradient: where that is done, and where it is not."""

import re

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu import backend, profiler
from autograd_gpu.backend.cuda import cublas

pytestmark = pytest.mark.cuda


@pytest.fixture
def xp():
    return backend.namespace_on(ag.device("cuda"))


def draw(xp, *shape, dtype="float64"):
    return xp.asarray(np.random.randn(*shape).astype(backend.arrays.dtypes.as_dtype(dtype)))


def close(actual, expected, tolerance):
    np.testing.assert_allclose(backend.to_numpy(actual).astype(np.float64), expected, rtol=tolerance, atol=tolerance)


def wide(x):
    return backend.to_numpy(x).astype(np.float64)


def linear_leaves():
    x = ag.tensor(np.random.randn(6, 4))
    weight = ag.tensor(np.random.randn(3, 4), requires_grad=True)
    return x, weight


@pytest.mark.parametrize("call", [
    lambda x, w: ag.linear(x, w), lambda x, w: ag.linear(x[None], w),
    lambda x, w: ag.mm(w, x.T), lambda x, w: ag.mm(x[:, :3], w), lambda x, w: x[:, :3] @ w,
    lambda x, w: x[None, :, :3] @ w,
], ids=["linear", "linear of a batch", "mm left", "mm right", "matmul", "matmul of a batch"])  # fmt: skip
def test_the_product_is_added_by_cublas(call):
    x, weight = linear_leaves()
    g = ag.ones_like(call(x, weight))
    first = call(x, weight)
    first.backward(g)
    once, memory, version = wide(weight.grad.array), weight.grad.array.data.ptr, weight.grad._version
    again = call(x, weight)
    kept = weight.grad
    with profiler.count() as counts:
        again.backward(g)
    assert sum(counts.matmuls.values()) == 1
    assert weight.grad is kept
    assert weight.grad.array.data.ptr == memory
    assert weight.grad._version == version + 1
    close(weight.grad.array, 2 * once, 1e-12)


class Recorded:
    """Counts how often the engine lets a rule add into a gradient."""

    def __init__(self, monkeypatch):
        self.into = []
        original = backend.add_matmul
        monkeypatch.setattr(backend, "add_matmul", lambda into, a, b: (self.into.append(into), original(into, a, b)))


def test_only_a_sole_contribution_without_hooks_is_added(monkeypatch):
    recorded = Recorded(monkeypatch)
    x, weight = linear_leaves()
    ag.linear(x, weight).sum().backward()
    assert not recorded.into, "the first gradient has nothing to be added to"
    ag.linear(x, weight).sum().backward()
    assert len(recorded.into) == 1
    (ag.linear(x, weight).sum() + ag.linear(x, weight).sum()).backward()
    assert len(recorded.into) == 1, "two contributions are summed first"
    ag.linear(x, weight).sum().backward(create_graph=True)
    assert len(recorded.into) == 1, "create_graph"
    weight.grad = weight.grad.detach()
    seen = []
    handle = weight.register_hook(seen.append)
    ag.linear(x, weight).sum().backward()
    assert len(seen) == len(recorded.into) == 1, "a hook sees what arrives"
    handle.remove()
    once = wide(ag.autograd.grad(ag.linear(x, weight).sum(), weight)[0].array)
    close(weight.grad.array, 6 * once, 1e-12)


def test_log_names_the_leaf_whose_gradient_is_added_to(caplog):
    x, weight = linear_leaves()
    lines = []
    for _ in range(2):
        caplog.clear()
        with caplog.at_level("DEBUG", "autograd_gpu.autograd.graph"):
            ag.linear(x, weight).sum().backward()
        lines.append([re.sub("0x[0-9a-f]+", "", message) for message in caplog.messages])
    assert len(lines[0]) == 3
    assert lines[0] == lines[1]


def test_a_failure_between_two_sums_shows_in_the_version(monkeypatch):
    left, right = (ag.tensor(np.random.randn(4, 4), requires_grad=True) for _ in range(2))
    ag.mm(left, right).sum().backward()
    out, version = ag.mm(left, right).sum(), left.grad._version
    gemm, outs = cublas.gemm, []

    def failing(a, b, out=None, *rest, **options):
        outs.append(out)
        if len(outs) == 2:
            raise MemoryError
        return gemm(a, b, out, *rest, **options)

    monkeypatch.setattr(cublas, "gemm", failing)
    with pytest.raises(MemoryError):
        out.backward()
    assert outs[0] is left.grad.array
    assert left.grad._version == version + 1


def test_an_operand_that_is_the_gradient_itself(xp):
    """The sum may not be read while it is written."""
    weight = ag.tensor(np.random.randn(4, 4), requires_grad=True)
    weight.grad = ag.tensor(np.random.randn(4, 4))
    before = wide(weight.grad.array)
    ag.mm(weight.grad, weight).backward(ag.tensor(np.eye(4)))
    close(weight.grad.array, before + before.T, 1e-12)


def test_the_gradient_that_is_given_is_the_weights_own():
    """Rules after the one that adds still read it."""
    left, right = (ag.tensor(np.random.randn(4, 4), requires_grad=True) for _ in range(2))
    left.grad, right.grad = ag.tensor(np.random.randn(4, 4)), ag.zeros(4, 4, dtype=ag.float64)
    g = wide(left.grad.array)
    ag.mm(left, right).backward(left.grad)
    close(left.grad.array, g + g @ wide(right.array).T, 1e-12)
    close(right.grad.array, wide(left.array).T @ g, 1e-12)


def test_operands_in_memory_of_another_owner(xp, monkeypatch):
    """Imported by DLPack, say: the owners differ, the addresses overlap."""
    into = draw(xp, 4, 4)
    owner = xp.cuda.UnownedMemory(into.data.ptr, into.nbytes, into)
    other = xp.ndarray((4, 4), into.dtype, xp.cuda.MemoryPointer(owner, 0))
    before, used = wide(into), []
    gemm = cublas.gemm
    monkeypatch.setattr(cublas, "gemm", lambda a, b, out=None, *rest: (used.append(out), gemm(a, b, out, *rest))[1])
    backend.add_matmul(into, other, other)
    assert used == [None], "the product has an array of its own"
    close(into, before + before @ before, 1e-12)
