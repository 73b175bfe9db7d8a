"""How a leaf's `.grad` lies in memory: as the leaf, if that is dense, else row-major. As with PyTorch."""

from __future__ import annotations

import pytest
from against_torch import both

import autograd_gpu as ag
from autograd_gpu import optim

LEAVES = {
    "row-major": lambda m: m.ones(2, 3),
    "transposed": lambda m: m.ones(2, 3).t(),
    "transposed half": lambda m: m.ones(2, 3).half().t(),
    "permuted": lambda m: m.ones(2, 3, 4).permute(2, 0, 1),
    "permuted, a dimension of 1": lambda m: m.ones(2, 1, 4).permute(2, 1, 0),
    "four dimensions": lambda m: m.ones(2, 3, 4, 5).permute(0, 3, 1, 2),
    "expanded": lambda m: m.ones(3, 1).expand(3, 2),
    "with gaps": lambda m: m.ones(4, 6)[::2, ::2],
    "rows": lambda m: m.ones(4, 6)[1:3],
    "transposed with gaps": lambda m: m.ones(4, 6)[:, 1:3].t(),
}
USES = {
    "product": lambda w: w * 2,
    "itself": lambda w: w,
    "sum of three": lambda w: w * 2 + w * 3 + w * 4,
    "transposed": lambda w: w.transpose(0, 1) * 2,
    "own result": lambda w: w.exp(),
    "part": lambda w: w[0:1],
    "declared zero": lambda w: w.sign(),
}


def strides(t):
    """Of the dimensions where they mean something."""
    return [stride for stride, size in zip(t.stride(), t.shape, strict=True) if size != 1]


@pytest.mark.filterwarnings("ignore:Using backward:UserWarning")
@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", LEAVES)
def test_strides(name, use, create_graph):
    def program(m):
        w = LEAVES[name](m).requires_grad_()
        (USES[use](w) + 0).sum().backward(create_graph=create_graph)
        first = strides(w.grad), w.grad.tolist()
        (USES[use](w) + 0).sum().backward(create_graph=create_graph)
        return first, w.grad.tolist()

    both(program)


@pytest.mark.parametrize("name", LEAVES)
def test_of_a_gradient_that_the_user_gives(name):
    def program(m):
        w = LEAVES[name](m).requires_grad_()
        g = m.ones(*w.shape, dtype=w.dtype)
        w.backward(g)
        w.grad.mul_(2)
        return strides(w.grad), w.grad.tolist(), g.tolist()

    both(program)


def test_behind_hooks():
    def program(m):
        w, seen = m.ones(2, 3).t().requires_grad_(), []
        w.register_hook(lambda g: (g * 3).contiguous())
        w.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.stride()))
        (w * 2).sum().backward(inputs=[w])
        return seen, w.grad

    assert both(program)[0] == [[1, 3]]


def test_a_recorded_gradient_is_no_view_and_can_be_differentiated():
    w = ag.ones(2, 3).t().requires_grad_()
    (w**3).sum().backward(create_graph=True)
    g = w.grad
    assert (g.stride(), g._base, g._is_view()) == ((1, 3), None, False)
    assert ag.autograd.grad(g.sum(), w)[0].tolist() == [[6.0] * 2] * 3


@pytest.mark.parametrize("make", [optim.SGD, optim.Adam, optim.AdamW])
def test_optimizers_step_on_it(make):
    plain, turned = ag.ones(3, 2).requires_grad_(), ag.ones(2, 3).t().requires_grad_()
    for w in (plain, turned):
        step = make([w], lr=0.1)
        for _ in range(3):
            step.zero_grad()
            (w**2 * ag.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])).sum().backward()
            step.step()
    assert turned.grad.stride() == (1, 3)
    for a, b in zip(turned.tolist(), plain.tolist(), strict=True):
        assert a == pytest.approx(b)
