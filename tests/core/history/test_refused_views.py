"""Recorded writes to views that refuse them: errors say how the view was made. Views of tensors of inference mode."""

import re

import pytest
from against_torch import both, leaf

import autograd_gpu as ag


def function(m, *results):
    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            actual = [x.view(2, 1), x * 2][: len(results)] if results[0] == "view" else [x, x * 2][: len(results)]
            return actual[0] if len(actual) == 1 else tuple(actual)

        @staticmethod
        def backward(ctx, g, *more):
            return g.reshape(2)

    return F.apply


def first(value):
    return value[0] if isinstance(value, tuple) else value


def made_in_a_mode(m, base, mode):
    with getattr(m, mode)():
        return base[:1]


VIEWS = {
    "of a Function": lambda m, base: function(m, "view")(base),
    "of a Function beside another": lambda m, base: first(function(m, "view", "more")(base)),
    "an input": lambda m, base: function(m, "input")(base),
    "an input beside another": lambda m, base: first(function(m, "input", "more")(base)),
    "of several": lambda m, base: base.unbind()[0], "part": lambda m, base: base.split(1)[0],
    "no_grad": lambda m, base: made_in_a_mode(m, base, "no_grad"),
    "inference_mode": lambda m, base: made_in_a_mode(m, base, "inference_mode"),
}  # fmt: skip


def text(error):
    """Without the names of nodes, which differ, and advice."""
    return re.sub(r"Output (\d) of \w+ is", r"Output \1 is", str(error))


@pytest.mark.parametrize("kind", VIEWS)
@pytest.mark.parametrize("constant", [True, False])
def test_texts(kind, constant):
    def program(m):
        base = m.ones(2) if constant else leaf(m) * 1
        view, factor = VIEWS[kind](m, base), m.tensor(2.0, requires_grad=True)
        with pytest.raises(RuntimeError) as error:
            view.mul_(factor)
        base.mul_(factor)
        with pytest.raises(RuntimeError) as stale:
            _ = view.grad_fn
        return text(error.value), text(stale.value), view._is_view()

    both(program)


@pytest.mark.parametrize("kind", ["no_grad", "inference_mode"])
def test_a_view_of_such_a_view(kind, device):
    base = ag.ones(2, device=device, requires_grad=True) * 1
    view = VIEWS[kind](ag, base)[:]
    with pytest.raises(RuntimeError, match=rf"is a view of a view which was created in {kind.removesuffix('_mode')}"):
        view.mul_(2)
    constant = VIEWS[kind](ag, ag.ones(2, device=device))[:]
    with pytest.raises(RuntimeError, match=rf"^A view was created in {kind.removesuffix('_mode')} mode and is being"):
        constant.mul_(ag.tensor(2.0, device=device, requires_grad=True))


SHOWN = {
    "slice": lambda c: c[:1], "view": lambda c: c.view(2, 1), "expand": lambda c: c.expand(3, 2), "t": lambda c: c.t(),
    "unbind": lambda c: c.unbind()[0], "split": lambda c: c.split(1)[1],
    "as_strided": lambda c: c.as_strided((1,), (1,)),
    "unfold": lambda c: c.unfold(0, 1, 1), "reshape": lambda c: c.reshape(2, 1), "of a view": lambda c: c[:1][:],
}  # fmt: skip


@pytest.mark.parametrize("kind", SHOWN)
def test_a_view_of_a_tensor_of_inference_mode(kind):
    def program(m):
        with m.inference_mode():
            c = m.ones(2, requires_grad=True)
        view = SHOWN[kind](c)
        return view.requires_grad, view.is_inference(), view._is_view(), view.grad_fn is None, (c + 1).requires_grad

    both(program)


def test_it_refuses_writes(device):
    with ag.inference_mode():
        c = ag.ones(2, device=device, requires_grad=True)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
        c[:1].mul_(2)


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
