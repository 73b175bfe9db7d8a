"""Custom Functions inside of function transforms: what setup_context, vmap and jvp are asked for, and errors."""

import gc
import weakref

import pytest
from custom_functions import Double

import autograd_gpu as ag
from autograd_gpu.autograd import Function, forward_ad, graph, once_differentiable
from autograd_gpu.func import grad, jvp, vmap


def one(**methods):
    """A Function of the given static methods."""
    body = {name: value if name == "generate_vmap_rule" else staticmethod(value) for name, value in methods.items()}
    return type("One", (Function,), {"setup_context": staticmethod(lambda ctx, inputs, output: None), **body})


def x():
    return ag.tensor([1.0, 2.0])


def double(x):
    return x * 2


def test_every_level_has_a_ctx_of_its_own():
    log = []

    def set_up(ctx, inputs, output):
        log.append("setup")
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    f = one(
        forward=lambda x: log.append("forward") or x.sin(), setup_context=set_up,
        backward=lambda ctx, g: log.append("backward") or g * ctx.saved_tensors[0].cos(),
        jvp=lambda ctx, t: log.append("jvp") or t * ctx.saved_tensors[0].cos(),
    ).apply
    _, second = jvp(grad(lambda x: f(x).sum()), (x(),), (ag.ones(2),))
    assert ag.allclose(second, -x().sin())
    assert [log.count(name) for name in ("forward", "jvp", "backward")] == [1, 1, 1]
    assert log.count("setup") == 3  # the graph, jvp and grad


def test_vjp_is_another_name_of_backward():
    f = one(forward=double, vjp=lambda ctx, g: g * 2, generate_vmap_rule=True).apply
    assert grad(lambda x: vmap(f)(x).sum())(x()).tolist() == [2, 2]


def test_needs_input_grad_in_a_batch():
    seen = []

    def backward(ctx, g):
        seen.append(ctx.needs_input_grad)
        return g, None

    f = one(forward=lambda x, y: x * 1, backward=backward, generate_vmap_rule=True).apply
    grad(lambda v: vmap(f)(v, x()).sum())(x())
    assert seen == [(True, False)]


def test_gradients_that_broadcast_are_summed_in_each_example():
    f = one(
        forward=lambda x, y: x * y, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
        backward=lambda ctx, g: (g * ctx.saved_tensors[1], g * ctx.saved_tensors[0]), generate_vmap_rule=True,
    ).apply
    y = ag.tensor([3.0, 4.0])
    by_x, by_y = grad(lambda x, y: vmap(f, (0, None))(x, y).sum(), (0, 1))(x(), y)
    assert by_x.tolist() == [7, 7]  # each example: the sum of y
    assert by_y.tolist() == [3, 3]


def test_generated_rules_are_made_once():
    f = one(forward=double, backward=lambda ctx, g: g * 2, generate_vmap_rule=True)
    made = []
    for _ in range(2):
        vmap(f.apply)(x())
        made.append(f._batched_form)
    assert made[0] is made[1]


def test_what_is_saved_for_forward_is_freed():
    gc.disable()
    try:
        kept = []

        def set_up(ctx, inputs, output):
            ctx.save_for_forward(output)
            kept.append(weakref.ref(output))

        f = one(forward=double, setup_context=set_up, backward=lambda ctx, g: g, jvp=lambda ctx, t: t * 2).apply
        f(x().requires_grad_())
        assert kept[0]() is None
        with forward_ad.dual_level():
            f(forward_ad.make_dual(x().requires_grad_(), x()))
            assert kept[1]() is None
    finally:
        gc.enable()


def old_style():
    class Old(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

        @staticmethod
        def jvp(ctx, t):
            return t * 2

    return Old.apply


def test_a_forward_that_takes_ctx_is_refused_inside_of_transforms():
    message = "must override the setup_context staticmethod.*split it into forward.*and setup_context"
    f = old_style()
    with pytest.raises(RuntimeError, match=message):
        vmap(f)(x())
    with pytest.raises(RuntimeError, match=message):
        jvp(f, (x(),), (x(),))
    with pytest.raises(RuntimeError, match=message):
        vmap(grad(f))(x())


def test_a_forward_that_takes_ctx_where_a_transform_is_the_plain_graph():
    assert grad(lambda x: old_style()(x).sum())(x()).tolist() == [2, 2]
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x(), x())
        assert forward_ad.unpack_dual(old_style()(dual)).tangent.tolist() == [2, 4]


def test_once_differentiable():
    f = one(
        forward=lambda x: x ** 2, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
        backward=once_differentiable(lambda ctx, g: 2 * g * ctx.saved_tensors[0]),
    ).apply
    first = grad(lambda x: f(x).sum())
    assert first(x()).tolist() == [2, 4]
    with pytest.raises(RuntimeError, match="trying to differentiate twice"):
        grad(lambda x: first(x).sum())(x())


def test_tangents_are_zeros_or_none():
    seen = []

    def f(materialize):
        return one(
            forward=lambda x, y, k: (x * 2, x * 3),
            setup_context=lambda ctx, inputs, output: ctx.set_materialize_grads(materialize),
            jvp=lambda ctx, s, t, _: seen.append(t is None) or (s * 2, None),
        ).apply

    for function in (f(True), f(False)):
        _, moved = jvp(lambda x, function=function: function(x, ag.ones(1), 3), (x(),), (x(),))
        assert [t.tolist() for t in moved] == [[2, 4], [0, 0]]
    assert seen == [False, True]


FAILURES = {
    "no vmap": ({"forward": double}, "You tried to vmap over One, but it does not have vmap support. Please override "
                "and implement the vmap staticmethod or set generate_vmap_rule=True"),
    "both": ({"forward": double, "vmap": lambda info, dims, x: (x, 0), "generate_vmap_rule": True},
             "has both generate_vmap_rule=True and an overridden vmap staticmethod"),
    "no pair": ({"forward": double, "vmap": lambda info, dims, x: x},
                "Expected the vmap staticmethod to have two returns, an output and out_dims .* Got a <class"),
    "three": ({"forward": double, "vmap": lambda info, dims, x: (x, 0, 0)}, "Got 3 returns instead"),
    "too many dims": ({"forward": double, "vmap": lambda info, dims, x: ((x, x), (0, 0, 0))},
                      r"incompatible \(output, out_dims\) tuple. Expected out_dims=\(0, 0, 0\)"),
    "dims for one": ({"forward": double, "vmap": lambda info, dims, x: (x, (0, 0))},
                     r"incompatible \(output, out_dims\) tuple"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAILURES)
def test_errors_of_vmap(name):
    methods, message = FAILURES[name]
    with pytest.raises(RuntimeError, match=message):
        vmap(one(**methods).apply)(x())


def test_nested_arguments_have_no_generated_rule():
    f = one(forward=lambda pair: pair[0], generate_vmap_rule=True).apply
    with pytest.raises(RuntimeError, match="takes batched tensors only as arguments, not in a tuple"):
        vmap(lambda x: f((x, 1)))(x())


WRONG = {
    "missing": (None, NotImplementedError, "You must implement the jvp function for custom autograd.Function"),
    "count": (lambda ctx, t: (t, t), RuntimeError, r"invalid number of forward gradients \(expected 1 but got 2\)"),
    "shape": (lambda ctx, t: t[0], RuntimeError, r"Tensor is of size \[2\] while the given forward gradient is of size "
                                                 r"\[\]"),
    "type": (lambda ctx, t: 3, TypeError, r"expected Variable or None \(got int\) for grad output 0"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_errors_of_jvp(name):
    rule, kind, message = WRONG[name]
    f = one(forward=double, **({} if rule is None else {"jvp": rule})).apply
    with pytest.raises(kind, match=message):
        jvp(f, (x(),), (x(),))
    with forward_ad.dual_level(), pytest.raises(kind, match=message):
        f(forward_ad.make_dual(x(), x()))


def test_a_tangent_of_what_is_not_differentiable():
    f = one(
        forward=lambda x: (x * 2, x * 5), jvp=lambda ctx, t: (t * 2, t * 5),
        setup_context=lambda ctx, inputs, output: ctx.mark_non_differentiable(output[1]),
    ).apply
    with pytest.raises(RuntimeError, match="jvp returned a gradient at position 1, but the corresponding"):
        jvp(f, (x(),), (x(),))
    with forward_ad.dual_level(), pytest.raises(RuntimeError, match="returned a gradient at position 1"):
        f(forward_ad.make_dual(x(), x()))


def test_a_jvp_that_writes_to_the_array_increments_the_version():
    def forward(ctx, x):
        ctx.mark_dirty(x)
        x.array[...] *= 2
        return x

    def jvp(ctx, t):
        t.array[...] *= 2
        if counted:
            graph.increment_version(t)
        return t

    class Double(Function):
        pass

    Double.forward, Double.jvp = staticmethod(forward), staticmethod(jvp)
    with forward_ad.dual_level():
        counted = False
        with pytest.raises(RuntimeError, match=r"must modify .* after a write to its array it calls graph.increment_"):
            Double.apply(forward_ad.make_dual(x(), x()))
        counted = True
        assert forward_ad.unpack_dual(Double.apply(forward_ad.make_dual(x(), x()))).tangent.tolist() == [2, 4]


def test_a_jvp_in_place_in_inference_mode():
    with ag.inference_mode(), forward_ad.dual_level():
        assert forward_ad.unpack_dual(Double.apply(forward_ad.make_dual(x(), x()))).tangent.tolist() == [2, 4]


@pytest.mark.parametrize("batched", [False, True])
def test_errors_of_backward(batched):
    def run(**methods):
        f = one(forward=double, generate_vmap_rule=True, **methods).apply
        return grad(lambda x: (vmap(f) if batched else f)(x.reshape(1, 2)).sum())(x())

    with pytest.raises(NotImplementedError, match="You must implement either the backward or vjp method"):
        run()
    with pytest.raises(RuntimeError, match="returned an incorrect number of gradients"):
        run(backward=lambda ctx, g: (g, g))
    with pytest.raises(RuntimeError, match="returned an invalid gradient at index 0"):
        run(backward=lambda ctx, g: ag.ones(3))
    assert run(backward=lambda ctx, g: None).tolist() == [0, 0]


def test_linearize_refuses_a_function():
    with pytest.raises(RuntimeError, match="linearize cannot keep a call of the custom Function One"):
        ag.func.linearize(one(forward=double, jvp=lambda ctx, t: t * 2).apply, x())
