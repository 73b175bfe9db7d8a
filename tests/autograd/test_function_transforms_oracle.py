"""Custom Functions inside of function transforms and dual levels, against PyTorch's."""

import pytest
from against_torch import both

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")


def vector(m, *values, **options):
    return m.tensor([float(v) for v in values], **options)


def cube(m):
    """x ** 3 and its derivative, with a vmap of its own."""

    class Cube(m.autograd.Function):
        @staticmethod
        def forward(x):
            return x ** 3, 3 * x ** 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(inputs[0], output[1])
            ctx.save_for_forward(inputs[0], output[1])

        @staticmethod
        def backward(ctx, g, h):
            x, slope = ctx.saved_tensors
            return g * slope + 6 * h * x

        @staticmethod
        def jvp(ctx, t):
            x, slope = ctx.saved_tensors
            return t * slope, 6 * t * x

        @staticmethod
        def vmap(info, in_dims, x):
            assert isinstance(info.batch_size, int)
            return Cube.apply(x), (in_dims[0], in_dims[0])

    return Cube.apply


def product(m):
    """x * y, batched by generate_vmap_rule."""

    class Product(m.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x, y):
            return x * y

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            needs = ctx.needs_input_grad
            return g * y if needs[0] else None, g * x if needs[1] else None

        @staticmethod
        def jvp(ctx, s, t):
            x, y = ctx.saved_tensors
            return s * y + x * t

    return Product.apply


def one(m, **methods):
    """A Function of the given static methods."""
    body = {name: value if name == "generate_vmap_rule" else staticmethod(value) for name, value in methods.items()}
    body.setdefault("setup_context", staticmethod(lambda ctx, inputs, output: None))
    return type("One", (m.autograd.Function,), body)


OF_ONE = {
    "grad": lambda f, F, x: F.grad(lambda x: f(x).sum())(x),
    "grad of grad": lambda f, F, x: F.grad(lambda x: F.grad(lambda x: f(x).sum())(x).sum())(x),
    "jvp": lambda f, F, x: F.jvp(f, (x,), (x,)),
    "jacrev": lambda f, F, x: F.jacrev(f)(x),
    "jacfwd": lambda f, F, x: F.jacfwd(f)(x),
    "vjp": lambda f, F, x: F.vjp(f, x)[1](x),
    "vmap": lambda f, F, x: F.vmap(f)(x),
    "vmap of grad": lambda f, F, x: F.vmap(F.grad(f))(x),
    "vmap of grad of grad": lambda f, F, x: F.vmap(F.grad(F.grad(f)))(x),
    "vmap of jvp": lambda f, F, x: F.vmap(lambda x: F.jvp(f, (x,), (x,)))(x),
    "jvp of vmap": lambda f, F, x: F.jvp(F.vmap(f), (x,), (x,)),
    "grad of vmap": lambda f, F, x: F.grad(lambda x: F.vmap(f)(x).sum())(x),
    "jvp of grad": lambda f, F, x: F.jvp(F.grad(lambda x: f(x).sum()), (x,), (x,)),
    "grad of jvp": lambda f, F, x: F.grad(lambda x: F.jvp(f, (x,), (x,))[1].sum())(x),
    "vmap of vmap": lambda f, F, x: F.vmap(F.vmap(f))(x.reshape(1, 3)),
    "other dimensions": lambda f, F, x: F.vmap(f, in_dims=1, out_dims=1)(x.reshape(1, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_ONE)
def test_a_function_with_a_vmap_of_its_own(name):
    def program(m):
        f = cube(m)
        return OF_ONE[name](lambda x: f(x)[0], m.func, vector(m, 1, 2, 3))

    both(program)


@pytest.mark.parametrize("name", OF_ONE)
def test_a_function_with_a_generated_rule(name):
    def program(m):
        f = product(m)
        return OF_ONE[name](lambda x: f(x, 2 * x), m.func, vector(m, 1, 2, 3))

    both(program)


OF_TWO = {
    "vmap": lambda f, F, x, y: F.vmap(f)(x, y),
    "vmap of one": lambda f, F, x, y: (F.vmap(f, (0, None))(x, y), F.vmap(f, (None, 0))(x, y)),
    "vmap of vmap": lambda f, F, x, y: F.vmap(F.vmap(f, (None, 0)), (0, None))(x, y),
    "vmap of grad": lambda f, F, x, y: F.vmap(F.grad(lambda x, y: f(x, y).sum(), (0, 1)))(x, y),
    "grad of vmap": lambda f, F, x, y: F.grad(lambda x, y: F.vmap(f, (0, None))(x, y).sum(), (0, 1))(x, y),
    "jacrev": lambda f, F, x, y: F.jacrev(f, (0, 1))(x, y),
    "jacfwd": lambda f, F, x, y: F.jacfwd(f, (0, 1))(x, y),
    "hessian": lambda f, F, x, y: F.hessian(lambda x, y: f(x, y).sum(), (0, 1))(x, y),
    "jacrev of jacrev": lambda f, F, x, y: F.jacrev(F.jacrev(f), 1)(x, y),
    "jvp": lambda f, F, x, y: F.jvp(f, (x, y), (y, x)),
    "jvp of one": lambda f, F, x, y: F.jvp(lambda x: f(x, y), (x,), (y,)),
    "unused": lambda f, F, x, y: (F.jacrev(lambda x, y: f(x, x), (0, 1))(x, y),
                                  F.jacfwd(lambda x, y: f(x, x), (0, 1))(x, y)),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_TWO)
def test_a_generated_rule_of_two_arguments(name):
    both(lambda m: OF_TWO[name](product(m), m.func, vector(m, 1, 2, 3), vector(m, 4, 5, 6)))


def test_gradients_of_unbatched_inputs_are_summed():
    def program(m):
        w = vector(m, 1, 2, requires_grad=True)
        m.func.vmap(product(m), in_dims=(0, None))(2 * m.ones(3, 2), w).sum().backward()
        return w.grad

    both(program)


def test_arguments_that_are_no_tensors_and_outputs_without_derivative():
    def program(m):
        def set_up(ctx, inputs, output):
            ctx.factor = inputs[1]
            ctx.mark_non_differentiable(output[1])

        f = one(m, forward=lambda x, factor, y: (x * factor, y.sum(), 3), setup_context=set_up,
                backward=lambda ctx, g, h, _: (g * ctx.factor, None, None), generate_vmap_rule=True).apply
        x, y, F = vector(m, 1, 2, 3), m.ones(3, 2), m.func
        return (F.vmap(lambda x, y: f(x, 2.0, y)[:2])(x, y),
                F.vmap(F.grad(lambda x, y: f(x, 2.0, y)[0], (0, 1)))(x, y))

    both(program)


def test_mark_non_differentiable():
    def program(m):
        seen = []
        f = one(m, forward=lambda x: (x * 2, x * 5, x > 1),
                setup_context=lambda ctx, inputs, output: ctx.mark_non_differentiable(*output[1:]),
                backward=lambda ctx, g, h, b: seen.append(h) or g * 2, jvp=lambda ctx, t: (t * 2, None, None)).apply
        x, F = vector(m, 1, 2), m.func

        def total(x):
            first, second, third = f(x)
            return (first * second * third).sum()

        return F.grad(total)(x), F.grad(lambda x: F.grad(total)(x).sum())(x), F.jvp(total, (x,), (x,)), seen

    both(program)


def test_set_materialize_grads():
    def program(m):
        seen = []

        def backward(ctx, g, h):
            seen.append((g is None, h is None))
            return (0 if g is None else 2 * g) + (0 if h is None else 3 * h)

        f = one(m, forward=lambda x: (x * 2, x * 3), backward=backward,
                setup_context=lambda ctx, inputs, output: ctx.set_materialize_grads(False)).apply
        x, F = vector(m, 1, 2), m.func
        return F.grad(lambda x: f(x)[0].sum())(x), F.vjp(lambda x: f(x)[1], x)[1](x), seen

    both(program)


def test_gradients_of_none():
    def program(m):
        def set_up(ctx, inputs, output):
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(*inputs)

        def backward(ctx, g, h):
            assert h is None
            return g * ctx.saved_tensors[1], None

        f = one(m, forward=lambda x, y: (x * y, x + y), setup_context=set_up, backward=backward,
                generate_vmap_rule=True).apply
        x, F = vector(m, 1, 2), m.func
        return (F.vmap(F.grad(lambda x, y: f(x, y)[0], (0, 1)))(x, x),
                F.grad(lambda x, y: F.vmap(f)(x, y)[0].sum(), (0, 1))(x, x))

    both(program)


def test_returned_input():
    def program(m):
        f = one(m, forward=lambda x: x, backward=lambda ctx, g: g * 5, jvp=lambda ctx, t: t * 5,
                vmap=lambda info, in_dims, x: (x, in_dims[0])).apply
        x, F = vector(m, 1, 2), m.func
        return F.grad(lambda x: (f(x) ** 2).sum())(x), F.jvp(f, (x,), (x,)), F.vmap(f)(x)

    both(program)


def test_written_input():
    def program(m):
        f = one(m, forward=lambda x: x.mul_(2), backward=lambda ctx, g: g * 2,
                setup_context=lambda ctx, inputs, output: ctx.mark_dirty(inputs[0])).apply
        x, F = vector(m, 1, 2), m.func
        first = F.grad(lambda x: (f(x.clone()) ** 2).sum())
        return first(x), F.grad(lambda x: first(x).sum())(x)

    both(program)


def test_attributes_of_ctx():
    def program(m):
        def set_up(ctx, inputs, output):
            ctx.x, ctx.factor = inputs
            ctx.save_for_backward(None, inputs[0])

        def backward(ctx, g):
            nothing, x = ctx.saved_tensors
            assert nothing is None
            return g * ctx.factor * x * ctx.x, None

        f = one(m, forward=lambda x, factor: x * factor, setup_context=set_up, backward=backward,
                generate_vmap_rule=True).apply
        x, F = vector(m, 1, 2), m.func
        return F.grad(lambda x: f(x, 3.0).sum())(x), F.vmap(F.grad(lambda x: f(x, 3.0)))(x)

    both(program)


RULES = {
    "no dimension": lambda x: (x.sum(), None),
    "negative dimension": lambda x: (x.unsqueeze(0), -1),
    "one dimension for two outputs": lambda x: ((x, x + 1), 0),
    "two dimensions": lambda x: ((x, x.sum()), (0, None)),
}


@pytest.mark.parametrize("name", RULES)
def test_results_of_vmap(name):
    rule = RULES[name]
    both(lambda m: m.func.vmap(one(m, forward=lambda x: x, vmap=lambda info, dims, x: rule(x)).apply)(vector(m, 1, 2)))


def test_arguments_of_vmap():
    def program(m):
        seen = []

        def rule(info, in_dims, *values):
            seen.append((info.batch_size, info.randomness, in_dims, [getattr(x, "ndim", x) for x in values]))
            return values[0], in_dims[0]

        f = one(m, forward=lambda *x: x[0], vmap=rule).apply
        m.func.vmap(f, in_dims=(0, None, 0), randomness="different")(m.ones(3, 2), m.ones(4), m.ones(3, 5))
        m.func.vmap(lambda x: f(x, 2.0, None, "name"))(m.ones(3))
        return [[n, randomness, list(dims), dimensions] for n, randomness, dims, dimensions in seen]

    both(program)


def test_nested_arguments_of_vmap():
    def program(m):
        seen = []

        def rule(info, in_dims, x, pair, more):
            seen.append((in_dims, [y.ndim for y in (x, pair[0], more["y"][0])]))
            return x + pair[0] * more["y"][0], 0

        f = one(m, forward=lambda x, pair, more: x, vmap=rule).apply
        out = m.func.vmap(lambda x: f(x, (x, 3.0), {"y": [x, "name"]}))(vector(m, 1, 2))
        only_nested = m.func.vmap(lambda x: f(m.ones(2), (x, 3.0), {"y": [x, "name"]}))(vector(m, 1, 2))
        return out, only_nested, repr(seen).replace(" ", "")

    both(program)


def packed(m, *values):
    return m.autograd.forward_ad.make_dual(vector(m, *values), vector(m, 3, 4))


def test_dual_level_and_a_forward_that_takes_ctx():
    def program(m):
        def forward(ctx, x, y, factor):
            ctx.save_for_forward(x)
            ctx.factor = factor
            return x * y * factor

        class F(m.autograd.Function):
            @staticmethod
            def jvp(ctx, s, t, _):
                (x,) = ctx.saved_tensors
                return s * ctx.factor + t * x * ctx.factor

        F.forward = staticmethod(forward)
        with m.autograd.forward_ad.dual_level():
            return m.autograd.forward_ad.unpack_dual(F.apply(packed(m, 1, 2), m.ones(2), 3.0))[1]

    both(program)


def test_dual_level_sets_up_once():
    def program(m):
        calls, fw = [], m.autograd.forward_ad

        def set_up(ctx, inputs, output):
            calls.append(list(ctx.needs_input_grad))
            ctx.save_for_forward(*inputs)
            ctx.save_for_backward(output)

        f = one(m, forward=lambda x: x * 2, setup_context=set_up, backward=lambda ctx, g: g * ctx.saved_tensors[0],
                jvp=lambda ctx, t: t * ctx.saved_tensors[0]).apply
        x = vector(m, 1, 2, requires_grad=True)
        with fw.dual_level():
            y = f(fw.make_dual(x, vector(m, 3, 4)))
            (g,) = m.autograd.grad(y.sum(), x)
            return fw.unpack_dual(y)[1], g, fw.unpack_dual(g)[1], calls

    both(program)


def test_save_for_forward_does_not_change_backward():
    def program(m):
        def set_up(ctx, inputs, output):
            ctx.save_for_forward(inputs[0] * 100)
            ctx.save_for_backward(*inputs)

        f = one(m, forward=lambda x: x ** 2, setup_context=set_up,
                backward=lambda ctx, g: 2 * g * ctx.saved_tensors[0]).apply
        x = vector(m, 1, 2, requires_grad=True)
        f(x).sum().backward()
        return x.grad

    both(program)


def test_tangents_that_jvp_gets():
    def program(m):
        seen = []
        f = one(m, forward=lambda x, i, y: x * 2, jvp=lambda ctx, *t: seen.append([x is None for x in t]) or t[0]).apply
        with m.autograd.forward_ad.dual_level():
            f(packed(m, 1, 2), m.tensor([1, 2]), m.ones(2))
            f(packed(m, 1, 2), 2, "name")
        return seen

    both(program)


SHARED = {  # what jvp makes of the tangent
    "view": lambda t: t.view_as(t), "no view": lambda t: t * 2, "view as it is": lambda t: t,
    "view of another": lambda t: t.clone().view_as(t), "in place": lambda t: t.mul_(2), "not in place": lambda t: t * 2,
    "in place, unchanged": lambda t: t, "in place, another": lambda t: t.mul_(2).clone(),
}  # fmt: skip


@pytest.mark.parametrize("part", [False, True])
@pytest.mark.parametrize("name", SHARED)
def test_dual_level_and_shared_memory(name, part):
    def program(m):
        def forward(ctx, x):
            if "view" in name:
                return x.view_as(x)
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        class F(m.autograd.Function):
            @staticmethod
            def jvp(ctx, t):
                return SHARED[name](t)

        F.forward = staticmethod(forward)
        with m.autograd.forward_ad.dual_level():
            dual = packed(m, 1, 2)
            dual = dual[:] if part else dual  # its tangent is a view, too
            out = F.apply(dual)
            return (out is dual, *m.autograd.forward_ad.unpack_dual(out))

    both(program)


def test_jvp_does_not_read_what_is_saved_for_backward():
    def program(m):
        read = []
        f = one(m, forward=lambda x: x * 2, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
                jvp=lambda ctx, t: read.append(ctx.saved_tensors) or t * 2,
                backward=lambda ctx, g: read.append(ctx.saved_tensors) or g * 2).apply
        x = vector(m, 1, 2, requires_grad=True)
        with m.autograd.forward_ad.dual_level():
            f(m.autograd.forward_ad.make_dual(x, vector(m, 3, 4))).sum().backward()
        m.func.jvp(f, (x,), (x,))
        return read

    both(program)
