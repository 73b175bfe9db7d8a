"""In-place forms of list ops: versions, histories, views, tensors that stand twice, transforms."""

import pytest

import autograd_gpu as ag


def leaves(device, *shapes):
    return [ag.ones(*shape, device=device, requires_grad=True) for shape in shapes]


def test_each_tensor_becomes_an_output_of_one_node(device):
    xs = leaves(device, (2,), (3,))
    hs = ag.foreach.mul(xs, 2.0)
    ag.foreach.mul_(hs, hs)
    assert hs[0].grad_fn is hs[1].grad_fn
    assert [h.output_nr for h in hs] == [0, 1]
    (hs[0].sum() + hs[1].sum()).backward()
    assert [x.grad.tolist() for x in xs] == [[8.0] * 2, [8.0] * 3]


def test_saved_outputs_are_those_written(device):
    xs = leaves(device, (2,), (3,))
    hs = [x * 1 for x in xs]
    ag.foreach.exp_(hs)
    grads = ag.autograd.grad(hs[0].sum() + hs[1].sum(), xs, create_graph=True)
    assert bool(ag.allclose(grads[0], hs[0]))
    more = ag.autograd.grad(grads[0].sum() + grads[1].sum(), xs)
    assert bool(ag.allclose(more[1], hs[1]))
    ag.foreach.sqrt_(hs)
    hs[0].add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        hs[0].sum().backward()


@pytest.mark.parametrize("name", ["exp", "neg", "sigmoid"])
def test_views_write_into_their_base(name, device):
    x = ag.arange(6.0, device=device).reshape(2, 3).requires_grad_()
    base = x * 0.1
    rows = [base[0], base[1, 1:]]
    getattr(ag.foreach, f"{name}_")(rows)
    y = base * rows[0]
    scaled, function = x * 0.1, getattr(ag, name)
    first = function(scaled[0])
    expected = ag.stack([first, ag.cat([scaled[1, :1], function(scaled[1, 1:])])]) * first
    assert bool(ag.allclose(y, expected))
    for create_graph in (True, False):
        results, reference = (ag.autograd.grad((z * z).sum(), x, create_graph=create_graph)[0] for z in (y, expected))
        assert bool(ag.allclose(results, reference))


def test_a_tensor_that_stands_twice_is_written_in_order(device):
    for recorded in (False, True):
        x = ag.tensor([1.0], device=device, requires_grad=recorded)
        h = x * 1
        ag.foreach.mul_([h, h], [2.0, 3.0])
        ag.foreach.add_([h, h], [h.clone(), h])
        assert h.item() == 24.0
        if recorded:
            h.backward()
            assert x.grad.item() == 24.0


def test_memory_of_another_element_is_read_in_order(device):
    for recorded in (False, True):
        x = ag.tensor([1.0, 2.0], device=device, requires_grad=recorded) * 1
        a, b = x[:1], x[1:]
        ag.foreach.add_([a, b], [b, a])
        assert x.tolist() == [3.0, 5.0]


def test_leaves_are_refused_before_anything_is_written(device):
    h = ag.ones(2, device=device)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        ag.foreach.add_([h, *leaves(device, (2,))], 1.0)
    assert (h.tolist(), h._version) == ([1.0, 1.0], 0)
    xs = leaves(device, (2,))
    with ag.no_grad():
        ag.foreach.add_(xs, 1.0)
        ag.foreach.copy_(xs, [ag.zeros(2, device=device)])
        ag.foreach.zero_(xs)
    assert (xs[0].is_leaf, xs[0]._version) == (True, 3)


def test_results_must_fit(device):
    h = ag.ones(2, device=device)
    for x in (h, h * leaves(device, (2,))[0]):
        with pytest.raises(RuntimeError):
            ag.foreach.add_([x], [ag.ones(3, 2, device=device)])
        with pytest.raises(RuntimeError, match="can't be cast"):
            ag.foreach.add_([x, ag.ones(2, dtype=ag.int64, device=device)], 0.5)


def test_other_dtypes_are_converted(device):
    x = ag.ones(2, device=device)
    ag.foreach.add_([x], [ag.tensor([1.0, 2.0], dtype=ag.float64, device=device)])
    assert (x.dtype, x.tolist()) == (ag.float32, [2.0, 3.0])


def test_inference_tensors_are_refused(device):
    with ag.inference_mode():
        x = ag.ones(2, device=device)
    with pytest.raises(RuntimeError, match="nference"):
        ag.foreach.add_([x], 1.0)


def test_copies_and_zeros_in_a_graph(device):
    x, y = leaves(device, (2,), (2,))
    hs = [x * 1, x * 1]
    ag.foreach.copy_(hs, [y, ag.ones(2, device=device)])
    assert (hs[0] + hs[1]).tolist() == [2.0, 2.0]
    assert [g.tolist() for g in ag.autograd.grad((hs[0] * 3).sum(), [y])] == [[3.0, 3.0]]
    ag.foreach.zero_(hs)
    assert hs[0].tolist() == [0.0, 0.0]


def test_under_transforms(device):
    def written(x):
        h = x * 1
        ag.foreach.mul_([h], [x])
        return h

    x = ag.tensor([[1.0, 2.0], [3.0, 4.0]], device=device)
    assert ag.func.vmap(written)(x).tolist() == (x * x).tolist()
    assert ag.func.grad(lambda a: written(a).sum())(x).tolist() == (2 * x).tolist()
    assert ag.func.jvp(written, (x,), (x,))[1].tolist() == (2 * x * x).tolist()


def test_behind_saved_tensor_hooks(device):
    x = leaves(device, (2,))[0]
    with ag.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        h = x * 1
        ag.foreach.exp_([h])
    h.sum().backward()
    assert bool(ag.allclose(x.grad, h))


def test_interleaved_views_are_written_in_order(device):
    x = ag.ones(6, device=device, requires_grad=True)
    h = x * 1
    ag.foreach.mul_([h[::2], h[1::2]], [h[1::2], h[::2]])
    ag.foreach.add_([h[::2], h[1::2]], 1.0)
    assert h.tolist() == [2.0] * 6
