"""grad, grad_and_value and vjp: structures, aux, captured tensors, grad mode, views, and what they refuse."""

from collections import namedtuple
from functools import partial

import numpy as np
import pytest
from func_programs import agree, compared, normal, refused_by_both

import autograd_gpu as ag

Point = namedtuple("Point", "x y")


def total(m, tree):
    """A number that depends on all leaves of a tree, differently on each."""
    if isinstance(tree, m.Tensor):
        return (tree * tree).sin().sum()
    parts = tree.values() if isinstance(tree, dict) else tree
    return sum((k + 1) * total(m, part) for k, part in enumerate(parts))


# ---- grad ----------------------------------------------------------------------------------------------


@compared
def test_a_function_of_the_library(m):
    return m.func.grad(m.sin)(normal(m)), m.func.grad_and_value(m.exp)(normal(m))


@compared
def test_a_composite_function(m):
    def f(x):
        y = x.sin()
        z = m.cat([y, x * 2])
        return (z.reshape(2, -1).t() @ m.ones(2, dtype=m.float64)).tanh().sum()

    return m.func.grad(f)(normal(m, 4))


@compared
def test_keyword_arguments_are_passed_on(m):
    return m.func.grad(lambda x, *, y, k=1: (x * y * k).sum())(normal(m, 2), y=normal(m, 2), k=3)


@compared
def test_gradients_have_the_dtype_of_their_argument(m):
    x, y = normal(m, 2, dtype="float32"), normal(m, 2)
    return m.func.grad(lambda x, y: (x * y).sum(), (0, 1))(x, y)


ARGNUMS = [0, 1, 2, -1, -3, (0,), (1, 0), (0, 2), (-1, 0), (0, 1, 2)]


@pytest.mark.parametrize("argnums", ARGNUMS, ids=str)
def test_argnums(argnums):
    def program(m):
        args = normal(m, 2), normal(m, 2, seed=1), normal(m, 2, seed=2)
        return m.func.grad(lambda x, y, z: (x * y.sin() * z).sum(), argnums)(*args)

    agree(program)


@compared
def test_arguments_of_any_structure(m):
    tree = {"a": normal(m, 2), "b": (normal(m, 3), [normal(m)])}
    both = m.func.grad(lambda t, u: total(m, t) * total(m, u), (0, 1))(tree, [normal(m, 2)])
    point = m.func.grad(lambda p: total(m, p))(Point(normal(m, 2), normal(m, 3)))
    assert type(point) is Point
    return m.func.grad(lambda t: total(m, t))(tree), both, tuple(point)


@compared
def test_aux(m):
    def f(x):
        y = x.sin()
        return y.sum(), {"y": y, "rest": [x * 2, y.sum()]}

    x = normal(m, 3)
    return m.func.grad(f, has_aux=True)(x), m.func.grad_and_value(f, has_aux=True)(x), m.func.grad(
        lambda x: (x.sum(), x), has_aux=True)(x)


def test_aux_that_is_no_tensor():
    """PyTorch refuses it."""
    result = ag.func.grad(lambda x: (x.sum(), ["text", 3, None]), has_aux=True)(ag.ones(2))
    assert result[1] == ["text", 3, None]


def test_aux_and_value_have_no_history_of_the_level():
    _, (value, aux) = ag.func.grad_and_value(lambda x: (x.sum(), x * 2), has_aux=True)(ag.ones(2))
    assert not value.requires_grad
    assert not aux.requires_grad


@compared
def test_an_argument_without_influence_gets_zeros(m):
    x, y = normal(m, 2, 3), normal(m, 2)
    grad = m.func.grad
    return (grad(lambda x: normal(m, 2).sum())(x), grad(lambda x, y: y.sum(), (0, 1))(x, y),
            grad(grad(lambda x: x.sum()))(normal(m)), grad(lambda x: x.detach().sum())(x))


@compared
def test_the_same_tensor_twice(m):
    x = normal(m, 2)
    return m.func.grad(lambda a, b: (a * a * b).sum(), (0, 1))(x, x), m.func.grad(lambda t: (t[0] * t[1]).sum())((x, x))


@compared
def test_views_as_arguments(m):
    x = normal(m, 3, 4)
    grad = m.func.grad(lambda v: (v * v).sum())
    return grad(x[0]), grad(x.t()), grad(x[:, ::2]), grad(x[0].expand(2, 4)), grad(x.reshape(-1)[2:])


@compared
def test_views_inside(m):
    def f(x):
        row, other = x[0], x.t()[1]
        return (row * 2).sum() * other.view(3, 1).sum() + x.reshape(-1)[::2].prod()

    return m.func.grad(f)(normal(m, 3, 4))


@compared
def test_a_partial(m):
    return m.func.grad(partial(lambda k, x: (k * x).sum(), 3.0))(normal(m, 2))


@compared
def test_empty_tensors(m):
    return m.func.grad(lambda x: (x * x).sum())(normal(m, 0, 2)), m.func.grad_and_value(lambda x: x.sum())(normal(m, 0))


# ---- captured tensors ----------------------------------------------------------------------------------


@compared
def test_the_argument_used_from_outside_is_a_constant(m):
    x = normal(m)
    return m.func.grad(lambda y: x * y)(x), m.func.grad(lambda y: m.func.grad(lambda z: y * z * x)(x))(x)


@compared
def test_perturbation_confusion(m):
    grad, x = m.func.grad, normal(m)
    inner = grad(lambda x: x * grad(lambda y: x + y)(m.ones((), dtype=m.float64)))(x)
    return inner, grad(lambda x: x * grad(lambda y: x * y * y)(x))(x), grad(lambda x: grad(lambda y: x)(x) + x * x)(x)


@compared
def test_captured_tensors_keep_their_history(m):
    w = normal(m, 2, seed=3).requires_grad_()
    result, value = m.func.grad_and_value(lambda x: (x * w).sin().sum())(normal(m, 2))
    return result, m.autograd.grad(result.sum() + value, w), result.requires_grad, value.requires_grad


@compared
def test_arguments_with_a_history(m):
    x = normal(m, 2).requires_grad_()
    y = x * 2
    result = m.func.grad(lambda y: (y ** 3).sum())(y)
    return result, m.autograd.grad(result.sum(), x), result.requires_grad


@compared
def test_nothing_is_recorded_where_nothing_requires_grad(m):
    grads, value = m.func.grad_and_value(lambda x: x.exp().sum())(normal(m, 2))
    nested = m.func.grad(m.func.grad(m.sin))(normal(m))
    out, pull = m.func.vjp(m.sin, normal(m, 2))
    return [t.requires_grad for t in (grads, value, nested, out, pull(out)[0])]


@compared
def test_gradients_of_leaves_are_not_touched(m):
    w = normal(m, 2).requires_grad_()
    m.func.grad(lambda x: (x * w).sum())(normal(m, 2))
    m.func.grad(lambda w: (w * w).sum())(w)
    return w.grad is None


# ---- grad mode -----------------------------------------------------------------------------------------


def cubed_but_constant(m, x):
    with m.no_grad():
        shift = x ** 3
    return x ** 3 - shift


@compared
def test_no_grad_outside(m):
    x = normal(m).requires_grad_()
    with m.no_grad():
        result = m.func.grad(m.sin)(x)
        nested = m.func.grad(m.func.grad(m.sin))(x)
    return result, nested, result.requires_grad, nested.requires_grad


@compared
def test_no_grad_inside(m):
    x, f = normal(m).requires_grad_(), partial(cubed_but_constant, m)
    grad = m.func.grad
    first = grad(f)(x)
    return first, grad(grad(f))(x), m.autograd.grad(first, x), m.autograd.grad(f(x), x)


@compared
def test_no_grad_inside_and_outside(m):
    x = normal(m).requires_grad_()
    with m.no_grad():
        result = m.func.grad(partial(cubed_but_constant, m))(x)
    return result, result.requires_grad


@compared
def test_no_grad_around_an_inner_grad_concerns_the_outer_level_only(m):
    def h(x):
        with m.no_grad():
            shift = m.func.grad(lambda x: 0.25 * x ** 4)(x)
        return x ** 3 - shift

    x = normal(m).requires_grad_()
    result = m.func.grad(h)(x)
    return result, m.autograd.grad(result, x)


@compared
def test_no_grad_between_levels(m):
    f = partial(cubed_but_constant, m)

    def g(x):
        first = m.func.grad(f)(x)
        with m.no_grad():
            shift = m.func.grad(f)(x)
        return first - shift

    x = normal(m).requires_grad_()
    result = m.func.grad(g)(x)
    return result, m.autograd.grad(result, x)


@compared
def test_no_grad_around_grad_and_value_inside(m):
    def h(x):
        with m.no_grad():
            _, value = m.func.grad_and_value(lambda x: x ** 3)(x)
        return x ** 3 - value

    x = normal(m).requires_grad_()
    result = m.func.grad(h)(x)
    return result, m.autograd.grad(result, x)


@compared
def test_no_grad_inside_of_vmap_and_jvp(m):
    f, x = partial(cubed_but_constant, m), normal(m, 3)
    return m.func.vmap(m.func.grad(f))(x), m.func.vmap(m.func.grad(m.func.grad(f)))(x), m.func.jvp(
        m.func.vmap(m.func.grad(f)), (x,), (x,)), m.func.grad(lambda x: m.func.jvp(f, (x,), (x,))[1].sum())(x)


@compared
def test_enable_grad_inside_of_no_grad(m):
    def f(x):
        with m.no_grad():
            with m.enable_grad():
                y = x * x
            return y * x

    x = normal(m)
    return m.func.grad(lambda x: f(x) + x)(x), m.func.vmap(m.func.grad(lambda x: f(x) + x))(normal(m, 2))


@compared
def test_no_grad_around_vjp(m):
    x, v = normal(m).requires_grad_(), normal(m)
    with m.no_grad():
        y, pull = m.func.vjp(lambda x: x ** 2, x)
        (result,) = pull(v)
    return y, result, y.requires_grad, result.requires_grad


@compared
def test_no_grad_around_the_function_of_vjp(m):
    x, v = normal(m).requires_grad_(), normal(m)
    y, pull = m.func.vjp(lambda x: x ** 2, x)
    with m.no_grad():
        (result,) = pull(v)
    return result, m.autograd.grad(y, x), y.requires_grad, result.requires_grad


@compared
def test_no_grad_around_the_function_of_vjp_in_a_level(m):
    def f(x):
        _, pull = m.func.vjp(lambda y: y ** 3, x)
        with m.no_grad():
            (result,) = pull(x)
        return (result * x).sum()

    x = normal(m, 3)
    return m.func.grad(f)(x), m.func.vmap(m.func.grad(f))(normal(m, 2, 3)), m.func.jvp(f, (x,), (x,))


@compared
def test_no_grad_hides_from_all_levels(m):
    w = normal(m, 3).requires_grad_()

    def f(x):
        with m.no_grad():
            hidden = x ** 2 * w
        return (hidden * x).sum()

    def twice(x):
        return m.func.grad(lambda x: m.func.grad(f)(x).sum())(x)

    result = m.func.vmap(m.func.grad(f))(normal(m, 2, 3))
    return twice(normal(m, 3)), m.func.vmap(twice)(normal(m, 2, 3)), result.detach(), result.requires_grad


def test_inference_mode():
    x = ag.ones(2)
    with ag.inference_mode():
        assert ag.func.grad(lambda x: (x ** 3).sum())(x).tolist() == [3, 3]
        assert ag.func.vmap(ag.func.grad(lambda x: x ** 3))(x).tolist() == [3, 3]
        assert ag.func.jacrev(lambda x: x ** 3)(x).tolist() == [[3, 0], [0, 3]]


@compared
def test_what_is_saved_in_inference_mode(m):
    def f(x, w):
        y = x * 2
        y.mul_(x)
        return (y * w).sin().sum()

    x, g = normal(m, 2, 3), m.func.grad(f)
    with m.inference_mode():
        y = x * 2
        hessians = [g(x, x), g(y, y), m.func.vmap(g)(x, y), m.func.hessian(f)(y, x), m.func.jvp(g, (x, y), (y, x))]
        hessians += [m.func.vjp(m.exp, y)[1](x), m.func.jacrev(m.exp)(y)]
    return hessians, g(y, x), m.func.vmap(g)(y, y), m.func.jvp(g, (y, x), (x, y))


# ---- vjp -----------------------------------------------------------------------------------------------


@compared
def test_vjp(m):
    out, pull = m.func.vjp(lambda x, y: (x * y).sin(), normal(m, 3), normal(m, 2, 3))
    rows = normal(m, 2, 3, seed=5)
    return out, pull(rows), pull(rows * 2)


@compared
def test_vjp_of_trees(m):
    def f(a, b):
        return {"s": a["x"] * b[0], "t": [a["y"].sum(), b[0]]}

    out, pull = m.func.vjp(f, {"x": normal(m, 2), "y": normal(m, 3)}, (normal(m, 2, seed=1),))
    return out, pull(out), m.func.vjp(lambda x: (x, x * 2), normal(m, 2))[1]((normal(m, 2), normal(m, 2)))


@compared
def test_cotangents_of_a_tuple_may_be_given_as_arguments(m):
    _, pull = m.func.vjp(lambda x: (x.sin(), x * 2), normal(m, 2))
    return pull((normal(m, 2), normal(m, 2)))


@compared
def test_vjp_with_aux(m):
    out, pull, aux = m.func.vjp(lambda x: (x.sin(), [x * 2]), normal(m, 2), has_aux=True)
    return out, aux, pull(out), aux[0].requires_grad


@compared
def test_vjp_of_outputs_without_influence(m):
    x, y = normal(m, 2), normal(m, 2, seed=1)
    _, pull = m.func.vjp(lambda x, y: (y * 2, normal(m, 3)), x, y)
    return pull((y, normal(m, 3))), m.func.vjp(lambda x: y, x)[1](y), m.func.vjp(lambda x: x, x)[1](y)


@compared
def test_cotangents_can_be_differentiated(m):
    v, x = normal(m, 2).requires_grad_(), normal(m, 2)
    _, pull = m.func.vjp(m.sin, x)
    (result,) = pull(v)
    return m.autograd.grad(result.sum(), v), m.func.grad(lambda v: pull(v)[0].sum())(normal(m, 2))


@compared
def test_vjp_under_vmap_and_jvp(m):
    _, pull = m.func.vjp(lambda x: (x * x.sum()).sin(), normal(m, 3))
    rows = normal(m, 4, 3, seed=1)
    return m.func.vmap(pull)(rows), m.func.jvp(pull, (rows[0],), (rows[1],)), m.func.vmap(m.func.vmap(pull))(
        rows.reshape(2, 2, 3)), m.func.jacrev(lambda v: pull(v)[0])(rows[0])


@compared
def test_vjp_made_and_used_inside_of_levels(m):
    def f(x):
        out, pull = m.func.vjp(lambda x: x.sin() * x.sum(), x)
        return pull(out)[0].sum()

    x = normal(m, 3)
    return m.func.grad(f)(x), m.func.vmap(m.func.grad(f))(normal(m, 2, 3)), m.func.hessian(f)(x)


# ---- refusals ------------------------------------------------------------------------------------------

REFUSED = {
    "a vector": (lambda m: m.func.grad(m.sin)(normal(m, 2)), RuntimeError,
                 r"Expected f\(\*args\) to return a scalar Tensor, got tensor with 1 dims. Maybe you wanted to use"),
    "no tensor": (lambda m: m.func.grad(lambda x: 3.0)(normal(m)), RuntimeError,
                  r"Expected f\(\*args\) to return a Tensor, got <class 'float'>"),
    "no aux": (lambda m: m.func.grad(m.sin, has_aux=True)(normal(m)), RuntimeError,
               r"output of function f should be a tuple: \(output, aux\) if has_aux is True"),
    "three outputs": (lambda m: m.func.grad(lambda x: (x, x, x), has_aux=True)(normal(m)), RuntimeError,
                      r"output of function f should be a tuple: \(output, aux\)"),
    "argnums too large": (lambda m: m.func.grad(m.sin, argnums=1)(normal(m)), RuntimeError,
                          "Got argnum=1, but only 1 positional inputs"),
    "argnums too negative": (lambda m: m.func.grad(m.sin, argnums=-2)(normal(m)), RuntimeError,
                             "Got argnum=-2, but only 1 positional inputs"),
    "argnums twice": (lambda m: m.func.grad(m.mul, argnums=(0, 0))(normal(m), normal(m)), RuntimeError,
                      r"argnums elements must be unique"),
    "argnums empty": (lambda m: m.func.grad(m.mul, argnums=())(normal(m), normal(m)), RuntimeError,
                      r"argnums must be non-empty"),
    "argnums no int": (lambda m: m.func.grad(m.mul, argnums=0.0)(normal(m), normal(m)), RuntimeError,
                       r"argnums must be int or Tuple\[int, ...\], got: <class 'float'>"),
    "argnums with no int": (lambda m: m.func.grad(m.mul, argnums=(0, "a"))(normal(m), normal(m)), RuntimeError,
                            "argnum must be int, got: <class 'str'>"),
    "an argument that is no tensor": (lambda m: m.func.vjp(m.sin, 3.0), ValueError,
                                      "Thing passed to transform API must be Tensor, got <class 'float'>"),
    "a number": (lambda m: m.func.grad(m.sin)(3.0), ValueError, "Thing passed to transform API must be Tensor, got"),
    "integers": (lambda m: m.func.grad(m.sum)(m.tensor([1, 2])), RuntimeError,
                 "only Tensors of floating point dtype can require gradients"),
    "batches of integers": (lambda m: m.func.vmap(m.func.grad(lambda x: x * 1.0))(m.tensor([1, 2])), RuntimeError,
                            "only Tensors of floating point dtype can require gradients"),
    "a result of integers": (lambda m: m.func.vjp(m.argmax, normal(m, 2)), RuntimeError,
                             "All outputs of f must be floating-point or complex Tensors, got Tensor with dtype .*int"),
    "vjp of no tensor": (lambda m: m.func.vjp(lambda x: 3, normal(m)), RuntimeError,
                         r"expected f\(\*primals\) to return only tensors, got unsupported type"),
    "vjp of nothing": (lambda m: m.func.vjp(lambda x: [], normal(m)), RuntimeError,
                       r"Expected f to be a function that has non-empty output \(got output = \[\]\)"),
    "vjp of text": (lambda m: m.func.vjp(lambda x: [x, "a"], normal(m)), RuntimeError, "only tensors, got unsupported"),
    "vjp without aux": (lambda m: m.func.vjp(m.sin, normal(m), has_aux=True), RuntimeError, "should be a tuple"),
    "cotangents of another structure": (lambda m: m.func.vjp(lambda x: (x, x), normal(m))[1](normal(m)), RuntimeError,
                                        "Expected pytree structure of cotangents to be the same as pytree structure"),
    "a cotangent of another shape": (lambda m: m.func.vjp(m.sin, normal(m, 2))[1](normal(m, 3)), RuntimeError,
                                     r"shape.*\[3\].*\[2\]"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    refused_by_both(*REFUSED[case])


def test_vjp_outside_of_the_level_in_which_it_was_made():
    kept = []

    def f(x):
        kept.append(ag.func.vjp(ag.sin, x)[1])
        return x

    ag.func.vmap(f)(ag.ones(3, 2))
    with pytest.raises(RuntimeError, match=r"a tensor of a transform \(Batching\) is used after the transform has"):
        kept[0](ag.ones(2))


def test_a_tensor_of_a_nested_level_that_has_ended():
    kept = []
    ag.func.vmap(ag.func.grad(lambda x: kept.append(x) or x.sum()))(ag.ones(3, 2))
    assert "Recorded(" in repr(kept[0])
    assert kept[0].shape == (2,)
    with pytest.raises(RuntimeError, match=r"a tensor of a transform \(Recording\) is used after the transform has"):
        kept[0] + 1


def test_the_graph_is_freed_after_grad_and_kept_by_vjp():
    kept = []
    ag.func.grad(lambda x: kept.append(x.exp()) or kept[0].sum())(ag.ones(2))
    with pytest.raises(RuntimeError, match="second time"):
        kept[0].sum().backward()


def test_what_a_tensor_of_a_level_says_of_itself():
    def f(x):
        y = x * 2
        assert isinstance(x, ag.Tensor)
        assert (x.shape, x.requires_grad, x.is_leaf, x.grad_fn) == ((2,), True, True, None)
        assert (y.requires_grad, y.is_leaf, y.grad_fn.name()) == (True, False, "MulBackward0")
        assert not x.detach().requires_grad
        assert len({x, y, x}) == 2
        assert repr(y)
        assert f"{y.sum()}"
        return y.sum()

    ag.func.grad(f)(ag.ones(2))
    ag.func.vmap(ag.func.grad(f))(ag.ones(3, 2))
    ag.func.jvp(ag.func.grad(f), (ag.ones(2),), (ag.ones(2),))
    ag.func.vmap(ag.func.jacrev(ag.func.grad(f)))(ag.ones(3, 2))


def test_values_can_be_read_where_nothing_is_batched():
    def f(x):
        assert float(x.sum()) == 2.0
        return x.sum() if x.sum() > 0 else -x.sum()

    assert ag.func.grad(f)(ag.ones(2)).tolist() == [1, 1]
    assert ag.func.grad(lambda x: ag.func.grad(f)(x).sum())(ag.ones(2)).tolist() == [0, 0]
    assert ag.func.jvp(ag.func.grad(f), (ag.ones(2),), (ag.ones(2),))[0].tolist() == [1, 1]


def test_an_exception_in_the_function_leaves_nothing_behind():
    def f(x):
        raise KeyError("mine")

    for transformed in (ag.func.grad(f), ag.func.vmap(ag.func.grad(f)), lambda x: ag.func.vjp(f, x)):
        with pytest.raises(KeyError, match="mine"):
            transformed(ag.ones(2))
        assert not (ag.ones(2) * 2).requires_grad
    assert ag.is_grad_enabled()


@compared
def test_numbers_of_calls(m):
    """The function runs once."""
    calls = []
    m.func.grad_and_value(lambda x: calls.append(1) or x.sum())(normal(m, 2))
    m.func.vjp(lambda x: calls.append(1) or x.sum(), normal(m, 2))[1](normal(m))
    return len(calls)


@compared
def test_create_graph_inside(m):
    """autograd.grad inside of a level: the plain graph. PyTorch takes nested levels, too."""
    def f(x):
        y = (x ** 3).sum()
        (g,) = m.autograd.grad(y, x, create_graph=True)
        return (g * g).sum()

    x = normal(m, 3)
    return m.func.grad(f)(x), m.func.grad(lambda x: m.func.grad(f)(x).sum())(x)


def test_autograd_grad_of_a_nested_level():
    with pytest.raises(RuntimeError, match=r"element 0 of tensors belongs to a function .*; use ag.func.grad"):
        ag.func.vmap(ag.func.grad(lambda x: ag.autograd.grad(x ** 3, x)[0]))(ag.ones(2))


@compared
def test_hooks_inside(m):
    def f(x):
        x.register_hook(lambda g: g * 2)
        y = x.sin()
        y.register_hook(lambda g: g + 1)
        return y.sum()

    return m.func.grad(f)(normal(m, 3)), m.func.vmap(m.func.grad(f))(normal(m, 2, 3))


def test_saved_tensor_hooks_see_plain_tensors_only():
    """PyTorch refuses hooks around reverse mode."""
    seen, x = [], ag.ones(3, 2, requires_grad=True)
    with ag.autograd.graph.saved_tensors_hooks(lambda t: seen.append(type(t)) or t.numpy(force=True), ag.tensor):
        result = ag.func.vmap(ag.func.grad(lambda x: (x ** 3).sum()))(x)
        outermost = ag.func.grad(lambda x: (x ** 3).sum())(x.detach())
    assert set(seen) == {ag.Tensor}
    assert result.tolist() == outermost.tolist() == [[3, 3]] * 3
    assert ag.autograd.grad(result.sum(), x)[0].tolist() == [[6, 6]] * 3


@pytest.mark.filterwarnings("ignore:Anomaly")
def test_anomaly_mode():
    with np.errstate(all="ignore"), ag.autograd.detect_anomaly():
        assert ag.func.vmap(ag.func.grad(lambda x: x.sin().sum()))(ag.zeros(3, 2)).tolist() == [[1, 1]] * 3
        with pytest.raises(RuntimeError, match="Function 'SqrtBackward0' returned nan values in its 0th output"):
            ag.func.vmap(ag.func.grad(lambda x: (x * 0).sqrt().sum() * 0))(ag.ones(3, 2))
