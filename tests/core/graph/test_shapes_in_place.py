"""A view may change its own shape where nothing is recorded; its node is made anew."""

import pytest
from against_torch import both, leaf

import autograd_gpu as ag

CHANGES = {
    "t_": lambda v: v.t_(), "transpose_": lambda v: v.transpose_(0, 1), "swapaxes_": lambda v: v.swapaxes_(0, 1),
    "unsqueeze_": lambda v: v.unsqueeze_(0), "squeeze_": lambda v: v.squeeze_(),
    "as_strided_": lambda v: v.as_strided_((2,), (1,)),
}  # fmt: skip


def of_a_leaf(m):
    x = leaf(m, 1, 2, 3)
    return x, x.view(3, 1)


def of_a_result(m):
    x = leaf(m, 1, 2, 3)
    return x, (x * 2).view(3, 1)


def of_a_view(m):
    x = leaf(m, 1, 2, 3)
    return x, (x * 2)[:].view(3, 1)


def of_a_base_that_was_written_to(m):
    x = leaf(m, 1, 2, 3)
    base = x * 2
    v = base.view(3, 1)
    base.mul_(3)
    return x, v


def of_a_constant(m):
    return leaf(m), m.ones(3).view(3, 1)


@pytest.mark.parametrize("mode", ["no_grad", "inference_mode"])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("made", [of_a_leaf, of_a_result, of_a_view, of_a_base_that_was_written_to, of_a_constant],
                         ids=lambda f: f.__name__)  # fmt: skip
def test_a_view_without_recording(made, change, mode):
    def program(m):
        x, v = made(m)
        with getattr(m, mode)():
            assert CHANGES[change](v) is v
        known = [tuple(v.shape), v._is_view(), v._version, v.requires_grad, v.grad_fn and v.grad_fn.name()]
        return [*known, v, m.autograd.grad((v * v).sum(), x, allow_unused=True) if v.requires_grad else None]

    both(program)


def test_it_is_written_to_afterwards():
    def program(m):
        x, v = of_a_result(m)
        v.retain_grad()
        with m.no_grad():
            v.t_()
        v.mul_(3)
        v.sum().backward()
        return v, v._base, v._base.grad_fn.name()[-10:], x.grad, v.grad

    both(program)


def test_one_of_several_is_refused_when_its_node_is_read():
    def program(m):
        a, _ = (leaf(m, 1, 2) * 1).unbind()
        with m.no_grad():
            a.unsqueeze_(0)
        return a.grad_fn

    both(program)


def test_a_result_that_is_no_view_is_refused(device):
    """PyTorch goes on, and gradients have the wrong shape."""
    y = ag.ones(3, device=device, requires_grad=True) * 2
    with ag.no_grad(), pytest.raises(RuntimeError, match="cannot go from shape"):
        y.unsqueeze_(0)
    assert y.shape == (3,)
