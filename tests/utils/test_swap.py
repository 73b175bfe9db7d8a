"""swap_tensors: everything but the identity changes places."""

import weakref

import pytest

import autograd_gpu as ag


def both():
    return pytest.importorskip("torch"), ag


@pytest.mark.cpu
def test_like_pytorch():
    results = []
    for m in both():
        net = m.nn.Linear(2, 1, bias=False)
        optimizer = m.optim.SGD(net.parameters(), lr=1.0)
        weight, other = net.weight, m.nn.Parameter(m.tensor([[1.0, 2.0, 3.0]], dtype=m.float64))
        weight.label, seen = "old", []
        other.grad = m.ones_like(other)
        other.register_hook(lambda g, seen=seen: seen.append(g.tolist()))
        m.utils.swap_tensors(weight, other)
        (net.weight * 2).sum().backward()
        optimizer.step()
        results.append((net.weight is weight, weight.tolist(), weight.grad.tolist(), hasattr(weight, "label"),
                        other.label, tuple(other.shape), other.grad, seen))  # fmt: skip
    assert results[0] == results[1]


def test_histories(device):
    x, weight = ag.ones(2, device=device, requires_grad=True), ag.zeros(3, device=device)
    y = x * 3
    ag.utils.swap_tensors(y, weight)
    weight.sum().backward()
    assert (x.grad.tolist(), y.tolist(), y.requires_grad) == ([3, 3], [0, 0, 0], False)


@pytest.mark.cpu
def test_refused():
    for m in both():
        x = m.ones(2)
        ref = weakref.ref(x)
        with pytest.raises(RuntimeError, match="Cannot swap t2 because it has weakref associated with it"):
            m.utils.swap_tensors(m.ones(2), x)
        assert ref() is x
    base = ag.ones(2)
    view = base[:1]
    for tensor in (base, view):
        with pytest.raises(RuntimeError, match="Cannot swap t1 because it is a view or has views"):
            ag.utils.swap_tensors(tensor, ag.ones(1))
    assert base.tolist() == [1, 1]
    code = ag.ones(1).to(ag.float8_e5m2)
    with pytest.raises(TypeError, match="layout differs"):
        ag.utils.swap_tensors(ag.ones(2), code)
    assert code.dtype == ag.float8_e5m2


@pytest.mark.cpu
def test_a_tensor_for_a_parameter():
    for m in both():
        weight, plain = m.nn.Parameter(m.ones(1)), m.zeros(2)
        plain.note = "mine"
        m.utils.swap_tensors(weight, plain)
        assert (type(weight), type(plain), weight.note) == (m.Tensor, m.nn.Parameter, "mine")
    a, b = ag.ones(1).to(ag.float8_e5m2), ag.ones(2).to(ag.float8_e4m3fn)
    ag.utils.swap_tensors(a, b)
    assert (a.dtype, a.float().tolist()) == (ag.float8_e4m3fn, [1, 1])
