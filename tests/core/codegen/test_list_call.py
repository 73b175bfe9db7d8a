"""Tensors joined from many pieces and taken apart into many: work that grows with their number, and no faster."""

from __future__ import annotations

import gc
import time
import timeit

import numpy as np
import pytest
from op_db import values

import autograd_gpu as ag
from autograd_gpu.core.declare.op import RAW
from autograd_gpu.core.graph.bitmask import bits_of, mask_of


def leaves(n, *shape):
    return [ag.ones(*shape).requires_grad_() for _ in range(n)]


def row(n):
    return [ag.ones(n).requires_grad_()]


class Join(ag.autograd.Function):
    @staticmethod
    def forward(ctx, *pieces):
        return ag.cat(pieces)

    @staticmethod
    def backward(ctx, g):
        return ag.split(g, 1)


class Part(ag.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return tuple(part.clone() for part in x.unbind())

    @staticmethod
    def backward(ctx, *gs):
        return ag.stack(gs)


# name -> (n -> the leaves, what is made of them)
CALLS = {
    "cat": (lambda n: leaves(n, 1), ag.cat),
    "cat of constants, too": (lambda n: [*leaves(n // 2, 1), *([ag.ones(1)] * (n // 2))], ag.cat),
    "cat along 1": (lambda n: leaves(n, 2, 1), lambda x: ag.cat(x, 1)),
    "stack": (lambda n: leaves(n, 1), ag.stack),
    "stack along 1": (lambda n: leaves(n, 1), lambda x: ag.stack(x, 1)),
    "hstack": (lambda n: leaves(n, 1), ag.hstack),
    "vstack": (lambda n: leaves(n, 1), ag.vstack),
    "dstack": (lambda n: leaves(n, 1), ag.dstack),
    "column_stack": (lambda n: leaves(n, 1), ag.column_stack),
    "parameters_to_vector": (lambda n: leaves(n, 2), ag.nn.utils.parameters_to_vector),
    "broadcast_tensors": (lambda n: leaves(n, 1), lambda x: ag.cat(ag.broadcast_tensors(*x))),
    "atleast_2d": (lambda n: leaves(n, 1), lambda x: ag.cat(ag.atleast_2d(*x))),
    "split": (row, lambda x: ag.cat([part * 2 for part in ag.split(x[0], 1)])),
    "every second of split": (row, lambda x: ag.cat([part * 2 for part in ag.split(x[0], 1)[::2]])),
    "one of split": (row, lambda x: ag.split(x[0], 1)[5]),
    "chunk": (row, lambda x: ag.cat([part * 2 for part in ag.chunk(x[0], len(x[0]))])),
    "tensor_split": (row, lambda x: ag.cat([part * 2 for part in ag.tensor_split(x[0], len(x[0]))])),
    "unbind": (row, lambda x: ag.stack([part * 2 for part in ag.unbind(x[0])])),
    "unbind and stack": (row, lambda x: ag.stack(ag.unbind(ag.stack(ag.unbind(x[0]))))),
    "iteration": (row, lambda x: ag.stack([part * 2 for part in x[0]])),
    "meshgrid": (lambda n: [ag.ones(n // 2).requires_grad_(), ag.ones(2).requires_grad_()],
                 lambda x: sum(ag.meshgrid(*x, indexing="ij"))),
    "cartesian_prod": (lambda n: [ag.ones(n // 2).requires_grad_(), ag.ones(2).requires_grad_()],
                       lambda x: ag.cartesian_prod(*x)),
    "pad": (row, lambda x: ag.nn.functional.pad(x[0], (1, 1))),
    "sum": (lambda n: leaves(n, 1), sum),
    "a Function of many": (lambda n: leaves(n, 1), lambda x: Join.apply(*x)),
    "a Function with many results": (row, lambda x: ag.stack(Part.apply(x[0]))),
    "gradients of many by many": (
        lambda n: leaves(n, 1),
        lambda x: ag.autograd.grad([t * 2 for t in x], x, x)[0].requires_grad_(),
    ),
    "gradients of many by some": (
        lambda n: leaves(n, 1), lambda x: ag.autograd.grad(ag.cat(x).sum(), x[:9])[0].requires_grad_(),
    ),
}  # fmt: skip


def seconds(call, n):
    """The processor's time for a forward and backward of n pieces: that of other processes does not count."""
    make, function = call

    def once():
        inputs = make(n)
        function(inputs).sum().backward()

    gc.collect()
    gc.disable()
    try:
        return timeit.timeit(once, timer=time.process_time, number=1)
    finally:
        gc.enable()


def grows_at_most(call, few, many, factor, slack=0.0, tries=4):
    """Whether `many` pieces take less than `factor` times as long as `few`, in one of several tries.

    The least time of few pieces counts; at first there are two, since the first call of all does more.
    """
    least = seconds(call, few)
    for _ in range(tries):
        least = min(least, seconds(call, few))
        if seconds(call, many) < factor * least + slack:
            return True
    return False


@pytest.mark.more
@pytest.mark.cpu
@pytest.mark.parametrize("name", CALLS)
def test_time_is_linear_in_the_number_of_pieces(name):
    """Four times as many pieces take four times as long, if work is quadratic sixteen times."""
    assert grows_at_most(CALLS[name], 2000, 8000, 9, 2e-3)


@pytest.mark.more
@pytest.mark.cpu
def test_time_of_block_diag_follows_the_size_of_its_result():
    call = (lambda n: leaves(n, 1, 1), lambda x: ag.block_diag(*x))
    assert grows_at_most(call, 400, 1600, 16 * 2)


class Counted:
    """How often an op's forward runs on arrays in backward passes, and how many elements it makes."""

    def __init__(self, monkeypatch, name):
        self.calls, self.elements = 0, 0
        run = getattr(RAW, name)

        def counted(*args, **kwargs):
            out = run(*args, **kwargs)
            self.calls, self.elements = self.calls + 1, self.elements + out.size
            return out

        monkeypatch.setattr(RAW, name, counted)


PIECES = {
    "rows": lambda y: [y[i] for i in range(len(y))],
    "slices": lambda y: [y[i : i + 1] for i in range(len(y))],
    "elements": lambda y: [y[i, 0] for i in range(len(y))],
    "narrow": lambda y: [y.narrow(0, i, 1) for i in range(len(y))],
    "overlapping": lambda y: [y[i : i + 3, ::2] for i in range(len(y) - 3)],
    "of pieces": lambda y: [y[1:][i] for i in range(len(y) - 1)],
}  # fmt: skip


@pytest.mark.parametrize("name", PIECES)
@pytest.mark.parametrize("leaf", [True, False])
def test_pieces_add_into_one_gradient(name, leaf, monkeypatch, device):
    """Two of them make zeros as large as the whole, the others add to their sum."""
    x = ag.tensor(np.random.default_rng(0).normal(size=(40, 3)), device=device, requires_grad=True)
    whole = x if leaf else x * 3
    pieces = PIECES[name](whole)
    weights = [ag.full_like(piece, i + 1.0) for i, piece in enumerate(pieces)]
    expected = np.zeros(x.shape)
    for weight, place in zip(weights, PIECES[name](ag.tensor(np.arange(120).reshape(40, 3))), strict=True):
        np.add.at(expected.reshape(-1), values(place), values(weight))
    counted = Counted(monkeypatch, "basic_index_backward")
    for again in (1, 2):
        ag.autograd.backward(pieces, weights, retain_graph=True)
        np.testing.assert_allclose(values(x.grad), expected * again * (1 if leaf else 3))
    most = 2 * (2 + (len(pieces) if name == "of pieces" else 0))  # each y[1:] is a tensor of its own
    assert counted.calls <= most


def test_a_piece_of_a_sum_that_hooks_see(device):
    """Hooks of the whole get the complete sum, once, and captured gradients are those of this call."""
    x = ag.ones(4, device=device, requires_grad=True)
    y, seen = x * 1, []
    y.register_hook(lambda g: seen.append(g.tolist()))
    out = sum(y[i] * (i + 1) for i in range(4)) + (y * 10).sum() + y[1:3].sum()
    (g,) = ag.autograd.grad(out, y, retain_graph=True)
    (h,) = ag.autograd.grad(out, x)
    assert seen == [[11.0, 13.0, 14.0, 14.0]] * 2
    assert g.tolist() == h.tolist() == seen[0]


def test_second_derivative_of_a_join(monkeypatch, device):
    """The parts of its gradient are pieces, too."""
    pieces = [ag.ones(1, device=device, requires_grad=True) for _ in range(30)]
    for join in (ag.cat, ag.stack, lambda x: ag.block_diag(*x)):
        y = join(pieces)
        v = ag.ones_like(y).requires_grad_()
        first = ag.autograd.grad(y, pieces, v, create_graph=True)
        counted = Counted(monkeypatch, "basic_index_backward")
        (second,) = ag.autograd.grad(first, v, [ag.full_like(g, i + 1.0) for i, g in enumerate(first)])
        result = values(second)
        assert (result.diagonal() if result.shape == (30, 30) else result.reshape(-1)).tolist() == list(range(1, 31))
        assert counted.calls <= 2


def test_only_some_of_many_pieces(device):
    """Of a joint rule for a list the gradients that a call wants, and None."""
    pieces = [ag.full((2,), float(i), device=device).requires_grad_(i % 3 == 0) for i in range(100)]
    for join in (ag.cat, ag.stack):
        y = join(pieces)
        some = [pieces[3], pieces[99], pieces[66]]
        grads = ag.autograd.grad((y * y).sum(), some)
        assert [g.tolist() for g in grads] == [[6.0, 6.0], [198.0, 198.0], [132.0, 132.0]]


@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 200])
def test_masks(n):
    rng = np.random.default_rng(n)
    for flags in ([True] * n, [False] * n, list(map(bool, rng.integers(0, 2, n)))):
        mask = mask_of(flags)
        assert mask == sum(1 << i for i, needed in enumerate(flags) if needed)
        assert bits_of(mask, n) == flags
