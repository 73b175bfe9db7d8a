"""`x.data = t`: x gets the memory of t, of any shape and dtype, and keeps its history and the count of its version."""

import pytest
from against_torch import both, leaf

import autograd_gpu as ag


def converted(m):
    net = m.nn.Linear(2, 1)
    for p in net.parameters():
        p.data = m.full_like(p.data, 0.5).double()
    net(m.ones(3, 2, dtype=m.float64)).sum().backward()
    m.optim.Adam(net.parameters(), lr=0.1).step()
    return [str(p.dtype)[-7:] for p in net.parameters()], [p.grad.tolist() for p in net.parameters()], net.weight


def converted_after_a_step(m):
    p = leaf(m)
    optimizer = m.optim.SGD([p], lr=0.1)
    (p * p).sum().backward()
    optimizer.step()
    p.data = p.data.double()
    p.grad = None
    (p * p).sum().backward()
    optimizer.step()
    return p, p.grad, str(p.grad.dtype)[-7:]


def version_with_views(m):
    p = leaf(m) * 1
    view = p[:]
    p.add_(1)
    t = m.ones(2)
    t.add_(1).add_(1)
    p.data = t
    counts = [(p._version, view._version, t._version)]
    p.add_(1)
    counts.append((p._version, view._version, t._version))
    view.detach().add_(1)
    return [*counts, (p._version, view._version, t._version), p, view, t]


def saved_and_written_to(m):
    x, p = leaf(m), m.ones(2)
    y = (x * p).sum()
    p.data = m.zeros(2)
    p.add_(1)
    y.backward()


def integers(m):
    x = m.ones(2)
    x.data = m.ones(3, dtype=m.int64)
    return str(x.dtype)[-5:], x


def integers_for_a_leaf(m):
    leaf(m).data = m.ones(2, dtype=m.int64)


def a_number(m):
    leaf(m).data = 3.0


def deleted(m):
    del leaf(m).data


def of_a_result(m):
    x = leaf(m)
    y = x * 2
    y.data = y.data.double()
    y.sum().backward()
    return str(y.dtype)[-7:], x.grad, str(x.grad.dtype)[-7:]


@pytest.mark.parametrize("program", [
    converted, converted_after_a_step, version_with_views, saved_and_written_to, integers, integers_for_a_leaf,
    a_number, deleted, of_a_result,
], ids=lambda program: program.__name__)  # fmt: skip
def test_as_in_pytorch(program):
    both(program)


def test_a_view_of_what_was_there_is_written_to(device):
    x = ag.ones(2, device=device, requires_grad=True)
    p = x * 1
    view = p[:]
    p.data = p.data.double()
    view.mul_(3)
    assert view.tolist() == [3, 3]
    assert p.tolist() == [1, 1]


def test_memory_hooks_pack_the_new_memory(device):
    """It may lie where the old lay, which was packed at the same version."""
    x, t = ag.ones(4096, device=device, requires_grad=True), ag.full((4096,), 2.0, device=device)
    p = ag.zeros(4096, device=device)
    assert p[:1]._version == 0
    with ag.hooks.quantize(ag.float8_e4m3fn, skip_leaves=False):
        p.data = t
        first = x * p
        t.fill_(5)
        p.data = t
        second = x * p
    assert ag.autograd.grad(first.sum(), x)[0].tolist() == [2.0] * 4096
    assert ag.autograd.grad(second.sum(), x)[0].tolist() == [5.0] * 4096


def test_float8_stays_float8(device):
    codes = ag.ones(2, device=device).to(ag.float8_e5m2)
    codes.data = ag.zeros(2, device=device).to(ag.float8_e5m2)
    assert codes.float().tolist() == [0, 0]
    for x, value in ((codes, ag.ones(2)), (ag.ones(2), codes)):
        with pytest.raises(TypeError, match="float8 tensor is an object of another class"):
            x.data = value


def a_view_that_was_stale(m):
    x = leaf(m, 1, 2, 3)
    base = x * 1
    view = base[:2]
    base.mul_(3)
    base.data = m.zeros(3)
    view.sum().backward()
    return view, x.grad


def one_of_several_that_was_stale(m):
    base = leaf(m, 1, 2) * 1
    view, _ = base.unbind()
    base.mul_(3)
    base.data = m.zeros(2)
    return view.grad_fn


@pytest.mark.cpu
@pytest.mark.parametrize("program", [a_view_that_was_stale, one_of_several_that_was_stale])
def test_views_of_what_it_was(program):
    both(program)


def test_views_know_in_which_memory_they_were_made(device):
    """PyTorch's share the version of the other memory, and what is written to that is in their gradients."""
    x = ag.tensor([1.0, 2.0], device=device, requires_grad=True)
    base = x * 1
    first = base[:1]
    base.data = ag.ones(2, device=device)
    second = base[:1]
    base.mul_(5)
    base.data = ag.ones(2, device=device)
    base.mul_(7)
    for view, slope in ((first, 1), (second, 5), (base[:1], 35)):
        assert ag.autograd.grad(view.sum(), x, retain_graph=True)[0].tolist() == [slope, 0]
