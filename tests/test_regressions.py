"""Bugs that were found and mended; each test failed before."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import autograd_gpu as ag
from autograd_gpu.autograd import Function, grad, gradcheck, once_differentiable


def leaf(*values):
    return ag.tensor(values, dtype=ag.float64, requires_grad=True)


class TestFunction:
    def test_ctx_attributes_are_the_users(self):
        class F(Function):
            @staticmethod
            def forward(ctx, x):
                ctx.mask, ctx.shape, ctx.dtype, ctx.extra, ctx.edges = x > 0, "s", "d", "e", "f"
                return x * ctx.mask

            @staticmethod
            def backward(ctx, g):
                assert (ctx.shape, ctx.dtype, ctx.extra, ctx.edges) == ("s", "d", "e", "f")
                return g * ctx.mask

        assert grad(F.apply(leaf(1.0, -1.0, 2.0)).sum(), x := leaf(1.0), allow_unused=True) == (None,)
        x = leaf(1.0, -1.0, 2.0)
        assert grad(F.apply(x).sum(), x)[0].tolist() == [1.0, 0.0, 1.0]

    def test_gradient_comes_in_the_inputs_dtype(self):
        class F(Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, g):
                return g.double() * 2

        x = ag.ones(2, requires_grad=True)
        assert grad(F.apply(x).sum(), x, create_graph=True)[0].dtype == ag.float32

    def test_saved_non_differentiable_output_does_not_require_grad(self):
        seen = []

        class F(Function):
            @staticmethod
            def forward(ctx, x):
                mask = (x > 0).double()
                ctx.mark_non_differentiable(mask)
                ctx.save_for_backward(mask)
                return x * mask, mask

            @staticmethod
            def backward(ctx, g, _):
                seen.append(ctx.saved_tensors[0].requires_grad)
                return g * ctx.saved_tensors[0]

        x = leaf(1.0, -1.0)
        grad(F.apply(x)[0].sum(), x, create_graph=True)
        assert seen == [False]

    def test_values_that_are_no_tensors_have_a_slot(self):
        got = []

        class F(Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2, 5, None

            @staticmethod
            def backward(ctx, *gs):
                got.extend(gs)
                return gs[0] * 2

        y, five, none = F.apply(x := leaf(1.0))
        assert (five, none) == (5, None)
        grad(y, x)
        assert len(got) == 3
        assert got[1:] == [None, None]

    def test_keywords_and_defaults_reach_setup_context(self):
        class F(Function):
            @staticmethod
            def forward(x, k=3):
                return x * k

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.k = inputs[1]

            @staticmethod
            def backward(ctx, g):
                return g * ctx.k, None

        x = leaf(1.0)
        assert grad(F.apply(x), x)[0].item() == 3.0
        assert grad(F.apply(x, k=4), x)[0].item() == 4.0

    def test_gradient_for_a_number_is_refused(self):
        class F(Function):
            @staticmethod
            def forward(ctx, x, n):
                return x * n

            @staticmethod
            def backward(ctx, g):
                return g, g

        with pytest.raises(RuntimeError, match="different than None at position 1"):
            F.apply(leaf(1.0), 2).backward()

    @pytest.mark.cpu  # the emulated device keeps a record of every block of memory
    def test_once_differentiable_leaves_nothing_behind(self):
        class F(Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x

            @staticmethod
            @once_differentiable
            def backward(ctx, g):
                return g * 2 * ctx.saved_tensors[0]

        x = leaf(3.0)
        grad(F.apply(x), x, create_graph=True)
        gc.collect()
        gc.disable()
        try:
            before = len(gc.get_objects())
            for _ in range(20):
                grad(F.apply(x), x, create_graph=True)
            assert len(gc.get_objects()) - before < 20
        finally:
            gc.enable()


class TestAliasing:
    def test_recorded_gradients_are_copies(self):
        x, z, g = leaf(1.0), leaf(1.0), leaf(1.0).detach()
        (x + z).backward(g, create_graph=True)
        (x * 5).sum().backward()
        assert (x.grad.item(), z.grad.item(), g.item()) == (6.0, 1.0, 1.0)

    def test_retained_gradients_are_copies(self):
        x, g = leaf(1.0), leaf(1.0).detach()
        y = x + 1
        w = y + 1
        y.retain_grad()
        w.retain_grad()
        w.backward(g)
        y.grad.zero_()
        assert (w.grad.item(), g.item()) == (1.0, 1.0)

    def test_same_input_twice_counts_once(self):
        x = leaf(1.0)
        ag.autograd.backward(x * 3, inputs=[x, x])
        assert x.grad.item() == 3.0

    def test_gradient_handed_through_shares_the_version(self):
        x, w = leaf(1.0, 2.0), leaf(1.0, 2.0)
        g = ag.ones(2, dtype=ag.float64)
        y = (g * w).sum()
        (gx,) = grad(x + 1, x, g)
        gx.mul_(7)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.backward()

    def test_values_of_a_0d_max_are_a_copy(self):
        x = ag.tensor(3.0)
        x.max(0).values.zero_()
        assert x.item() == 3.0

    def test_size_one_axes_can_be_written_to(self):
        assert ag.ones(3)[None].mul_(2).tolist() == [[2.0] * 3]
        assert ag.ones(3)[:, None].mul_(2).tolist() == [[2.0]] * 3


class TestWatchedAboveZero:
    def test_hook_retain_grad_and_function(self):
        calls = []

        class F(Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, g):
                calls.append("F")
                return g * 2

        x = leaf(0.3, 0.6)
        y = x.sign()
        y.retain_grad()
        y.register_hook(lambda g: calls.append("hook"))
        F.apply(y).sum().backward()
        assert y.grad.tolist() == [2.0, 2.0]
        assert calls == ["F", "hook"]
        assert x.grad.tolist() == [0.0, 0.0]
        calls.clear()
        assert grad(F.apply(x.sign()).sum(), x)[0].tolist() == [0.0, 0.0]
        assert calls == ["F"]

    def test_hooks_of_a_leaf_behind_zero(self):
        calls = []
        x = leaf(0.3)
        x.register_hook(lambda g: calls.append(g.tolist()))
        x.register_post_accumulate_grad_hook(lambda t: calls.append("done"))
        x.sign().sum().backward()
        assert calls == [[0.0], "done"]
        grad(x.sign().sum(), x)
        assert calls[2:] == [[0.0]]

    def test_leaf_reached_both_ways_fires_once(self):
        calls = []
        x = leaf(2.0)
        x.register_hook(lambda g: calls.append(g.tolist()))
        (x.sign() + x * 3).sum().backward()
        assert calls == [[3.0]]


class TestNumbers:
    def test_half_precision_beside_a_number(self):
        x = ag.tensor([60000.0, 1000.0], dtype=ag.float16)
        assert (x / 1e6).tolist() == pytest.approx([0.06, 0.001], rel=1e-3)
        assert (x * 1e-8).dtype == ag.float16
        x.requires_grad_()
        assert grad((x * 1e-3).sum(), x)[0].dtype == ag.float16

    def test_numpy_scalars_count_as_numbers(self):
        assert (ag.tensor(1.0) * np.float64(0.5)).dtype == ag.float32
        assert (ag.arange(3) / np.float64(2)).dtype == ag.float32
        assert (np.float64(2) * ag.ones(2)).dtype == ag.float32

    def test_where_of_numbers(self):
        mask = ag.tensor([True, False])
        assert ag.where(mask, 1.0, 0).tolist() == [1.0, 0.0]
        assert ag.where(mask, 1.0, 0.0).dtype == ag.float32
        assert ag.where(mask, 1, 0).dtype == ag.int64

    def test_integers_out_of_range_compare(self):
        x = ag.tensor([1, 255], dtype=ag.uint8)
        assert (x < 300).tolist() == [True, True]
        assert (x == -1).tolist() == [False, False]

    def test_bits(self):
        x = ag.tensor([6, 5])
        assert (x & 3).tolist() == [2, 1]
        assert (~x).tolist() == [-7, -6]
        assert (~ag.tensor([True])).tolist() == [False]
        with pytest.raises(RuntimeError, match="floating point"):
            ag.ones(2) & ag.ones(2)

    def test_nan_gradients(self):
        for n in (2, 600):
            x = ag.full((n,), float("nan"), requires_grad=True)
            assert grad(ag.relu(x).sum(), x)[0].tolist() == [1.0] * n
        x = leaf(1.0, float("nan"), 2.0)
        assert grad(x.max(), x)[0].tolist() == [0.0, 1.0, 0.0]


class TestFloat8:
    def test_moves_but_does_not_compute(self):
        t = ag.tensor([[2.0, 4.0]]).to(ag.float8_e4m3fn)
        for moved in (t.clone(), t.reshape(2, 1), t.T, ag.cat([t, t]), t.expand(3, 2), next(iter(t)), t.unsqueeze(0)):
            assert moved.dtype == ag.float8_e4m3fn
        assert ag.cat([t, t]).to(ag.float32).tolist() == [[2.0, 4.0]] * 2
        t.fill_(1.5)
        t[0, 1] = 2.0
        assert t.to(ag.float32).tolist() == [[1.5, 2.0]]
        with pytest.raises(TypeError, match="no arithmetic"):
            t.clamp_(0, 1)

    def test_view_shares_the_version(self):
        t = ag.tensor([2.0, 4.0]).to(ag.float8_e5m2)
        t.reshape(2, 1).zero_()
        assert t._version == 1


class TestErrors:
    def test_texts(self):
        x = leaf(1.0, 2.0)
        with pytest.raises(TypeError, match="all inputs have to be Tensors or GradientEdges, but got int"):
            grad(x.sum(), [1])
        with pytest.raises(TypeError, match="element 0 of tensors must be a Tensor"):
            grad([1.0], x)
        with pytest.raises(TypeError, match="either Tensors or None, but got str"):
            grad(x.sum(), x, ["a"])
        assert grad(x * 2, x, np.ones(2))[0].tolist() == [2.0, 2.0]
        with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
            ag.ones(2).copy_(ag.ones(3))
        with pytest.raises(RuntimeError, match="0-dimension value tensor"):
            ag.ones(2).fill_(ag.ones(2))
        with pytest.raises(TypeError, match="NoneType"):
            ag.ones(2)[0] = None
        with pytest.raises(TypeError, match="must be int, not tuple"):
            ag.ones(2, 3).argmax((0, 1))
        with pytest.raises(ag.autograd.GradcheckError, match="expected to be zero"):
            gradcheck(lambda x: x.detach(), (x,))

    def test_printing_and_format(self):
        assert "float16" in repr(ag.ones(2, dtype=ag.float16))
        assert f"{ag.tensor(1.5)}" == "1.5"

    def test_a_mode_entered_twice(self):
        mode = ag.no_grad()
        with mode, mode:
            assert not ag.is_grad_enabled()
        assert ag.is_grad_enabled()


def test_moving_a_module_is_noticed_by_a_graph_that_saved_it():
    layer = ag.nn.Linear(2, 2)
    x = ag.ones(1, 2, requires_grad=True)
    y = layer(x).sum()
    layer.double()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_hooks_of_a_leaf_survive_freezing():
    calls = []
    x = leaf(1.0)
    x.register_post_accumulate_grad_hook(lambda t: calls.append(1))
    x.requires_grad_(False)
    x.requires_grad_(True)
    (x * 2).backward()
    assert calls == [1]


def test_data_can_be_set():
    p = ag.nn.Parameter(ag.ones(2))
    p.data = ag.zeros(2)
    assert p.tolist() == [0.0, 0.0]
    assert p.requires_grad


class TestSecondReading:
    def test_assignment_indexes_as_reading_does(self):
        x = ag.zeros(2, 3, 4)
        index = ag.tensor([1, 3])
        value = ag.arange(6.0).reshape(3, 2)
        x[0, :, index] = value
        assert x[0, :, index].tolist() == value.tolist()
        x[x > 3] = -1.0
        assert x.min().item() == -1.0
        x[1] = 7
        x[..., None, 0] = 2
        assert x[1, 0].tolist() == [2.0, 7.0, 7.0, 7.0]
        assert x._version == 4

    def test_half_precision_in_place_beside_a_number(self):
        for dtype in (ag.float16, ag.bfloat16):
            x = ag.full((2,), 60000.0, dtype=dtype)
            assert x.mul_(1e-8).dtype == dtype
            assert x.tolist() == pytest.approx([6e-4] * 2, rel=1e-2)

    def test_data_that_does_not_fit(self):
        for value, dtype in ((300, ag.uint8), (-300, ag.uint8), ([1e10], ag.int32), (float("nan"), ag.int64)):
            with pytest.raises(RuntimeError, match="without overflow"):
                ag.tensor(value, dtype=dtype)
        with pytest.raises(TypeError, match="complex128"):
            ag.from_dlpack(np.ones(2, complex))
        with pytest.raises(TypeError, match="storage dtype"):
            ag.nn.Parameter(ag.ones(1).to(ag.float8_e5m2), requires_grad=False)
        with pytest.raises(RuntimeError, match="can't be cast"):
            ag.tensor([True]).add_(1)

    @pytest.mark.cpu  # on CUDA positions are not read on the host; CuPy wraps them around
    def test_negative_positions(self):
        with pytest.raises(IndexError, match="out of range"):
            ag.embedding(ag.tensor([-1]), ag.ones(3, 2))
        x, index = ag.arange(3.0), ag.tensor([-1])
        for call in (lambda: ag.gather(x, 0, index), lambda: ag.scatter_add(x, 0, index, x[:1]),
                     lambda: ag.index_select(x, 0, index)):
            with pytest.raises(IndexError, match="index -1 is out of bounds"):
                call()

    def test_clamp_names_what_it_takes(self):
        with pytest.raises(TypeError, match=r"clamp\(\): argument 'min' must be Tensor, not list"):
            ag.clamp(ag.arange(3.0), [0.0])

    def test_randint_like(self):
        r = ag.randint_like(ag.zeros(50, dtype=ag.int32), 2, 5)
        assert r.dtype == ag.int32
        assert set(r.tolist()) == {2, 3, 4}


class TestStorageDtypes:
    """Nothing is computed in float8, in whatever way it is asked for."""

    F8 = ag.float8_e4m3fn

    @pytest.mark.parametrize("make", [
        lambda f8: ag.ones(3).sum(dtype=f8), lambda f8: ag.ones(3).prod(0, dtype=f8),
        lambda f8: ag.ones(3).cumsum(0, dtype=f8), lambda f8: ag.ones(3).mean(dtype=f8), lambda f8: ag.eye(2, dtype=f8),
        lambda f8: ag.arange(3, dtype=f8), lambda f8: ag.linspace(0, 1, 3, dtype=f8),
        lambda f8: ag.randint(0, 3, (2,), dtype=f8), lambda f8: ag.randperm(3, dtype=f8),
        lambda f8: ag.bernoulli(ag.zeros(2).to(f8), 0.5), lambda f8: ag.zeros(2, 2).to(f8).fill_diagonal_(1.0),
    ])  # fmt: skip
    def test_is_refused(self, make):
        with pytest.raises(TypeError, match="is a storage dtype"):
            make(self.F8)


class TestArgumentsAreNotDropped:
    def test_normal_of_tensors(self):
        for given in ({"dtype": ag.float64}, {"requires_grad": True}, {"device": "cpu"}, {"size": (2,)}):
            with pytest.raises(TypeError, match="a tensor brings its own"):
                ag.normal(ag.ones(2), 0.0, **given)
        assert ag.normal(0.0, 1.0, 3).shape == (3,)
        with pytest.raises(RuntimeError, match=r"std >= 0\.0"):
            ag.random.normal((2,), std=-1.0)

    def test_scatter_of_a_tensor_and_a_number(self):
        with pytest.raises(TypeError, match="not both"):
            ag.zeros(3).scatter(0, ag.tensor([1]), ag.ones(1), value=5.0)

    def test_view_of_a_shape_and_a_dtype(self):
        with pytest.raises(TypeError, match="a shape or a dtype, not both"):
            ag.ones(2, 3).view(6, dtype=ag.int32)


def test_scatter_takes_an_array_as_a_tensor():
    index, values = ag.tensor([[1, 0, 1]]), ag.backend.to_device(np.float32([[1, 2, 3]]), ag.zeros(1).device)
    x = ag.zeros(2, 3)
    assert x.scatter(0, index, values).tolist() == [[0, 2, 0], [1, 0, 3]]
    assert x.scatter_add(0, index, values).tolist() == [[0, 2, 0], [1, 0, 3]]
    assert x.scatter(0, index, values, reduce="add").tolist() == [[0, 2, 0], [1, 0, 3]]


@pytest.mark.parametrize("count", [4, 2000])
def test_relu_lets_the_gradient_through_at_every_nan(count):
    """Also at those whose sign bit is set, as that of inf - inf is."""
    x = ag.tensor(np.copysign(np.full(count, np.nan), -1.0), requires_grad=True)
    assert grad(ag.relu(x).sum(), x)[0].tolist() == [1.0] * count


def test_label_margins_at_a_tie_do_not_depend_on_the_number_of_elements():
    from autograd_gpu.ops.nn.margin_losses import label_margins

    x = ag.tensor([[0.1, -0.9]] * 100, requires_grad=True)
    many = grad(label_margins(x, ag.tensor([[0, -1]] * 100)).sum(), x)[0]
    one = ag.tensor([[0.1, -0.9]], requires_grad=True)
    few = grad(label_margins(one, ag.tensor([[0, -1]])).sum(), one)[0]
    assert many[:1].tolist() == few.tolist()


@pytest.mark.parametrize("dtype", [ag.float16, ag.bfloat16])
def test_uniform_numbers_in_half_types_are_below_1(dtype):
    drawn = ag.rand(100_000, dtype=dtype, generator=ag.Generator(ag.zeros(1).device).manual_seed(0))
    assert 0 <= drawn.float().min().item() < 0.001
    assert 0.99 < drawn.float().max().item() < 1


def test_numpy_integers_are_dimensions():
    x = ag.ones(2, 3)
    for reduce in (ag.sum, ag.mean, ag.var, ag.amax, ag.logsumexp):
        assert reduce(x, np.int64(0)).shape == (3,)


def test_errors_name_the_op():
    with pytest.raises(RuntimeError, match="log_softmax: dtype must be floating point"):
        ag.nn.functional.log_softmax(ag.ones(2), 0, dtype=ag.int64)
    with pytest.raises((RuntimeError, IndexError), match="cat"):
        ag.cat([ag.ones(2), ag.ones(2)], 2**70)


def test_corner_indices_of_many_rows():
    for ours, theirs in ((ag.tril_indices, np.tril_indices), (ag.triu_indices, np.triu_indices)):
        np.testing.assert_array_equal(ours(40, 40, 1).numpy(force=True), np.stack(theirs(40, 1, 40)))
