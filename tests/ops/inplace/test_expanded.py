"""Writes to expanded tensors: an element or a row, what indices or a mask name, and what is refused."""

import warnings

import numpy as np
import pytest
from against_torch import both, leaf

import autograd_gpu as ag
from autograd_gpu.backend.cuda import runtime


def expanded(m, *sizes):
    return m.tensor([1.0, 2.0]).expand(*sizes or (3, 2))


def element(m):
    t = m.tensor(1.0).expand(3)
    t[0] = 5.0
    first = t.tolist()
    t[m.tensor(1, device="cpu")] = 6
    t[0:0] = 7.0
    return first, t


def row(m):
    t = expanded(m)
    t[0] = m.tensor([5.0, 6.0])
    first = t.tolist()
    t[1:2] = 7.0
    second = t.tolist()
    t[2, m.tensor([1])] = 8.0
    return first, second, t, t._version


def constants(m):
    t = m.ones(1, 1).expand(3, 3)
    return t.fill_diagonal_(3.0).tolist(), t.zero_().tolist(), t.fill_(2.0)


def row_in_the_graph(m):
    x = leaf(m)
    base = x * 1
    t = base.expand(3, 2)
    t[1] = 5.0
    t[0, 1] = x[0] * 3
    return t, m.autograd.grad(t.sum(), x)


@pytest.mark.parametrize("program", [element, row, constants, row_in_the_graph], ids=lambda f: f.__name__)
def test_what_lies_apart_is_written(program):
    both(program)


def by_indices(m, t):
    t[m.tensor([1])] = 5.0


def by_indices_in_a_slice(m, t):
    t[:2][m.tensor([1])] = m.tensor([5.0, 6.0])


def by_a_mask(m, t):
    t[t > 0] = m.tensor([5.0] * 6)


def index_put_(m, t):
    t.index_put_((m.tensor([1]),), m.tensor([5.0, 6.0]))


def index_put_adding(m, t):
    t.index_put_((m.tensor([1]), m.tensor([0])), m.tensor([5.0]), accumulate=True)


def index_fill_(m, t):
    t.index_fill_(0, m.tensor([1]), 5.0)


def index_fill_of_columns(m, t):
    t.index_fill_(-1, m.tensor([1]), m.tensor(5.0))


def masked_fill_(m, t):
    t.masked_fill_(m.tensor([[True], [False], [False]]), 5.0)


def masked_fill_by_a_tensor(m, t):
    t.masked_fill_(t > 1, m.tensor(5.0))


WITH_A_WARNING = [
    by_indices, by_indices_in_a_slice, by_a_mask, index_put_, index_put_adding, index_fill_, index_fill_of_columns,
    masked_fill_, masked_fill_by_a_tensor,
]  # fmt: skip


@pytest.mark.parametrize("write", WITH_A_WARNING, ids=lambda f: f.__name__)
def test_indices_and_masks_write_with_a_warning(write):
    def program(m):
        t = expanded(m)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            write(m, t)
        assert {str(w.category) for w in caught} == {str(UserWarning)}
        if m is ag:
            assert {w.filename for w in caught} == {__file__}
        return sorted({str(w.message).split(" (Triggered")[0] for w in caught}), t, t._version

    both(program)


def rows(m, t):
    t[1:3] = 5.0


def column(m, t):
    t[:, 0] = 5.0


def everything(m, t):
    t[...] = 5.0


def by_values(m, t):
    t.copy_(m.ones(3, 2))


def computed(m, t):
    t.exp_()


def masked_scatter_(m, t):
    t.masked_scatter_(t > 0, m.ones(6))


def index_copy_(m, t):
    t.index_copy_(0, m.tensor([1]), m.ones(1, 2))


def index_add_(m, t):
    t.index_add_(0, m.tensor([1]), m.ones(1, 2))


def scatter_(m, t):
    t.scatter_(0, m.tensor([[1, 1]]), m.ones(1, 2))


def put_(m, t):
    t.put_(m.tensor([1]), m.ones(1))


@pytest.mark.parametrize("write", [
    rows, column, everything, by_values, computed, masked_scatter_, index_copy_, index_add_, scatter_, put_,
], ids=lambda f: f.__name__)  # fmt: skip
def test_what_overlaps_is_refused(write):
    def program(m):
        t = expanded(m)
        with pytest.raises(RuntimeError) as error:
            write(m, t)
        return str(error.value).split(": ")[-1], t

    both(program)


@pytest.mark.parametrize("write", WITH_A_WARNING, ids=lambda f: f.__name__)
def test_recorded_they_are_refused_at_once(write, device):
    """PyTorch refuses in backward."""
    t = (ag.tensor([1.0, 2.0], device=device, requires_grad=True) * 1).expand(3, 2)
    with pytest.raises(RuntimeError, match="refers to a single memory location"):
        write(ag, t)
    assert t.tolist() == [[1, 2]] * 3


@pytest.mark.parametrize("wrap", [False, True])
@pytest.mark.parametrize("shape", [(3, 3), (2, 5), (7, 2), (6, 2), (9, 1), (3, 3, 3), (0, 2), (2, 0), (1, 1)], ids=str)
def test_fill_diagonal_as_numpy(shape, wrap, device):
    values = np.arange(2.0 * np.prod(shape)).reshape(*shape[:-1], 2 * shape[-1])
    for view in (lambda a: a[..., ::2], lambda a: a[..., ::2].T, lambda a: a[..., : shape[-1]]):
        x = ag.tensor(values, device=device)
        view(x).fill_diagonal_(0.5, wrap)
        expected = values.copy()
        np.fill_diagonal(view(expected), 0.5, wrap) if view(expected).size else None
        np.testing.assert_array_equal(x.numpy(force=True), expected)


@pytest.mark.cuda
def test_fill_diagonal_keeps_the_sign_of_zero(monkeypatch):
    def refuse(*args): raise AssertionError("CuPy's iterator makes a 0-d array of the value, and +0.0 of -0.0")
    monkeypatch.setattr(runtime.cupy(), "fill_diagonal", refuse, raising=False)
    x = ag.ones(2, 2).fill_diagonal_(-0.0)
    assert np.signbit(x.numpy(force=True)).tolist() == [[True, False], [False, True]]
    expanded = ag.ones(1, 2).expand(2, 2)
    assert expanded.fill_diagonal_(-0.0).tolist() == [[0.0, 0.0], [0.0, 0.0]]
