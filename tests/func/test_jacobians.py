"""jacrev, jacfwd, hessian, hvp: pytrees of several inputs and outputs, aux, chunks, shapes without elements."""

import numpy as np
import pytest
from func_programs import agree, assert_equal, compared, normal, refused_by_both

import autograd_gpu as ag

BOTH = pytest.mark.parametrize("name", ["jacrev", "jacfwd"])


def with_each(program):
    """Makes a test of a program that takes the library and its jacrev or jacfwd."""

    @BOTH
    def test(name):
        agree(lambda m: program(m, getattr(m.func, name)))

    test.__name__, test.__doc__ = program.__name__, program.__doc__
    return test


@with_each
def test_shapes(m, jac):
    return [jac(f)(normal(m, *shape)) for shape in ((3,), (), (2, 3), (1,))
            for f in (m.sin, lambda x: x.sum(), lambda x: (x * x).reshape(-1, 1), lambda x: x.sum().expand(2, 2))]


@with_each
def test_several_outputs(m, jac):
    x = normal(m, 3)
    return [jac(f)(x) for f in (lambda x: (x.sin(), x.sum()), lambda x: {"a": x * 2, "b": [x[0], (x[1:],)]},
                                lambda x: (x,))]


@with_each
def test_arguments(m, jac):
    args = normal(m, 3), normal(m, 3, seed=1), normal(m, 2, seed=2)

    def f(x, y, z):
        return x * y * z.sum()

    return [jac(f, argnums)(*args) for argnums in (0, 1, (0,), (0, 1), (2, 0))]


@BOTH
@pytest.mark.parametrize("argnums", [-1, -3, (-1, 0)], ids=str)
def test_negative_arguments(name, argnums):
    """PyTorch's jacfwd gives zeros."""
    args = normal(ag, 3), normal(ag, 3, seed=1), normal(ag, 2, seed=2)
    positive = tuple(k % 3 for k in argnums) if isinstance(argnums, tuple) else argnums % 3
    jac = getattr(ag.func, name)
    assert_equal(jac(lambda x, y, z: x * y * z.sum(), argnums)(*args),
                 jac(lambda x, y, z: x * y * z.sum(), positive)(*args))


@with_each
def test_trees(m, jac):
    tree = {"a": normal(m, 2), "b": (normal(m, 3), [normal(m)])}

    def f(t, u):
        return {"s": t["a"] * u[0], "t": (t["b"][0].sum() * t["b"][1][0], u[0])}

    return jac(f)(tree, [normal(m, 2)]), jac(f, (0, 1))(tree, [normal(m, 2)]), jac(f, (1,))(tree, [normal(m, 2)])


@with_each
def test_aux(m, jac):
    def f(x):
        return x.sin(), {"y": x * 2, "z": [x.sum()]}

    return jac(f, has_aux=True)(normal(m, 3)), jac(lambda x: ((x, x.sum()), x), has_aux=True)(normal(m, 3))


@with_each
def test_outputs_without_influence(m, jac):
    x, y = normal(m, 3), normal(m, 2)
    return (jac(lambda x: y)(x), jac(lambda x: (x, y))(x), jac(lambda x, y: x, 1)(x, y),
            jac(lambda x, y: y, (0, 1))(x, y), jac(lambda x: x)(x))


@with_each
def test_no_elements(m, jac):
    x = normal(m, 0, 2)
    return jac(m.sin)(x), jac(lambda x: x.sum(0))(x), jac(lambda x, y: x * y.sum(), 1)(x, normal(m, 3)), jac(
        lambda t: t[0][:0])((normal(m, 2), x))


@with_each
def test_dtypes(m, jac):
    x, y = normal(m, 2, dtype="float32"), normal(m, 2)
    return (jac(lambda x, y: (x * 2, y * 2), (0, 1))(x, y), jac(lambda x: x * 2)(x),
            jac(lambda x: x.to(m.float64) * 2)(x))


@BOTH
def test_keyword_arguments(name):
    """PyTorch's jacfwd takes none."""
    assert getattr(ag.func, name)(lambda x, *, k: x * k)(ag.ones(1), k=3).tolist() == [[3]]


@with_each
def test_of_themselves(m, jac):
    f = lambda x: (x.sin() * x.sum()).cumsum(0)  # noqa: E731
    return jac(jac(f))(normal(m, 3)), jac(m.func.jacrev(f))(normal(m, 3)), jac(m.func.jacfwd(f))(normal(m, 3))


@with_each
def test_of_gradients_in_batches_and_of_batches(m, jac):
    def f(x):
        return (x.sin() * x.sum()).sum()

    return (m.func.vmap(jac(m.func.grad(f)))(normal(m, 2, 3)), jac(m.func.vmap(m.func.grad(f)))(normal(m, 2, 3)),
            m.func.vmap(jac(lambda x, y: x * y, (0, 1)), (0, None))(normal(m, 2, 3), normal(m, 3)),
            m.func.grad(lambda x: jac(lambda x: x ** 3)(x).sum())(normal(m, 3)),
            m.func.jvp(jac(lambda x: x ** 3), (normal(m, 3),), (normal(m, 3),)))


@with_each
def test_captured_tensors_keep_their_history(m, jac):
    w, x = normal(m, 3, seed=1).requires_grad_(), normal(m, 3).requires_grad_()
    result = jac(lambda x: (x * w).sin())(x)
    return result, m.autograd.grad(result.sum(), [w, x])


@with_each
def test_not_recorded_without_need(m, jac):
    x = normal(m, 2)
    with m.no_grad():
        inside = jac(m.sin)(normal(m, 2).requires_grad_())
    return jac(m.sin)(x).requires_grad, inside, inside.requires_grad


@with_each
def test_integer_outputs_beside(m, jac):
    return jac(lambda x: (x * 2, x.argmax()), has_aux=True)(normal(m, 3))


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100, None])
def test_chunks(size):
    def program(m):
        def f(x, y):
            return {"a": x * y.sum(), "b": (x[:1] * y).sum(0)}

        return m.func.jacrev(f, (0, 1), chunk_size=size)(normal(m, 3, 2), normal(m, 2, seed=1))

    agree(program)
    x = normal(ag, 3, 2)
    f = lambda x: x.sin() * x.sum()  # noqa: E731
    assert_equal(ag.func.jacfwd(f, chunk_size=size)(x), ag.func.jacfwd(f)(x), 1e-12)


def test_chunks_bound_the_number_of_rows():
    counts = []

    class Seen(ag.autograd.Function):
        generate_vmap_rule = False

        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            counts.append(repr(g).count("[["))
            return g

    ag.func.jacrev(Seen.apply, chunk_size=2)(ag.ones(5))
    assert len(counts) == 3


def test_both_modes_agree_with_numbers():
    f = lambda x: (x.exp() * x.sum()).cumprod(0)  # noqa: E731
    x, step = normal(ag, 3), 1e-6
    steps = ag.eye(3, dtype=ag.float64) * step
    columns = [((f(x + d) - f(x - d)) / (2 * step)).numpy(force=True) for d in steps]
    for jac in (ag.func.jacrev, ag.func.jacfwd):
        np.testing.assert_allclose(jac(f)(x).numpy(force=True), np.stack(columns, -1), rtol=1e-7, atol=1e-7)


# ---- hessian, hvp --------------------------------------------------------------------------------------


@compared
def test_hessian(m):
    f = lambda x: (x.sin() * x.sum()).prod()  # noqa: E731
    return m.func.hessian(f)(normal(m, 3)), m.func.hessian(f)(normal(m, 2, 2)), m.func.hessian(m.sin)(normal(m)), \
        m.func.hessian(lambda x: (x ** 3, x.sum()))(normal(m, 2))


@compared
def test_hessian_of_trees(m):
    f = lambda t, y: (t["a"] * y).prod() + t["b"].sum() ** 3  # noqa: E731
    args = {"a": normal(m, 2), "b": normal(m, 2)}, normal(m, 2, seed=1)
    return m.func.hessian(f)(*args), m.func.hessian(f, (0, 1))(*args), m.func.hessian(f, 1)(*args)


@compared
def test_hessian_of_what_is_linear(m):
    return m.func.hessian(lambda x: x.sum())(normal(m, 3)), m.func.hessian(lambda x: normal(m))(normal(m, 2))


@compared
def test_hessian_in_another_dtype(m):
    x, y = m.tensor([1.0, 2.0], dtype=m.float64), m.tensor([3.0, 4.0])
    return m.func.hessian(lambda x: (x.float() ** 3).sum())(x), \
        m.func.hessian(lambda x, y: (x.float() * y ** 2).sum(), (0, 1))(x, y)


@compared
def test_hessian_of_a_network(m):
    w, x = normal(m, 3, 2), normal(m, 4, 3, seed=1)

    def loss(w, b):
        return (x @ w + b).tanh().log_softmax(1)[:, 1].mean()

    return m.func.hessian(loss, (0, 1))(w, normal(m, 2)), m.func.vmap(m.func.hessian(loss), (0, None))(
        normal(m, 2, 3, 2), normal(m, 2))


def test_hvp_is_the_product():
    f = lambda x: (x.sin() * x.sum()).prod()  # noqa: E731
    x, v = normal(ag, 3), normal(ag, 3, seed=1)
    full = ag.func.hessian(f)(x)
    assert_equal(ag.func.hvp(f, (x,), (v,)), full @ v)
    assert_equal(ag.func.vmap(lambda v: ag.func.hvp(f, (x,), (v,)))(ag.eye(3, dtype=ag.float64)), full)
    assert_equal(ag.func.grad(lambda x: ag.func.hvp(f, (x,), (v,)).sum())(x),
                 ag.func.jacfwd(ag.func.hessian(f))(x).sum(0).mT @ v, 1e-8)


def test_hvp_of_several_arguments():
    f = lambda x, t: (x * t["a"]).prod()  # noqa: E731
    x, y = normal(ag, 2), normal(ag, 2, seed=1)
    v, u = normal(ag, 2, seed=2), normal(ag, 2, seed=3)
    (xx, xt), t = ag.func.hessian(f, (0, 1))(x, {"a": y})
    tx, tt = t["a"]
    result = ag.func.hvp(f, (x, {"a": y}), (v, {"a": u}))
    assert_equal(result, (xx @ v + xt["a"] @ u, {"a": tx @ v + tt["a"] @ u}))


# ---- refusals ------------------------------------------------------------------------------------------

REFUSED = {
    "argnums": (lambda m, jac: jac(m.sin, argnums=2)(normal(m)), RuntimeError, "Got argnum=2, but only 1 positional"),
    "no argnums": (lambda m, jac: jac(m.sin, argnums=())(normal(m)), RuntimeError, "argnums must be non-empty"),
    "an output that is no tensor": (lambda m, jac: jac(lambda x: 3)(normal(m)), RuntimeError,
                                    "return only tensors, got unsupported type <class 'int'>"),
    "no output": (lambda m, jac: jac(lambda x: [])(normal(m)), RuntimeError, "non-empty output"),
    "no aux": (lambda m, jac: jac(m.sin, has_aux=True)(normal(m)), RuntimeError, "should be a tuple"),
    "integers": (lambda m, jac: jac(m.sin)(m.tensor([1, 2])), Exception, "floating point"),
}  # fmt: skip


@BOTH
@pytest.mark.parametrize("case", REFUSED)
def test_refused(name, case):
    program, kind, text = REFUSED[case]
    refused_by_both(lambda m: program(m, getattr(m.func, name)), kind, text)


@BOTH
def test_chunks_of_no_rows(name):
    with pytest.raises(ValueError, match=f"{name}: `chunk_size` should be greater than 0."):
        getattr(ag.func, name)(ag.sin, chunk_size=0)


def test_integer_outputs_of_jacrev():
    refused_by_both(lambda m: m.func.jacrev(lambda x: x.argmax())(normal(m, 2)), RuntimeError,
                    "All outputs of f must be floating-point or complex Tensors, got Tensor with dtype .*int64")
