"""jvp and linearize: structures, aux, captured tensors, products at one point, and what they refuse."""

import gc
import weakref
from collections import namedtuple

import pytest
from func_programs import assert_equal, compared, normal, refused_by_both

import autograd_gpu as ag
from autograd_gpu.core.declare.op import REGISTRY
from autograd_gpu.errors import MissingRuleError

Point = namedtuple("Point", "x y")

# ---- jvp -----------------------------------------------------------------------------------------------


@compared
def test_one_argument(m):
    return m.func.jvp(m.sin, (normal(m, 3),), (normal(m, 3, seed=1),)), m.func.jvp(m.exp, (normal(m),), (normal(m),))


@compared
def test_several_arguments(m):
    x, y, t, s = (normal(m, 3, seed=k) for k in range(4))
    return m.func.jvp(lambda x, y: x * y.cos(), (x, y), (t, s)), m.func.jvp(m.mul, (x, y), (t, m.zeros_like(s)))


@compared
def test_a_composite_function(m):
    def f(x, w):
        y = m.cat([x @ w, x.sum(0, keepdim=True) @ w]).tanh()
        return y.softmax(-1).log().sum(0), y.max(1)[0], y[0, 1:] / y.std()

    args = normal(m, 2, 3), normal(m, 3, 4, seed=1)
    return m.func.jvp(f, args, (normal(m, 2, 3, seed=2), normal(m, 3, 4, seed=3)))


@compared
def test_trees(m):
    def f(a, b):
        return {"s": a["x"] * b[0], "t": [a["y"].sum(), (b[0],)]}

    args = {"x": normal(m, 2), "y": normal(m, 3)}, (normal(m, 2, seed=1),)
    return m.func.jvp(f, args, args)


@compared
def test_namedtuples(m):
    p = Point(normal(m, 2), normal(m, 2, seed=1))
    out, moved = m.func.jvp(lambda p: Point(p.x * p.y, p.y), (p,), (p,))
    assert type(out) is type(moved) is Point
    return tuple(out), tuple(moved)


@compared
def test_aux(m):
    out, moved, aux = m.func.jvp(lambda x: (x.sin(), {"a": x * 2}), (normal(m, 2),), (normal(m, 2),), has_aux=True)
    return out, moved, aux


@compared
def test_outputs_without_influence(m):
    x, y = normal(m, 2), normal(m, 3)
    return (m.func.jvp(lambda x: y, (x,), (x,)), m.func.jvp(lambda x: (x, y.sum()), (x,), (x,)),
            m.func.jvp(lambda x: x, (x,), (x,)), m.func.jvp(lambda x: (x > 0, x.argmax(), x), (x,), (x,))[1][2],
            m.func.jvp(lambda x: x.detach(), (x,), (x,))[0])


@compared
def test_strict(m):
    return m.func.jvp(lambda x: x * 0, (normal(m, 2),), (normal(m, 2),), strict=True)


@compared
def test_captured_tensors_are_constants(m):
    x = normal(m)
    t = m.ones((), dtype=m.float64)

    def push(f, x):
        return m.func.jvp(f, (x,), (t,))[1]

    return (push(lambda y: x * y, x), push(lambda x: x * push(lambda y: x + y, t), x),
            push(lambda x: x * push(lambda y: x * y * y, x), x), push(lambda x: push(lambda y: x, x) + x * x, x))


@compared
def test_nested_to_the_third_order(m):
    def push(f):
        return lambda x: m.func.jvp(f, (x,), (m.ones_like(x),))[1]

    f, x = (lambda x: x.sin() * x ** 3), normal(m, 2)
    return push(f)(x), push(push(f))(x), push(push(push(f)))(x)


@compared
def test_gradients_of_products(m):
    x, t = normal(m, 3).requires_grad_(), normal(m, 3, seed=1).requires_grad_()
    out, moved = m.func.jvp(lambda x: (x ** 3).sum(), (x,), (t,))
    return m.autograd.grad(moved, [x, t], retain_graph=True), m.autograd.grad(out, x)


@compared
def test_no_grad_does_not_concern_tangents(m):
    def f(x):
        with m.no_grad():
            return x ** 2

    x = normal(m, 2)
    with m.no_grad():
        outside = m.func.jvp(f, (x,), (x,))
    return outside, m.func.jvp(f, (x,), (x,))


@compared
def test_the_primals_are_not_changed(m):
    x = normal(m, 2)
    m.func.jvp(m.sin, (x,), (x,))
    return m.func.jvp(lambda y: y * x, (x,), (m.ones_like(x),))


@compared
def test_views(m):
    x = normal(m, 3, 4)
    return [m.func.jvp(lambda v: (v * v, v.t(), v.reshape(-1)), (v,), (v + 1,)) for v in (x.t(), x[::2], x[0, 1:])]


@compared
def test_batches(m):
    x, t = normal(m, 4, 3), normal(m, 4, 3, seed=1)
    push = lambda x, t: m.func.jvp(lambda x: x.cumprod(0), (x,), (t,))[1]  # noqa: E731
    return m.func.vmap(push)(x, t), m.func.vmap(push, (None, 0))(x[0], t), m.func.vmap(push, (0, None))(x, t[0])


@compared
def test_empty_tensors(m):
    x = normal(m, 0, 2)
    return m.func.jvp(lambda x: (x * 2, x.sum()), (x,), (x,))


def test_a_tensor_keeps_no_tangent_when_the_level_has_ended():
    kept = []
    ag.func.jvp(lambda x: kept.append(x * 2) or kept[0], (ag.ones(2),), (ag.ones(2),))
    assert type(kept[0]) is ag.Tensor
    assert ag.func.jvp(lambda x: kept[0] + x, (ag.ones(2),), (ag.ones(2),))[1].tolist() == [1, 1]


def test_values_can_be_read():
    def f(x):
        assert x.sum().item() == 2.0
        assert (x > 0).all()
        return x if x.sum() > 0 else -x

    assert ag.func.jvp(f, (ag.ones(2),), (ag.ones(2),))[1].tolist() == [1, 1]
    assert ag.func.linearize(f, ag.ones(2))[1](ag.ones(2)).tolist() == [1, 1]


def test_an_op_without_a_rule_is_refused(monkeypatch):
    monkeypatch.setattr(REGISTRY["exp"], "jvp", None)
    text = "Trying to use forward AD with exp that does not support it.*jvp.*reverse mode"
    for push in (lambda: ag.func.jvp(ag.exp, (ag.ones(2),), (ag.ones(2),)),
                 lambda: ag.func.linearize(ag.exp, ag.ones(2))[1](ag.ones(2)),
                 lambda: ag.func.jacfwd(ag.exp)(ag.ones(2)),
                 lambda: ag.func.hessian(lambda x: x.exp().sum(), method="nested")(ag.ones(2))):
        with pytest.raises(MissingRuleError, match=text):
            push()


def test_the_way_out_of_a_missing_rule(monkeypatch):
    monkeypatch.setattr(REGISTRY["exp"], "jvp", None)
    for f in (ag.func.jacrev(ag.exp), ag.func.hessian(lambda x: x.exp().sum())):
        assert f(ag.zeros(2)).tolist() == [[1, 0], [0, 1]]


REFUSED = {
    "primals not in a tuple": (lambda m: m.func.jvp(m.sin, normal(m), (normal(m),)), RuntimeError,
                               r"Expected primals to be a tuple. E.g. it should be valid to call f\(\*primals\)."),
    "tangents not in a tuple": (lambda m: m.func.jvp(m.sin, (normal(m),), normal(m)), RuntimeError,
                                "Expected primals and tangents to have the same python structure"),
    "too many tangents": (lambda m: m.func.jvp(m.sin, (normal(m),), (normal(m), normal(m))), RuntimeError,
                          "For example, if primals is a tuple of 3 tensors, tangents also must be"),
    "no primals": (lambda m: m.func.jvp(m.sin, (), ()), RuntimeError, "Expected primals to contain at least one"),
    "a primal that is no tensor": (lambda m: m.func.jvp(m.sin, (3.0,), (normal(m),)), RuntimeError,
                                   "Expected primals to only contain Tensors, got <class 'float'>"),
    "a tangent that is no tensor": (lambda m: m.func.jvp(m.sin, (normal(m),), (3.0,)), RuntimeError,
                                    "Expected tangents to only contain Tensors, got <class 'float'>"),
    "integers": (lambda m: m.func.jvp(m.sin, (m.tensor(1),), (m.tensor(1),)), ValueError,
                 "Expected primal to be floating point or complex, but got: .*int64"),
    "an output that is no tensor": (lambda m: m.func.jvp(lambda x: 3, (normal(m),), (normal(m),)), RuntimeError,
                                    r"expected f\(\*primals\) to return only tensors, got unsupported type"),
    "no output": (lambda m: m.func.jvp(lambda x: [], (normal(m),), (normal(m),)), RuntimeError,
                  r"Expected f to be a function that has non-empty output \(got output = \[\]\)"),
    "no aux": (lambda m: m.func.jvp(m.sin, (normal(m),), (normal(m),), has_aux=True), RuntimeError,
               r"output of function f should be a tuple: \(output, aux\) if has_aux is True"),
    "strict": (lambda m: m.func.jvp(lambda x: normal(m), (normal(m),), (normal(m),), strict=True), RuntimeError,
               r"jvp\(f, primals, tangents, strict=True\): The output of f is independent of the inputs"),
    "tangents of linearize": (lambda m: m.func.linearize(m.sin, normal(m, 3))[1](normal(m, 2)), RuntimeError,
                              r"tangent:0 with shape .*2.* in flattened pytree doesn't match the shape .*3.* of the"),
    "dtypes of linearize": (lambda m: m.func.linearize(m.sin, normal(m, 3))[1](normal(m, 3, dtype="float32")),
                            RuntimeError, "tangent:0 with dtype .*float32 in flattened pytree doesn't match the dtype"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    refused_by_both(*REFUSED[case])


@pytest.mark.parametrize(("tangent", "what"), [((ag.ones(3),), "shape"), ((ag.ones(2, dtype=ag.float64),), "dtype")])
def test_tangents_are_like_their_primals(tangent, what):
    """PyTorch takes another dtype, and words the other shape differently."""
    with pytest.raises(RuntimeError, match=f"tangent:0 with {what} .* doesn't match the {what}"):
        ag.func.jvp(ag.sin, (ag.ones(2),), tangent)


# ---- linearize -----------------------------------------------------------------------------------------


@compared
def test_linearize(m):
    x, t = normal(m, 3), normal(m, 3, seed=1)
    out, push = m.func.linearize(lambda x: (x.sin() * x.sum()).cumsum(0), x)
    return out, push(t), push(t * 2)


@compared
def test_linearize_trees(m):
    def f(a, b):
        return {"s": a["x"] * b[0], "t": [a["y"].sum(), (b[0].exp(),)]}

    args = {"x": normal(m, 2), "y": normal(m, 3)}, (normal(m, 2, seed=1),)
    out, push = m.func.linearize(f, *args)
    return out, push(*args)


@compared
def test_linearize_outputs_of_other_kinds(m):
    x, y = normal(m, 3), normal(m, 2)
    out, push = m.func.linearize(lambda x: (x.sum(), x * 2, x, x.reshape(3, 1)), x)
    return out, push(x), m.func.linearize(lambda x: y * 2, x)[0]


def test_linearize_outputs_without_influence():
    """PyTorch gives a Parameter of zeros."""
    _, push = ag.func.linearize(lambda x: (ag.ones(2), x, x > 0), ag.ones(3))
    moved = push(ag.ones(3))
    assert moved[0].tolist() == [0, 0]
    assert moved[1].tolist() == [1, 1, 1]
    assert not moved[2].any()


@compared
def test_linearize_many_products(m):
    x, rows = normal(m, 3), normal(m, 4, 3, seed=1)
    _, push = m.func.linearize(lambda x: (x * x.sum()).tanh(), x)
    return m.func.vmap(push)(rows), m.func.vmap(m.func.vmap(push))(rows.reshape(2, 2, 3))


def test_linearize_inside_of_vmap():
    """PyTorch cannot."""
    g = lambda x: (x * x.sum()).tanh()  # noqa: E731

    def f(x, t):
        out, push = ag.func.linearize(g, x)
        return out, push(t)

    x, t = normal(ag, 4, 3), normal(ag, 4, 3, seed=1)
    for dims, args in ((0, (x, t)), ((0, None), (x, t[0])), ((None, 0), (x[0], t))):
        assert_equal(ag.func.vmap(f, dims)(*args), ag.func.vmap(lambda x, t: ag.func.jvp(g, (x,), (t,)), dims)(*args))


@compared
def test_linearize_a_gradient(m):
    x = normal(m, 3)
    out, push = m.func.linearize(m.func.grad(lambda x: (x.sin() * x.sum()).sum()), x)
    return out, push(m.ones_like(x)), m.func.vmap(push)(m.eye(3, dtype=m.float64))


def second_order(F, kind, f, x, t):
    """The same number by several ways: d/dx of a product."""
    if kind == "jvp":
        return F.jvp(f, (x,), (t,))[1]
    return F.linearize(f, x)[1](t)


@pytest.mark.parametrize("outer", ["jvp", "linearize", "grad", "vmap"])
@pytest.mark.parametrize("inner", ["jvp", "linearize"])
def test_linearize_agrees_with_jvp_at_every_level(outer, inner):
    F, x, t = ag.func, normal(ag, 3), normal(ag, 3, seed=1)

    def around(inner):
        g = lambda x: second_order(F, inner, lambda x: x.sin() * x.sum(), x, t)  # noqa: E731
        if outer == "grad":
            return F.grad(lambda x: g(x).sum())(x)
        return F.vmap(g)(normal(ag, 2, 3)) if outer == "vmap" else second_order(F, outer, g, x, t)

    assert ag.allclose(around(inner), around("jvp"), rtol=1e-12)


def test_linearize_and_captured_tensors():
    x = ag.tensor(2.0)
    out, push = ag.func.linearize(lambda y: x * y + ag.func.linearize(lambda z: z * y * y, x)[1](x), x)
    assert out.item() == 12.0
    assert push(ag.tensor(1.0)).item() == 10.0


def test_the_function_runs_once():
    calls = []
    _, push = ag.func.linearize(lambda x: calls.append(1) or x.sin(), ag.ones(2))
    push(ag.ones(2))
    push(ag.ones(2))
    assert len(calls) == 1


def test_a_write_to_what_linearize_needs():
    x = ag.ones(2)
    _, push = ag.func.linearize(lambda x: x * x, x)
    assert push(x).tolist() == [2, 2]
    x.mul_(3)
    with pytest.raises(RuntimeError, match="linearize: a tensor that mul used has been modified by an inplace"):
        push(ag.ones(2))


def test_linearize_keeps_nothing_alive_for_its_output():
    made = []

    def f(x):
        y = x.exp()
        made.append(weakref.ref(y))
        return y.sin() * y

    gc.disable()
    try:
        out, push = ag.func.linearize(f, ag.ones(3))
        assert made[0]() is not None
        del push
        assert made[0]() is None
    finally:
        gc.enable()
    assert out.shape == (3,)
