"""In-place operations and views: what becomes of a tensor's history, and which writes are refused."""

from __future__ import annotations

import threading
import weakref

import numpy as np
import pytest
from custom_functions import Double

import autograd_gpu as ag
from autograd_gpu.autograd import Function, grad, graph
from autograd_gpu.autograd.graph import get_gradient_edge
from autograd_gpu.utils.checkpoint import checkpoint


@pytest.fixture
def x(device):
    return ag.ones(2, requires_grad=True, device=device)


W = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


@pytest.fixture
def leaf(device):
    return ag.tensor(np.arange(6.0).reshape(2, 3) / 6, device=device, requires_grad=True)


@pytest.fixture
def weight(device):
    return ag.tensor(W, device=device)


def values(x):
    return x.numpy(force=True)


def gradient(x, leaf, weight):
    """d(x * weight).sum() by leaf."""
    return values(grad((x * weight).sum(), leaf, retain_graph=True)[0])


class Add(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.mark_dirty(x)
        return x.add_(y)

    @staticmethod
    def backward(ctx, g):
        return g, g


# ---- histories -------------------------------------------------------------------------------------


def test_in_place_becomes_the_node(leaf, weight):
    x = leaf * 1
    before = x.grad_fn
    assert x.exp_() is x
    assert x.grad_fn.name() == "ExpBackward0"
    assert x.grad_fn.next_functions == ((before, 0),)
    assert x._version == 1
    np.testing.assert_allclose(gradient(x, leaf, weight), W * np.exp(values(leaf)))


def test_edge_taken_before_names_the_old_value(leaf, weight):
    x = leaf.sin()
    edge = get_gradient_edge(x)
    x.exp_()
    (g_x,) = grad((x * weight).sum(), edge, retain_graph=True)
    np.testing.assert_allclose(values(g_x), W * np.exp(np.sin(values(leaf))))
    np.testing.assert_allclose(gradient(x, leaf, weight), values(g_x) * np.cos(values(leaf)))


def test_write_to_a_view_rewrites_the_base(leaf, weight):
    x = leaf * 1
    row = x[0]
    row.mul_(2.0)
    assert x.grad_fn.name() == "CopySlices"
    assert row.grad_fn.name() == "AsStridedBackward0"
    assert row._base is x
    assert (x._version, row._version) == (1, 1)
    np.testing.assert_allclose(gradient(x, leaf, weight), W * [[2], [1]])


def test_view_of_a_view(leaf, weight):
    x = leaf * 1
    column = x.mT[1:][0]
    assert column._base is x
    column.copy_(column.detach() * 0 + leaf[:, 0] * 3)
    np.testing.assert_allclose(values(x)[:, 1], values(leaf)[:, 0] * 3)
    np.testing.assert_allclose(gradient(x, leaf, weight), [[1 + 3 * 2, 0, 3], [4 + 3 * 5, 0, 6]])


def test_view_follows_its_base(leaf, weight):
    x = leaf * 1
    row, other = x[0], x.view(-1)
    x.mul_(leaf)
    other[3:].zero_()
    np.testing.assert_allclose(gradient(row, leaf, weight[0]), 2 * W * values(leaf) * [[1], [0]])
    np.testing.assert_allclose(gradient(x, leaf, weight), 2 * W * values(leaf) * [[1], [0]])


@pytest.mark.parametrize("write", [lambda x, other: x.zero_(), lambda x, other: x.copy_(other),
                                   lambda x, other: x.fill_(other[0]), lambda x, other: Double.apply(x),
                                   lambda x, other: Add.apply(x, other)])  # fmt: skip
def test_views_are_looked_at_anew_after_a_write(leaf, weight, write):
    """Nobody may take what a view was before for what it is, although its version had moved on when somebody looked."""
    x = leaf * 1
    row, other = x[0], x[1]
    write(row, other)
    expected = gradient(x, leaf, weight * ag.tensor([[1.0], [0.0]], dtype=ag.float64, device=leaf.device))
    np.testing.assert_allclose(gradient(row, leaf, weight[0]), expected)
    assert other.grad_fn.next_functions[0][0] is x.grad_fn


def test_view_of_a_detached_base_is_cut_off(leaf):
    x = leaf * 1
    row = x[0]
    x.detach_()
    x.zero_()
    assert grad(row.sum(), leaf, allow_unused=True) == (None,)


@pytest.mark.parametrize("key", [0, (slice(None), 1), ..., (0, slice(1, None)), "mask", "numbers"])
def test_assignment(leaf, weight, device, key):
    key = {"mask": leaf > 0.4, "numbers": (ag.tensor([1, 0], device=device), ag.tensor([2, 2], device=device))}.get(
        key if isinstance(key, str) else None, key)
    where = tuple(values(k) for k in key) if isinstance(key, tuple) and isinstance(key[0], ag.Tensor) else key
    where = values(where) if isinstance(where, ag.Tensor) else where
    x, value = leaf * 1, ag.tensor(7.0, dtype=ag.float64, device=device, requires_grad=True)
    x[key] = value
    kept = np.ones((2, 3))
    kept[where] = 0
    by_leaf, by_value = grad((x * weight).sum(), [leaf, value])
    np.testing.assert_allclose(values(by_leaf), W * kept)
    np.testing.assert_allclose(values(by_value), (W * (1 - kept)).sum())


def test_a_constant_joins_the_graph(leaf, weight, device):
    x = ag.zeros(3, 3, dtype=ag.float64, device=device)
    first = x[0]
    x[1:] = leaf
    assert not x.is_leaf
    assert first.requires_grad
    np.testing.assert_allclose(gradient(x[1:], leaf, weight), W)


def test_hooks_stay_with_the_value_and_retain_grad_moves(leaf):
    x, seen = leaf * 3, []
    x.retain_grad()
    x.register_hook(lambda g: seen.append(values(g).copy()))
    x.mul_(5)
    x.sum().backward()
    np.testing.assert_array_equal(values(x.grad), np.ones((2, 3)))
    np.testing.assert_array_equal(seen, [np.full((2, 3), 5.0)])
    assert x.retains_grad


def test_retain_grad_moves_to_another_shape(leaf):
    x = leaf * 3
    x.retain_grad()
    x.t_()
    x.sum().backward()
    assert x.grad.shape == (3, 2)


def test_shape_in_place_without_recording(leaf):
    x = leaf[:, :2] * 2
    with ag.no_grad():
        x.t_()
        with pytest.raises(RuntimeError, match=r"unsqueeze_: without recording .* from shape \[2, 2\] to \[1, 2, 2\]"):
            x.unsqueeze_(0)
        leaf.t_()
    assert x.grad_fn.name() == "MulBackward0"
    assert leaf.shape == (3, 2)


def test_detach_in_place(leaf):
    x = leaf * 2
    y = x * x
    x.detach_()
    assert (x.is_leaf, x.requires_grad, x._version) == (True, False, 0)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"saved tensor that has been detached in-place, i.e. with .detach_\(\)"):
            y.sum().backward()
        x.requires_grad_()
    with pytest.raises(RuntimeError, match=r"Can't detach views in-place. Use detach\(\) instead."):
        (leaf * 2)[0].detach_()


@pytest.mark.parametrize("cut", [lambda x: x.detach_(), lambda x: x.requires_grad_(False)])
def test_a_leaf_that_requires_grad_no_more_gets_none(leaf, cut):
    y, called = (leaf.sin() * 2).sum(), []
    leaf.register_post_accumulate_grad_hook(called.append)
    cut(leaf)
    y.backward()
    assert leaf.grad is None
    assert not called


def test_a_hook_behind_a_constant_runs_only_where_it_leads_to_what_is_asked_for(leaf, device):
    x, seen, other = leaf.sin(), [], ag.ones(2, device=device, requires_grad=True)
    x.register_hook(seen.append)
    x.zero_()
    ag.autograd.backward([x.sum()], inputs=[other])
    assert not seen
    x.sum().backward()  # nothing was freed
    assert len(seen) == 1
    assert leaf.grad.sum().item() == 0


# ---- what is refused -------------------------------------------------------------------------------


def test_saved_and_written_to(leaf):
    x = leaf * 2
    y = x.sin()
    x[0, 0] = 1
    with pytest.raises(RuntimeError, match=r"modified by an inplace operation: \[autograd_gpu.float64 \[2, 3\]\], "
                                           r"which is output 0 of CopySlices, is at version 1; expected version 0"):
        y.sum().backward()


@pytest.mark.parametrize("function", [lambda x: x / (x + 1), ag.sinc, ag.erfinv], ids=["div", "sinc", "erfinv"])
@pytest.mark.parametrize("write", [lambda y: y.add_(1), lambda y: y[0].mul_(1)], ids=["all", "view"])
def test_write_to_an_output_that_no_rule_reads(leaf, function, write):
    """As in PyTorch, although a rule that read the output would be shorter."""
    expected = values(grad(function(leaf).sum(), leaf)[0])
    y = function(leaf)
    write(y)
    np.testing.assert_allclose(values(grad(y.sum(), leaf)[0]), expected)


LEAF = "a leaf Variable that requires grad is being used in an in-place operation"
VIEW_OF_LEAF = "a view of a leaf Variable that requires grad is being used in an in-place operation"


def test_leaves(leaf, device):
    for text, write in (
        (LEAF, lambda: leaf.add_(1)), (LEAF, lambda: leaf.__setitem__(..., 0)), (LEAF, lambda: leaf.t_()),
        (LEAF, lambda: leaf.__setitem__(leaf > 0, 0)), (VIEW_OF_LEAF, lambda: leaf.__setitem__(0, 0)),
        (VIEW_OF_LEAF, lambda: leaf[0].zero_()), (VIEW_OF_LEAF, lambda: leaf.expand(2, 2, 3).add_(1)),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match=f"^{text}"):
            write()
    with ag.no_grad():
        leaf[0] = 9
        leaf.add_(1)
    assert leaf._version == 2
    assert values(leaf)[0].tolist() == [10, 10, 10]
    x = ag.zeros(2, device=device)
    view = x[:1]
    x.requires_grad_()
    with pytest.raises(RuntimeError, match=f"^{VIEW_OF_LEAF}"):
        view.zero_()


def test_views_made_under_no_grad(leaf):
    x = leaf * 1
    with ag.no_grad():
        row = x[0]
    text = "A view was created in no_grad mode and is being modified inplace with grad mode enabled"
    for write in (lambda: row.zero_(), lambda: row.unsqueeze_(0)):
        with pytest.raises(RuntimeError, match=text):
            write()
    with ag.no_grad():
        row.mul_(2)
    assert x._version == 1
    x.mul_(2)
    assert row.requires_grad
    with pytest.raises(RuntimeError, match="no_grad mode and its base or another view of its base has been modified"):
        _ = row.grad_fn
    with pytest.raises(RuntimeError, match=text):  # whether it is stale or not
        row.zero_()


@pytest.mark.parametrize("several", [lambda x: x.unbind(0), lambda x: x.chunk(2), lambda x: x.split(1)])
def test_one_of_several_views(leaf, several):
    x = leaf * 1
    parts = several(x)
    with pytest.raises(RuntimeError, match=r"Output 1 of \w+ is a view and is being modified inplace. This view is the "
                                           "output of a function that returns multiple views."):
        parts[1].zero_()
    x.zero_()
    with pytest.raises(RuntimeError, match="is a view and its base or another view of its base has been modified"):
        parts[0].sum()
    with pytest.raises(RuntimeError, match="is a view and is being modified inplace"):
        parts[0].zero_()
    with ag.no_grad():
        assert (parts[0].sum().item(), ag.cat(parts).sum().item(), parts[1].max().item()) == (0, 0, 0)
        assert not Double.apply(parts[1]).requires_grad


def test_stretched_views(leaf):
    x = leaf.detach()[0].expand(2, 3)
    for write in (lambda: x.add_(1), lambda: x.copy_(leaf.detach())):
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers to a single mem"):
            write()
    assert x.fill_(2.0).tolist() == [[2.0] * 3] * 2  # the same number everywhere
    assert x.zero_().sum().item() == 0
    y = leaf * 1
    y[:, :1].expand(2, 4).fill_(0.5)
    np.testing.assert_array_equal(values(grad(y.sum(), leaf)[0]), [[0, 1, 1]] * 2)


@pytest.mark.parametrize("write", [lambda x: x.t_(), lambda x: x.mul_(2), lambda x: x.__setitem__(0, 1)])
def test_writes_of_every_kind_may_be_copied_for(leaf, weight, write):
    with ag.autograd.graph.allow_mutation_on_saved_tensors():
        x = leaf * 1
        y = x * x
        write(x)
        np.testing.assert_allclose(gradient(y, leaf, weight), 2 * W * values(leaf))


# ---- memory ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_gc")
@pytest.mark.parametrize("write", [
    lambda x: x.exp_(), lambda x: x[0].exp_(), lambda x: x[0][1:].mul_(x.sum()), lambda x: x.__setitem__(0, x[1].sin()),
    lambda x: x.view(-1).sigmoid_(), lambda x: x[0].div_(x[1] + 1), lambda x: x.t_(), lambda x: Double.apply(x[0]),
    lambda x: x.mT.copy_(x.mT.detach() * x.sum()), lambda x: x.clamp_(0.1, 0.5), lambda x: x[0].pow_(2),
])  # fmt: skip
def test_no_cycles(leaf, write):
    x = leaf * 1
    view = x[0]
    write(x)
    y = x.sum() + view.sum()
    watched = [weakref.ref(t) for t in (x, view, x.grad_fn, view.grad_fn)]
    del x, view, y
    assert [ref() for ref in watched] == [None] * 4


@pytest.mark.usefixtures("no_gc")
@pytest.mark.parametrize("name", ["relu_", "sigmoid_", "tanh_", "exp_"])
def test_an_activation_in_place_keeps_one_array(leaf, name):
    x = (leaf @ leaf.mT) * 1
    memory = x.array
    getattr(x, name)()
    assert x.array is memory
    assert x.grad_fn._saved_result.array is memory
    x.sum().backward()


def test_overwritten_inputs_are_kept_where_a_rule_reads_them(leaf, weight):
    x = leaf * 1
    x.sin_().add_(1)
    np.testing.assert_allclose(gradient(x, leaf, weight), W * np.cos(values(leaf)))


def test_two_threads_read_one_stale_view(x):
    """The view counted as fresh before it had its new node."""
    seen = []
    for _ in range(100):
        base = x * 1
        view, start = base[:1], threading.Barrier(2)
        base.mul_(5)

        def read(view=view, start=start):
            start.wait()
            seen.append(grad(view.sum(), x, retain_graph=True)[0].tolist())

        threads = [threading.Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert seen == [[5.0, 0.0]] * 200


class TestData:
    def test_of_a_base_whose_view_is_written_to(self, x):
        base = x * 1
        view = base.view(2, 1)
        base.data = ag.zeros(2, device=x.device)
        with ag.no_grad():
            view.add_(1)
        assert grad(view.sum(), x)[0].tolist() == [1.0, 1.0]

    def test_of_a_base_whose_view_is_rewritten(self, x):
        base = x * 1
        view = base.view(2, 1)
        base.data = ag.zeros(2, device=x.device)
        view.mul_(3)
        assert grad(view.sum(), x, retain_graph=True)[0].tolist() == [3.0, 3.0]
        assert base.grad_fn.name() == "MulBackward0"

    def test_of_a_view(self, x):
        base = x * 1
        view = base[:1]
        view.data = ag.zeros(1, device=x.device)
        view.mul_(2)
        assert not view._is_view()
        assert base.grad_fn.name() == "MulBackward0"
        assert grad(view.sum(), x)[0].tolist() == [2.0, 0.0]


class TestStretchedViews:
    def test_refuse_a_tensor_that_is_differentiated(self, x):
        view = ag.zeros(1, 3, device=x.device).expand(4, 3)
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
            view.fill_(x.sum())

    def test_take_a_number(self, x):
        base = (x * 1).reshape(1, 2)
        base.expand(4, 2).fill_(7.0)
        assert base.tolist() == [[7.0, 7.0]]
        assert grad(base.sum(), x)[0].tolist() == [0.0, 0.0]


def test_a_copy_is_not_taken_of_what_changed_unseen(x):
    """allow_mutation_on_saved_tensors kept the changed values for what had been saved."""
    with graph.allow_mutation_on_saved_tensors():
        y = x * 2
        z = y.sin()
        y.array[...] = 5
        graph.increment_version(y)
        y.zero_()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            z.sum().backward()


@pytest.mark.cpu
def test_a_write_that_fails_half_way_is_noticed(x):
    y = x * 1
    z = y.sin()
    with ag.no_grad(), np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        y.div_(0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


class TestStaleViewsAreSaved:
    def test_by_a_checkpoint(self, x):
        base = ag.zeros(2, 2, device=x.device)
        view = base[0]
        base.add_(x)
        checkpoint(lambda t: t.exp(), view, use_reentrant=False).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(force=True), np.exp([1.0, 1.0]), rtol=1e-6)

    def test_by_a_function(self, x):
        class Keeps(Function):
            @staticmethod
            def forward(ctx, t, kept):
                ctx.save_for_backward(kept[0])
                return t * 1

            @staticmethod
            def backward(ctx, g):
                return g * ctx.saved_tensors[0], None

        base = ag.zeros(2, device=x.device)
        view = base[:1]
        base.add_(x)
        (first,) = grad(Keeps.apply(x, [view]).sum(), x, create_graph=True)
        assert first.requires_grad
        assert grad(first.sum(), x)[0].tolist() == [2.0, 0.0]


def test_zero_dimensions_are_written_to(x):
    loss = ag.zeros((), device=x.device)
    loss[()] = x.sum()
    assert grad(loss, x)[0].tolist() == [1.0, 1.0]
    total = x.sum()
    total[...].mul_(3)
    assert grad(total, x)[0].tolist() == [3.0, 3.0]


def test_a_pack_hook_that_raises_finds_the_history_of_what_was_written_to(x):
    class Triples(Function):
        @staticmethod
        def forward(ctx, t):
            ctx.mark_dirty(t)
            ctx.save_for_backward(t)
            return t.mul_(3)

        @staticmethod
        def backward(ctx, g):
            return g * 3

    def pack(_):
        raise ValueError("full")

    y = x * 1
    with graph.saved_tensors_hooks(pack, lambda t: t), pytest.raises(ValueError, match="full"):
        Triples.apply(y)
    assert y.tolist() == [3.0, 3.0]
    assert y.grad_fn.name() == "TriplesBackward"


def test_a_view_out_of_date_is_printed(x):
    with ag.no_grad():
        view = x[:1]
        view.mul_(2)
        assert repr(view).startswith("tensor([2.]")
    parts = (x * 1).unbind()
    parts[0]._base.mul_(2)
    assert repr(parts[0]).endswith("grad_fn=<Invalid>)") or "device" in repr(parts[0])
