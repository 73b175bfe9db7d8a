"""In-place operations inside of transforms, against PyTorch."""

import numpy as np
import pytest

import autograd_gpu as ag

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.cpu, pytest.mark.filterwarnings("ignore::DeprecationWarning")]  # of PyTorch's own

X = np.random.default_rng(0).standard_normal((4, 3))
Y = np.random.default_rng(1).standard_normal((4, 3))


def products(x):
    y = x.clone()
    y.mul_(x)
    y.add_(1)
    return y.sin()


def constant_into_column(x):
    y = x.clone()
    y[..., 0] = 2.0
    return y * x


def columns_in_place(x):
    y = x * 2
    y[..., 1:].mul_(x[..., 1:])
    return y * y


def view_before_write(x):
    y = x.clone()
    v = y[..., :2]
    y.mul_(x)
    return v * x[..., 1:]


def overwritten(x):
    y = x.clone()
    y.copy_(x.sin())
    y.zero_()
    y.add_(x)
    return y


def exponential(x):
    y = x * 1
    y.exp_()
    return y * y


def shape_in_place(x):
    y = x * 1
    y.unsqueeze_(0)
    y.mul_(2)
    return y.sum(0) * x


def columns_assigned(x):
    y = x * x
    y[..., 0:1] = x[..., 1:2] * 3
    y[..., 2] = x[..., 0]
    return y.sin()


def view_filled(x):
    y = x * x
    v = y[..., 0]
    v.fill_(3.0)
    return y


def outputs_saved(x):
    y = x * 1
    y.tanh_()
    return y * x + y


def indices_assigned(x):
    y = x * x
    y[..., [2, 0]] = x[..., :2] * 3
    return y.cos()


PROGRAMS = [
    products, constant_into_column, columns_in_place, view_before_write, overwritten, exponential, shape_in_place,
    columns_assigned, view_filled, outputs_saved, indices_assigned,
]  # fmt: skip
TRANSFORMS = {
    "jvp": lambda F, f, x, y: F.jvp(f, (x,), (y,)),
    "linearize": lambda F, f, x, y: (F.linearize(f, x)[1](y) if F is ag.func else F.jvp(f, (x,), (y,))[1],),
    "vmap(linearize)": lambda F, f, x, y: (
        F.vmap(lambda x, y: F.linearize(f, x)[1](y) if F is ag.func else F.jvp(f, (x,), (y,))[1])(x, y),
    ),
    "vmap": lambda F, f, x, y: F.vmap(f)(x),
    "vmap(jvp)": lambda F, f, x, y: F.vmap(lambda x, y: F.jvp(f, (x,), (y,)))(x, y),
    "jvp(vmap)": lambda F, f, x, y: F.jvp(F.vmap(f), (x,), (y,)),
    "grad": lambda F, f, x, y: F.grad(lambda x: f(x).sum())(x),
    "grad(vmap)": lambda F, f, x, y: F.grad(lambda x: F.vmap(f)(x).sum())(x),
    "vmap(grad)": lambda F, f, x, y: F.vmap(F.grad(lambda x: f(x).sum()))(x),
    "jvp(grad)": lambda F, f, x, y: F.jvp(F.grad(lambda x: f(x).sin().sum()), (x,), (y,)),
    "grad(jvp)": lambda F, f, x, y: F.grad(lambda x: (F.jvp(f, (x,), (y,))[1] ** 2).sum())(x),
    "jvp(jvp)": lambda F, f, x, y: F.jvp(lambda x: F.jvp(f, (x,), (y,))[1], (x,), (y,)),
    "vmap(grad(jvp))": lambda F, f, x, y: F.vmap(F.grad(lambda x: (F.jvp(f, (x,), (x,))[1] ** 2).sum()))(x),
    "vmap(hessian)": lambda F, f, x, y: F.vmap(F.hessian(lambda x: f(x).sum()))(x),
}


def flat(actual):
    actual = actual if isinstance(actual, (tuple, list)) else (actual,)
    return [leaf for part in actual for leaf in (flat(part) if isinstance(part, (tuple, list)) else [part])]


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_as_pytorch(program, name):
    transform = TRANSFORMS[name]
    expected = flat(transform(torch.func, program, torch.tensor(X), torch.tensor(Y)))
    result = flat(transform(ag.func, program, ag.tensor(X), ag.tensor(Y)))
    assert len(result) == len(expected)
    for a, b in zip(result, expected, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(force=True), atol=1e-12)


def into_zeros(m, x):
    z = m.zeros(3, dtype=m.float64)
    z[0] = x[0] ** 2
    z[1:] = x[:2] * x[2]
    return z * x


def into_what_constants_give(m, x):
    z, y = m.cat([m.arange(2, dtype=m.float64), m.tensor([2.0], dtype=m.float64)]) + 1, x.clone().detach()
    y[0] = x[0] * x[1]
    with m.no_grad():
        w = x * x
    w[2] = x[0]
    return z.clone().mul_(x).add_(y) * w


def into_views_of_zeros(m, x):
    z = m.zeros(5, dtype=m.float64)
    v = z[1:4]
    v.copy_(x)
    w = v[1:]
    z.mul_(2)
    w.add_(x[:2] ** 2)
    z.unsqueeze_(0).sin_()
    d = m.eye(3, dtype=m.float64)
    d.diagonal().mul_(v)
    return v * x + z[0, :3] + d @ x


NESTED_REVERSE = {
    "jvp(grad)": lambda F, f, x: F.jvp(F.grad(lambda x: f(x).sin().sum()), (x[0],), (x[1],)),
    "hessian": lambda F, f, x: F.hessian(lambda x: f(x).sum())(x[0]),
    "jacfwd(jacrev)": lambda F, f, x: F.jacfwd(F.jacrev(lambda x: f(x).sum()))(x[0]),
    "jvp(grad(grad))": lambda F, f, x: F.jvp(
        F.grad(lambda x: (F.grad(lambda x: f(x).sum())(x) ** 2).sum()), (x[0],), (x[1],)),
    "vmap(jvp(grad))": lambda F, f, x: F.vmap(lambda x: F.jvp(F.grad(lambda x: f(x).sum()), (x,), (x,)))(x),
    "jvp(grad(vmap))": lambda F, f, x: F.jvp(F.grad(lambda x: F.vmap(f)(x).sum()), (x,), (x,)),
}  # fmt: skip


@pytest.mark.parametrize("name", NESTED_REVERSE)
@pytest.mark.parametrize("program", [into_zeros, into_what_constants_give, into_views_of_zeros])
def test_what_is_made_inside_takes_writes(program, name):
    """As in PyTorch: new tensors are constants of the level of reverse mode; under vmap they are not batched."""
    runs = []
    for lib in (torch, ag):
        try:
            actual = flat(NESTED_REVERSE[name](lib.func, lambda x, lib=lib: program(lib, x), lib.tensor(X)))
            runs.append([x.numpy(force=True) for x in actual])
        except RuntimeError as error:
            runs.append([str(error).partition("(")[0]])
    for expected, actual in zip(*runs, strict=True):
        if isinstance(expected, str):
            assert actual == expected == "vmap: inplace arithmetic"
        else:
            np.testing.assert_allclose(actual, expected, atol=1e-12)


@pytest.mark.parametrize("name", ["jvp", "vmap(jvp)", "vmap(grad)", "jvp(grad)", "grad(jvp)", "vmap(hessian)"])
def test_detached_in_place(name):
    """The innermost transform sees a constant, and the others do not."""
    def program(x):
        return (x * 3).detach_() * x * x

    expected, results = (flat(TRANSFORMS[name](lib.func, program, lib.tensor(X), lib.tensor(Y))) for lib in (torch, ag))
    for a, b in zip(results, expected, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-12)


def test_linearize_of_a_network_with_in_place_layers():
    """PyTorch's linearize takes constants that were written to for those before the write; jvp is right."""
    net = ag.nn.Sequential(ag.nn.Linear(3, 4), ag.nn.ReLU(inplace=True), ag.nn.Linear(4, 2), ag.nn.SiLU(inplace=True))
    x, t = ag.tensor(X).float(), ag.tensor(Y).float()
    with ag.profiler.count() as counted:
        result = ag.func.linearize(net, x)[1](t)
    assert counted.matmuls == {(4, 3, 4): 2, (4, 4, 2): 2}
    np.testing.assert_allclose(result.numpy(force=True), ag.func.jvp(net, (x,), (t,))[1].numpy(force=True), atol=1e-6)


def test_a_view_of_the_point_and_one_of_several_views_are_refused():
    def first_of_several(x):
        a, _, _ = (x * 2).unbind()
        return a.mul_(x[0])

    for f, text in ((lambda x: x[:2].mul_(2.0).sum(), "a view of a leaf Variable that requires grad is being used"),
                    (first_of_several, "Output 0 of Unbind.* is a view and is being modified inplace")):
        for lib in (torch, ag):
            with pytest.raises(RuntimeError, match=text):
                lib.func.jacfwd(lib.func.jacrev(f))(lib.tensor(X[0]))


def both_dual(lib, f, x, xt, y, yt):
    return lib.func.jvp(f, (x, y), (xt, yt))


def right_dual(lib, f, x, xt, y, yt):
    return lib.func.jvp(lambda y: f(x, y), (y,), (yt,))


def into_a_view(x, y):
    x = x.clone()
    view = x[:, ::2]
    view.copy_(y[:, ::2])
    return view * 1, x


def into_the_base(x, y):
    x = x.clone()
    view = x[0]
    x.copy_(y)
    return view * 1, x


def through_a_view_of_a_view(x, y):
    x = x.clone()
    view = x.transpose(0, 1)[1:][:, 0]
    view.mul_(y[0, 1:])
    return view * y[0, 1:], x.sin()


def added_into_a_view(x, y):
    x = x.clone()
    a, b = x.unbind(0)[0], x[0, 1:]
    x[0].add_(y[1])
    return a * 1, b * 1, x


@pytest.mark.parametrize("dual", [both_dual, right_dual])
@pytest.mark.parametrize("f", [into_a_view, into_the_base, through_a_view_of_a_view, added_into_a_view])
def test_views_of_what_becomes_dual_in_a_batch(f, dual):
    """As PyTorch's TestVmapJvpInplaceView: the batch dimensions of x and y differ."""
    rng = np.random.default_rng(2)
    arrays = [rng.standard_normal((2, 6, 3)) for _ in range(2)] + [rng.standard_normal((2, 3, 6)) for _ in range(2)]
    runs = []
    for lib in (torch, ag):
        mapped = lib.func.vmap(lambda *xs, lib=lib: dual(lib, f, *xs), in_dims=(2, 2, 1, 1))
        runs.append(flat(mapped(*[lib.tensor(a) for a in arrays])))
    for expected, actual in zip(*runs, strict=True):
        np.testing.assert_allclose(actual.numpy(), expected.numpy(force=True), atol=1e-12)


def test_views_in_a_dual_level():
    forward_ad = ag.autograd.forward_ad
    x, t = ag.tensor(X), ag.tensor(Y)
    with forward_ad.dual_level():
        base = ag.zeros(4, 3, dtype=ag.float64)
        view = base[1:]
        base.copy_(forward_ad.make_dual(x, t))
        assert forward_ad.unpack_dual(view).tangent.tolist() == Y[1:].tolist()
        view.mul_(2.0)
        np.testing.assert_allclose(forward_ad.unpack_dual(base).tangent.numpy(), np.vstack([Y[:1], 2 * Y[1:]]))
        base.zero_()
        assert not forward_ad.unpack_dual(view).tangent.numpy().any()
    assert forward_ad.unpack_dual(base).tangent is None


def test_out_and_writes_without_recording_carry_tangents():
    forward_ad = ag.autograd.forward_ad
    with forward_ad.dual_level(), ag.no_grad():
        x = forward_ad.make_dual(ag.tensor(X), ag.tensor(Y))
        out = ag.empty_like(x)
        ag.mul(x, x, out=out)
        np.testing.assert_allclose(forward_ad.unpack_dual(out).tangent.numpy(), 2 * X * Y)
        x.mul_(3.0)
        np.testing.assert_allclose(forward_ad.unpack_dual(x).tangent.numpy(), 3 * Y)


def test_a_write_keeps_the_graph_right_in_forward_over_reverse():
    def program(x):
        y = x * x
        y[0].mul_(x[1])
        y.sin_()
        return (y * x).sum()

    with ag.autograd.forward_ad.dual_level():
        x = ag.tensor(X).requires_grad_()
        dual = ag.autograd.forward_ad.make_dual(x, ag.tensor(Y))
        (g,) = ag.autograd.grad(program(dual), dual)
        result = ag.autograd.forward_ad.unpack_dual(g).tangent
    expected = torch.func.jvp(torch.func.grad(program), (torch.tensor(X),), (torch.tensor(Y),))[1]
    np.testing.assert_allclose(result.detach().numpy(), expected.numpy(), atol=1e-12)


@pytest.mark.parametrize("twice", [False, True])
def test_a_write_under_no_grad_leaves_the_history_alone(twice):
    def run(lib):
        def f(x):
            y = x * x
            view = y[1:]
            with lib.no_grad():
                y.mul_(x)
                view.add_(1)
            return (y * y).sum()

        g = lib.func.grad(f)
        if twice:
            g = lib.func.grad(lambda x: lib.func.grad(f)(x).sum())
        x = lib.tensor(X)
        return [g(x[0]), lib.func.vmap(g)(x), *lib.func.jvp(g, (x[0],), (lib.tensor(Y)[0],))]

    for actual, expected in zip(run(ag), run(torch), strict=True):
        np.testing.assert_allclose(actual.numpy(), expected.numpy(), atol=1e-12)


def test_a_write_under_no_grad_to_the_point():
    def run(lib):
        def f(x):
            with lib.no_grad():
                x.mul_(2)
            return (x * x).sum()

        return lib.func.vmap(lib.func.grad(f))(lib.tensor(X))

    np.testing.assert_allclose(run(ag).numpy(), run(torch).numpy())


def test_a_write_to_the_point_is_refused():
    for lib in (torch, ag):
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place"):
            lib.func.vmap(lib.func.grad(lambda x: (x.mul_(2) ** 2).sum()))(lib.tensor(X))


def filled(x):
    y = x.new_zeros(3)
    y[0] = x[1] * x[2]
    y[1:] = x[:2] * x[1]
    return y * x


def view_of_zeros(x):
    base = x.new_zeros(5)[1:4]
    view = base[1:]
    base.copy_(x * x)
    view.mul_(x[0])
    return base * x


NESTED = {
    "jacfwd": lambda m, f: m.func.jacfwd(f),
    "vmap of jacfwd": lambda m, f: m.func.vmap(m.func.jacfwd(f), 1),
    "jacfwd of jacfwd": lambda m, f: m.func.jacfwd(m.func.jacfwd(f)),
    "jacrev of jacfwd": lambda m, f: m.func.jacrev(m.func.jacfwd(f)),
}
IN_REVERSE_MODE = {
    "vmap of grad": lambda m, f: m.func.vmap(m.func.grad(lambda x: f(x).sum())),
    "hessian": lambda m, f: m.func.hessian(lambda x: f(x).sum()),
}


@pytest.mark.parametrize(("f", "transform"), [
    *[(f, transform) for transform in NESTED for f in (filled, view_of_zeros)],
    *[(filled, transform) for transform in IN_REVERSE_MODE],
])  # fmt: skip
def test_writes_into_a_new_tensor(f, transform):
    """The tensor has no level of its own when the derivatives, which have, are written into it."""
    x, make = X[:3] if "vmap" in transform else X[0], {**NESTED, **IN_REVERSE_MODE}[transform]
    expected, results = (make(lib, f)(lib.tensor(x)).numpy() for lib in (torch, ag))
    np.testing.assert_allclose(results, expected, atol=1e-12)


@pytest.mark.parametrize("name", ["add_", "mul_", "sub_", "div_"])
def test_a_tensor_of_a_transform_that_has_ended_is_refused(name):
    kept = []
    ag.func.vmap(lambda x: kept.append(x) or x)(ag.ones(2))
    with pytest.raises(RuntimeError, match="used after the transform has ended"):
        getattr(ag.ones(2), name)(kept[0])


def test_a_write_without_recording_keeps_the_history_of_the_tangent():
    def function(lib, x):
        def inside(x):
            y = x * x
            with lib.no_grad():
                y.mul_(x)
            return (y * y).sum()

        return lib.func.grad(lambda x: lib.func.jvp(inside, (x,), (x,))[1])(x)

    assert function(ag, ag.ones(1)).tolist() == function(torch, torch.ones(1)).tolist() == [20.0]
