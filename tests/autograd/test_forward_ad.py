"""Dual tensors: levels, packing and unpacking, views, and forward mode together with reverse mode and with vmap."""

import gc
import threading
import weakref

import pytest

import autograd_gpu as ag
from autograd_gpu.autograd import forward_ad as fw
from autograd_gpu.modes import MODES
from autograd_gpu.utils.checkpoint import checkpoint

A, B = [1.0, 2.0, 3.0], [0.5, -1.0, 2.0]


def vector(values=A, **options):
    return ag.tensor(values, dtype=ag.float64, **options)


def tangent(x):
    return fw.unpack_dual(x).tangent


def equal(actual, expected):
    assert actual is not None
    assert actual.shape == expected.shape
    assert ag.allclose(actual, expected), (actual, expected)


@pytest.fixture(autouse=True)
def _no_level_is_left():
    yield
    assert MODES.stack == ()
    assert fw._current_level == -1


# ---- levels ------------------------------------------------------------------------------------------


@pytest.mark.cpu
def test_a_dual_tensor_shows_its_tangent():
    with fw.dual_level():
        assert repr(fw.make_dual(ag.ones(1), ag.zeros(1)) * 2) == "tensor([2.], tangent=tensor([0.]))"


def test_levels_have_numbers():
    assert fw._current_level == -1
    assert fw.enter_dual_level() == 0
    assert fw._current_level == 0
    fw.exit_dual_level(level=0)
    assert fw._current_level == -1
    with fw.dual_level() as number:
        assert number == 0


def test_levels_are_not_nested():
    with fw.dual_level():
        with pytest.raises(RuntimeError, match="Nested forward mode AD is not supported at the moment"):
            fw.enter_dual_level()
        with pytest.raises(RuntimeError, match="Nested forward mode AD"), fw.dual_level():
            pass
        assert fw._current_level == 0


def test_only_the_last_level_is_exited():
    with pytest.raises(RuntimeError, match="Dual level must be a positive number"):
        fw.exit_dual_level()
    with fw.dual_level(), pytest.raises(RuntimeError, match="not the last one that was created"):
        fw.exit_dual_level(level=1)


def test_module_has_no_other_attributes():
    with pytest.raises(AttributeError, match="_curent_level"):
        fw._curent_level  # noqa: B018


def test_dual_level_as_decorator_and_entered_twice():
    level = fw.dual_level()

    @level
    def slope(x):
        return tangent(fw.make_dual(x, ag.ones_like(x)).sin())

    x = vector()
    equal(slope(x), x.cos())
    for _ in range(2):
        with level:
            equal(tangent(fw.make_dual(x, x)), x)


def test_tangents_end_with_their_level():
    x, t = vector(), vector(B)
    with fw.dual_level():
        dual = fw.make_dual(x, t)
        result = dual * 2
        assert tangent(result) is not None
    assert fw.unpack_dual(dual).primal is dual
    assert tangent(dual) is None
    assert tangent(result) is None
    with fw.dual_level():  # nor do they come back
        assert tangent(dual) is None
        assert tangent(result) is None
        assert tangent(dual * 2) is None


def test_tangents_are_freed_with_their_level():
    x, t = vector(), vector(B)
    with fw.dual_level():
        dual = fw.make_dual(x, t)
        alive = weakref.ref(t)
        del t
        assert alive() is not None
    assert alive() is None
    assert dual.shape == (3,)


def test_a_dual_is_freed_inside_of_its_level():
    gc.disable()
    try:
        with fw.dual_level():
            x, t = vector(), vector(B)
            dual = fw.make_dual(x, t) * 2
            refs = [weakref.ref(dual), weakref.ref(t)]
            del dual, x, t
            assert [ref() for ref in refs] == [None, None]
    finally:
        gc.enable()


def test_an_exception_ends_the_level():
    def fail(x):
        fw.make_dual(x, x)
        raise KeyError("inside")

    with pytest.raises(KeyError), fw.dual_level():
        fail(vector())
    with pytest.raises(KeyError), fw.dual_level():
        ag.func.vmap(lambda x: fail(x))(vector())
    assert MODES.bits == 0


def test_a_level_that_is_left_inside_of_a_transform_ends_with_it():
    def leaves(x):
        fw.enter_dual_level()
        return fw.make_dual(x, x) * 2

    equal(ag.func.vmap(leaves)(vector()), vector() * 2)


def test_a_level_is_not_exited_inside_of_a_transform():
    def exits(x):
        fw.exit_dual_level()
        return x

    with fw.dual_level(), pytest.raises(RuntimeError, match="Exit the level outside of the transformed function"):
        ag.func.vmap(exits)(vector())


def test_dual_level_notices_that_its_level_is_gone():
    with pytest.raises(RuntimeError, match="Dual level must be a positive number"), fw.dual_level():
        fw.exit_dual_level()


def test_threads_have_levels_of_their_own():
    seen = {}

    def work():
        seen["level"] = fw._current_level
        seen["tangent"] = tangent(dual)
        with fw.dual_level():
            seen["own"] = tangent(fw.make_dual(dual, vector(B)).exp())

    with fw.dual_level():
        dual = fw.make_dual(vector(), vector(B))
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        equal(tangent(dual), vector(B))
    assert seen["level"] == -1
    assert seen["tangent"] is None
    equal(seen["own"], vector(B) * vector().exp())


# ---- packing and unpacking ---------------------------------------------------------------------------


def test_packing_and_unpacking():
    x, t = vector(), vector(B)
    with fw.dual_level():
        dual = fw.make_dual(x, t)
        primal, result = fw.unpack_dual(dual)
        equal(primal, x)
        assert result is t
        assert tangent(primal) is None
        assert tangent(x) is None  # packing changes no input
        assert tangent(dual) is t  # nor does unpacking
        assert (dual._is_view(), dual._base is x, primal._base is x) == (True, True, True)
        again = fw.make_dual(primal, x)
        assert tangent(again) is x


def test_unpack_dual_is_a_named_tuple():
    with fw.dual_level():
        result = fw.unpack_dual(vector())
        assert isinstance(result, fw.UnpackedDualTensor)
        assert result._fields == ("primal", "tangent")
        assert tangent(fw.unpack_dual(fw.make_dual(vector(), vector())).primal * 2) is None


def test_writes_are_seen_through_the_dual():
    x = vector()
    with fw.dual_level():
        dual = fw.make_dual(x, vector(B))
        with ag.no_grad():
            x.fill_(1.0)
        equal(fw.unpack_dual(dual).primal, ag.ones(3, dtype=ag.float64))


def test_checks_of_make_dual():
    x = vector()
    with pytest.raises(RuntimeError, match=r"no level exists, make sure to enter_dual_level\(\) first"):
        fw.make_dual(x, x)
    with fw.dual_level():
        with pytest.raises(RuntimeError, match=r"Tensor is of size \[3\] while the given forward gradient is of size "
                                               r"\[2\]"):
            fw.make_dual(x, vector([1.0, 2.0]))
        with pytest.raises(ValueError, match="Expected primal to be floating point or complex, but got: int64"):
            fw.make_dual(ag.tensor([1, 2, 3]), x)
        with pytest.raises(ValueError, match="Expected tangent to be floating point or complex, but got: int64"):
            fw.make_dual(x, ag.tensor([1, 2, 3]))
        with pytest.raises(TypeError, match="argument 'tangent' must be Tensor, not float"):
            fw.make_dual(x, 1.0)
        with pytest.raises(TypeError, match="argument 'tensor' must be Tensor, not list"):
            fw.unpack_dual([1.0])
        with pytest.raises(RuntimeError, match="Invalid level given to make_dual: 1"):
            fw.make_dual(x, x, level=1)
        dual = fw.make_dual(x, x.clone(), level=0)
        with pytest.raises(RuntimeError, match="already has a forward gradient at the same level 0"):
            fw.make_dual(dual, x)
        with pytest.raises(RuntimeError, match="Setting a forward grad that itself has a forward gradient"):
            fw.make_dual(x, dual)
        assert fw.unpack_dual(dual, level=3).tangent is None


@pytest.mark.parametrize("layout", ["transposed", "strided", "expanded"])
def test_a_tangent_is_copied_into_the_layout_of_its_primal(layout):
    whole = ag.arange(12, dtype=ag.float64).reshape(4, 3)
    x = {"transposed": whole.t(), "strided": whole[::2], "expanded": whole[:1].expand(4, 3)}[layout]
    t = ag.rand(*x.shape, dtype=ag.float64, requires_grad=True)
    with fw.dual_level():
        result = tangent(fw.make_dual(x, t))
        equal(result, t)
        assert result is not t
        assert result.stride() == (x.stride() if layout == "transposed" else (3, 1))
        (g,) = ag.autograd.grad((result * 2).sum(), t)
    equal(g, ag.full_like(t, 2.0))


def test_a_tangent_that_lies_as_its_primal_is_kept():
    whole = ag.rand(4, 3, dtype=ag.float64)
    with fw.dual_level():
        t = ag.rand(4, 3, dtype=ag.float64)[::2]
        assert tangent(fw.make_dual(whole[::2], t)) is t
        column = ag.rand(3, 1, dtype=ag.float64).t()
        assert tangent(fw.make_dual(ag.rand(1, 3, dtype=ag.float64), column)) is column


def test_inference_tensors():
    with ag.inference_mode(), fw.dual_level():
        x = ag.ones(2)
        dual = fw.make_dual(x, x.clone())
        assert dual.is_inference()
        assert not dual._is_view()
        equal(tangent(dual * 3), ag.full((2,), 3.0))


# ---- operations --------------------------------------------------------------------------------------


def test_operations_push_tangents():
    x, t = vector(), vector(B)
    with fw.dual_level():
        dual = fw.make_dual(x, t)
        equal(tangent(dual * dual.sin()), (x.sin() + x * x.cos()) * t)
        equal(tangent(dual @ x), t @ x)
        equal(tangent(ag.cat([x, dual])), ag.cat([ag.zeros_like(t), t]))
        assert tangent(x * 2) is None
        assert tangent(ag.where(x > 1, x, x)) is None


def test_views_carry_their_part():
    x, t = ag.rand(2, 3, dtype=ag.float64), ag.rand(2, 3, dtype=ag.float64)
    with fw.dual_level():
        dual = fw.make_dual(x, t)
        equal(tangent(dual[1]), t[1])
        equal(tangent(dual.t()), t.t())
        equal(tangent(dual.reshape(-1)[2:4]), t.reshape(-1)[2:4])
        for actual, expected in zip(dual.unbind(1), t.unbind(1), strict=True):
            equal(tangent(actual), expected)
        assert tangent(x[1]) is None


def test_out_gets_the_tangent_of_what_is_written():
    """PyTorch rejects out= here."""
    x, t = vector(), vector(B)
    with fw.dual_level():
        dual, out = fw.make_dual(x, t), vector()
        assert ag.mul(dual, 3, out=out) is out
        equal(tangent(out), 3 * t)
        ag.add(x, x, out=out)
        equal(tangent(out), 0 * t)


def test_detach_and_data_have_no_tangent():
    x, t = vector(), vector(B)
    with fw.dual_level():
        dual = fw.make_dual(x, t)
        assert tangent(dual.detach()) is None
        assert tangent(dual.data) is None
        assert tangent(dual.detach() * dual) is not None
        equal(tangent(dual.detach() * dual), x * t)


def test_what_is_not_differentiable_has_no_tangent():
    with fw.dual_level():
        dual = fw.make_dual(vector(), vector(B))
        for actual in (dual > 1, dual.argmax(), dual.to(ag.int64), ag.zeros_like(dual), dual.sort()[1]):
            assert tangent(actual) is None
        assert tangent(dual.sort()[0]) is not None


def test_grad_modes_do_not_stop_forward_mode():
    x, t = vector(requires_grad=True), vector(B)
    with fw.dual_level():
        with ag.no_grad():
            dual = fw.make_dual(x, t)
            result = dual * dual
        equal(tangent(result), 2 * x.detach() * t)
        assert not result.requires_grad
        with ag.inference_mode():
            equal(tangent(fw.make_dual(vector(), t) * 2), 2 * t)


def test_forward_mode_can_be_disabled():
    x = vector()
    assert fw._is_fwd_grad_enabled()
    with fw.dual_level():
        dual = fw.make_dual(x, x.clone())
        with fw._set_fwd_grad_enabled(False):
            assert not fw._is_fwd_grad_enabled()
            off = dual * 2
            assert tangent(dual) is None
            packed = fw.make_dual(x, x)
        assert fw._is_fwd_grad_enabled()
        assert tangent(off) is None
        assert tangent(packed) is None
        assert tangent(dual) is not None

        @fw._set_fwd_grad_enabled(False)
        def double(x):
            return x * 2

        assert tangent(double(dual)) is None
        assert tangent(dual * 2) is not None
    flag = fw._set_fwd_grad_enabled(False)  # at the call, as in PyTorch
    assert not fw._is_fwd_grad_enabled()
    flag.__exit__(None, None, None)
    assert fw._is_fwd_grad_enabled()


# ---- with reverse mode -------------------------------------------------------------------------------


def test_forward_over_reverse():
    x, t = vector(requires_grad=True), vector(B)
    with fw.dual_level():
        dual = fw.make_dual(x, t)
        (g,) = ag.autograd.grad((dual ** 3).sum(), dual)
        equal(tangent(g), 6 * x.detach() * t)
        (g,) = ag.autograd.grad((fw.make_dual(x, t) ** 3).sum(), x)
        equal(tangent(g), 6 * x.detach() * t)


def test_forward_over_reverse_through_a_saved_output():
    x, t = vector(requires_grad=True), vector(B)
    with fw.dual_level():
        dual = fw.make_dual(x, t)
        (g,) = ag.autograd.grad(dual.exp().tanh().sum(), dual)
        result = tangent(g)
    point = vector(requires_grad=True)
    (first,) = ag.autograd.grad(point.exp().tanh().sum(), point, create_graph=True)
    equal(result, ag.autograd.grad((first * t).sum(), point)[0])


def test_backward_inside_of_a_level():
    x, t = vector(requires_grad=True), vector(B)
    with fw.dual_level():
        (fw.make_dual(x, t) ** 3).sum().backward()
        equal(x.grad.detach(), 3 * x.detach() ** 2)
        equal(tangent(x.grad), 6 * x.detach() * t)


def test_reverse_over_forward():
    x, t = vector(requires_grad=True), vector(B, requires_grad=True)
    with fw.dual_level():
        moved = tangent(fw.make_dual(x, t) ** 3)
        primal = fw.unpack_dual(fw.make_dual(x, t)).primal
    by_x, by_t = ag.autograd.grad(moved.sum(), (x, t))
    equal(by_x, 6 * x.detach() * t.detach())
    equal(by_t, 3 * x.detach() ** 2)
    equal(ag.autograd.grad(primal.sum(), x)[0], ag.ones(3, dtype=ag.float64))


def test_dual_of_a_leaf_is_no_leaf():
    x = vector(requires_grad=True)
    with fw.dual_level():
        dual = fw.make_dual(x, vector(B))
        assert dual.requires_grad
        assert not dual.is_leaf
        assert fw.unpack_dual(dual).primal.requires_grad
        assert not fw.make_dual(vector(), vector(B, requires_grad=True)).requires_grad


def test_graph_is_used_after_the_level():
    x = vector(requires_grad=True)
    with fw.dual_level():
        y = (fw.make_dual(x, vector(B)).exp() ** 2).sum()
    y.backward()
    equal(x.grad, 2 * (2 * x.detach()).exp())


def test_hooks_see_duals():
    x, t, seen = vector(requires_grad=True), vector(B), []
    with fw.dual_level():
        dual = fw.make_dual(x, t)
        y = dual ** 3
        y.register_hook(lambda g: g * 2)
        dual.register_hook(lambda g: seen.append(tangent(g)))
        ag.autograd.grad(y.sum(), x)
        equal(seen[0], 12 * x.detach() * t)


@pytest.mark.parametrize("create_graph", [False, True])
def test_saved_tensor_hooks(create_graph):
    x, t, packed = vector(requires_grad=True), vector(B), []
    with fw.dual_level():
        dual = fw.make_dual(x, t)
        with ag.autograd.graph.saved_tensors_hooks(lambda s: packed.append(s) or s, lambda s: s):
            y = (dual.exp() * dual).sum()
        (g,) = ag.autograd.grad(y, dual, create_graph=create_graph)
        equal(tangent(g), (x.detach() + 2) * x.detach().exp() * t)
    assert packed


def test_checkpoint():
    x, t = vector(requires_grad=True), vector(B)
    with fw.dual_level():
        dual = fw.make_dual(x, t)
        y = checkpoint(lambda x: x.sin() * x, dual, use_reentrant=False)
        equal(tangent(y), (x.sin() + x * x.cos()).detach() * t)
        (g,) = ag.autograd.grad(y.sum(), dual)
        equal(tangent(g), (2 * x.cos() - x * x.sin()).detach() * t)
        with pytest.raises(NotImplementedError, match="You must implement the jvp function"):
            checkpoint(ag.sin, dual, use_reentrant=True)


# ---- with function transforms ------------------------------------------------------------------------


def test_dual_level_inside_of_vmap():
    def slope(x, t):
        with fw.dual_level():
            primal, moved = fw.unpack_dual(fw.make_dual(x, t).sin())
            assert tangent(primal) is None
            return primal, moved

    x, t = vector(), vector(B)
    for dims in ((0, 0), (0, None), (None, 0)):
        u, v = (z if d == 0 else z[0] for z, d in zip((x, t), dims, strict=True))
        primal, moved = ag.func.vmap(slope, in_dims=dims)(u, v)
        equal(moved, u.cos() * v)
        equal(primal, u.sin() + 0 * x)


def test_vmap_inside_of_a_dual_level():
    def pack(x, t):
        dual = fw.make_dual(x, t)
        with pytest.raises(RuntimeError, match="already has a forward gradient"):
            fw.make_dual(dual, t)
        primal, moved = fw.unpack_dual(dual.exp())
        return dual.exp(), primal, moved

    x, t = vector(), vector(B)
    for dims in ((0, 0), (0, None), (None, 0)):
        u, v = (z if d == 0 else z[0] for z, d in zip((x, t), dims, strict=True))
        with fw.dual_level():
            result, primal, moved = ag.func.vmap(pack, in_dims=dims)(u, v)
            equal(moved, u.exp() * v)
            equal(tangent(result), u.exp() * v)
            assert tangent(primal) is None


def test_transforms_of_a_dual():
    x, t = vector(), vector(B)
    with fw.dual_level():
        dual = fw.make_dual(x, t)
        equal(tangent(ag.func.grad(lambda x: (x ** 3).sum())(dual)), 6 * x * t)
        equal(tangent(ag.func.vmap(lambda x: x * 2)(dual)), 2 * t)
        _, moved = ag.func.jvp(lambda x: x ** 3, (dual,), (x,))
        equal(tangent(moved), 6 * x * x * t)
        equal(tangent(ag.func.jacrev(ag.sin)(dual)), ag.diag(-x.sin() * t))


def test_dual_level_inside_of_jvp():
    def inner(x):
        with fw.dual_level():
            return fw.unpack_dual(fw.make_dual(x, vector(B)) ** 3)

    x = vector()
    (primal, moved), (primal_moved, twice) = ag.func.jvp(lambda x: tuple(inner(x)), (x,), (ag.ones_like(x),))
    equal(primal, x ** 3)
    equal(moved, 3 * x ** 2 * vector(B))
    equal(primal_moved, 3 * x ** 2)
    equal(twice, 6 * x * vector(B))


def test_dual_level_inside_of_grad():
    def inner(x):
        with fw.dual_level():
            return tangent(fw.make_dual(x, vector(B)) ** 3).sum()

    equal(ag.func.grad(inner)(vector()), 6 * vector() * vector(B))


def test_a_tensor_of_grad_inside_of_a_level_cannot_be_packed():
    def inner(x):
        return tangent(fw.make_dual(x, vector(B))).sum()

    with fw.dual_level(), pytest.raises(RuntimeError, match="enter the dual level inside of the function"):
        ag.func.grad(inner)(vector())
