"""What a node keeps of an output that was written into a view leads on to the view and to its base."""

import weakref

import pytest
from against_torch import both, hooks_of, leaf, same

import autograd_gpu as ag

WRITES = {name: lambda v, name=name: getattr(v, name)() for name in ("exp_", "sigmoid_", "tanh_", "sqrt_", "tan_")}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("asked", ["view", "base", "x"])
@pytest.mark.parametrize("hooked", [False, True])
def test_second_derivatives(write, asked, hooked):
    def program(m):
        x = leaf(m, 0.5, 0.25)
        base = x * 1
        view = base[:1]
        if hooked:
            with hooks_of(m)(same, same):
                WRITES[write](view)
        else:
            WRITES[write](view)
        (g,) = m.autograd.grad((base * base).sum(), x, create_graph=True)
        at = {"view": view, "base": base, "x": x}[asked]
        return g, m.autograd.grad(g.sum(), at, allow_unused=True)

    both(program)


def test_of_a_view_that_is_gone():
    def program(m):
        x = leaf(m, 0.5, 0.25)
        base = x * 1
        base[1:].exp_()
        (g,) = m.autograd.grad(base.sum(), x, create_graph=True)
        return m.autograd.grad(g.sum(), (base, x), allow_unused=True)

    both(program)


def test_written_to_again(device):
    base = ag.ones(2, device=device, requires_grad=True) * 1
    view = base[:1]
    view.exp_()
    y = base.sum()
    view.mul_(2)
    with pytest.raises(RuntimeError, match="output 0 of ExpBackward0, is at version 2; expected version 1"):
        y.backward()


def test_no_cycle(no_gc):
    x = ag.ones(2, requires_grad=True)
    view = (x * 1)[:1]
    view.exp_()
    node = weakref.ref(view.grad_fn)
    del view
    assert node() is None
