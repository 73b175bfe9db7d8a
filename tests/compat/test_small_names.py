"""Small modules that programs for PyTorch import."""

import dataclasses
import warnings

import numpy as np
import pytest

import autograd_gpu as ag

pytestmark = pytest.mark.cpu


def test_trees_are_pytorchs():
    torch = pytest.importorskip("torch")
    tree = {"b": [1, (2, None)], "a": 3, "c": {}}
    seen = []
    for pytree in (torch.utils._pytree, ag.utils._pytree):
        leaves, spec = pytree.tree_flatten(tree)
        doubled = pytree.tree_map_only(int, lambda x: 2 * x, tree)
        added = pytree.tree_map(lambda x, y: (x, y), [1, 2], [3, 4])
        seen.append((leaves, pytree.tree_unflatten(leaves, spec), doubled, added, list(doubled),
                      pytree.tree_leaves(tree, is_leaf=lambda x: isinstance(x, tuple)),
                      pytree.tree_all(lambda x: x is not None, tree), pytree.tree_any(lambda x: x == 3, tree)))
    assert seen[0] == seen[1]


def test_own_classes_are_nodes_of_trees():
    class Pair:
        def __init__(self, a, b):
            self.a, self.b = a, b

    pytree = ag.utils._pytree
    pytree.register_pytree_node(Pair, lambda p: ([p.a, p.b], None), lambda children, _: Pair(*children))
    assert pytree.tree_map(lambda x: x + 1, [Pair(1, 2)])[0].b == 3


def test_dataclasses_are_nodes_of_trees_once_registered():
    """Beside PyTorch: fields that are None, fields that are dropped, and classes that are no dataclasses."""
    torch = pytest.importorskip("torch")
    found = []
    for pytree in (torch.utils._pytree, ag.utils._pytree):
        Point = dataclasses.make_dataclass("Point", [("x", object), ("y", object), ("tag", str, "none")])
        assert pytree.tree_is_leaf(Point(1, 2))
        pytree.register_dataclass(Point, field_names=["x", "y"], drop_field_names=["tag"])
        assert not pytree.tree_is_leaf(Point(1, 2))
        moved = pytree.tree_map(lambda x: x + 1, [Point(1, None, "set"), Point((2, 3), 4)])
        found.append([dataclasses.astuple(point) for point in moved])
        plain = type("Plain", (), {"__init__": lambda self, a: setattr(self, "a", a)})
        with pytest.raises(ValueError, match="field_names must be specified"):
            pytree.register_dataclass(plain)
        pytree.register_dataclass(plain, field_names=["a"])
        found[-1].append(pytree.tree_map(lambda x: x + 1, plain(1)).a)
        with pytest.raises(ValueError, match="tag"):
            pytree.register_dataclass(dataclasses.make_dataclass("Q", ["x", "tag"]), field_names=["x"])
    assert found[0] == found[1] == [(2, None, "none"), ((3, 4), 5, "none"), 2]


def test_timer():
    timer = ag.utils.benchmark.Timer("y + x", "y = 2 * x", globals={"x": ag.ones(2)}, label="sum")
    measured = timer.blocked_autorange(min_run_time=1e-3)
    assert 0 < measured.median < 1
    assert measured.mean > 0 <= measured.iqr
    assert "sum" in repr(measured)
    assert len(timer.timeit(3).raw_times) == 1


def test_summary_writer_gives_arrays_to_the_writer(monkeypatch):
    tensorboard = ag.utils.tensorboard
    calls = []

    class Writer:
        def __init__(self, log_dir):
            self.log_dir = log_dir

        def close(self):
            calls.append("closed")

        def add_scalars(self, tag, values, step):
            calls.append((tag, values, step))

    monkeypatch.setattr(tensorboard, "tensorboardX", type("X", (), {"SummaryWriter": Writer}))
    with tensorboard.SummaryWriter("runs") as writer:
        writer.add_scalars("loss", {"a": ag.tensor(2.0, requires_grad=True)}, 3)
        assert writer.log_dir == "runs"
    assert type(calls[0][1]["a"]) is np.ndarray
    assert calls == [("loss", {"a": 2.0}, 3), "closed"]
    monkeypatch.setattr(tensorboard, "tensorboardX", None)
    with pytest.raises(ImportError, match="pip install tensorboardX"):
        tensorboard.SummaryWriter()


def test_traced_functions_run_as_python():
    seen = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = ag.jit.trace(lambda x: (seen.append(1), 2 * x if x.sum() > 0 else x)[1], (ag.ones(2),))
    assert len(seen) == 1
    assert traced(-ag.ones(1)).item() == -1


def test_decorators_of_dynamo():
    from autograd_gpu import _dynamo

    _dynamo.config.cache_size_limit = 3
    assert _dynamo.allow_in_graph(len) is len
    assert _dynamo.disable(len)("ab") == 2


def test_private_names_that_libraries_use():
    torch = pytest.importorskip("torch")
    from torch.optim.lbfgs import _strong_wolfe as theirs

    from autograd_gpu.optim.lbfgs import _strong_wolfe as ours

    results = []
    for m, search in ((torch, theirs), (ag, ours)):
        def value_and_grad(x, t, d, m=m):
            z = (x + t * d).detach().requires_grad_()
            value = (z**4).sum() + z.sum()
            return value.item(), m.autograd.grad(value, z)[0]

        x = m.tensor([1.0, 2.0], dtype=m.float64)
        f, g = value_and_grad(x, 0, x)
        f, g, t, evaluations = search(value_and_grad, x, 1.0, -g, f, g, -g.dot(g))
        basis = m.autograd.functional._construct_standard_basis_for((x, x[:1]), (2, 1))
        net = m.nn.Linear(2, 1, bias=False)
        with m.nn.utils.stateless._reparametrize_module(net, {"weight": m.ones(1, 2)}):
            out = net(m.tensor([3.0, 4.0]))
        results.append((f, g.tolist(), float(t), evaluations, [b.tolist() for b in basis], out.tolist(),
                        m._foreach_add([m.ones(2)], 1)[0].tolist()))  # fmt: skip
    assert results[0] == results[1]


def test_private_names_of_functional():
    torch = pytest.importorskip("torch")
    results = []
    for m in (torch, ag):
        names = m.autograd.functional
        x, y = m.ones(2, requires_grad=True), m.zeros(1)
        one, (alone,) = names._as_tuple(x, "inputs", "jacobian")
        two, pair = names._as_tuple((x, y), "inputs", "jacobian")
        with pytest.raises(TypeError, match="inputs given to jacobian must be either a Tensor or a tuple"):
            names._as_tuple([x], "inputs", "jacobian")
        rows = (2 * x, y), (x, 3 * x)
        cut, kept = (names._grad_postprocess(rows, create_graph=create_graph) for create_graph in (False, True))
        results.append((one, alone is x, two, pair[1] is y, [[g.requires_grad for g in row] for row in cut + kept],
                        [g.tolist() for g in names._grad_postprocess((x, y), False)],
                        [names._tuple_postprocess(((1, 2), (3, 4)), (a, b)) for a in (0, 1) for b in (0, 1)],
                        names._tuple_postprocess((5,), False), names._tuple_postprocess((5,), True)))  # fmt: skip
    assert results[0] == results[1]


def test_cubic_interpolation():
    torch = pytest.importorskip("torch")
    from torch.optim.lbfgs import _cubic_interpolate as theirs

    from autograd_gpu.optim.lbfgs import _cubic_interpolate as ours

    points = [(0.0, 1.0, -1.0, 1.0, 0.5, 0.3), (1.0, 0.5, 0.3, 0.0, 1.0, -1.0), (0.0, 1.0, -1.0, 1.0, -5.0, -3.0)]
    for point in points:
        for bounds in (None, (0.1, 0.4)):
            in_tensors = [torch.tensor(value, dtype=torch.float64) for value in point]
            assert ours(*point, bounds=bounds) == pytest.approx(float(theirs(*in_tensors, bounds=bounds)))


def test_the_private_number_of_a_tensor():
    for m in (ag, pytest.importorskip("torch")):
        x = m.ones(2)
        holder = [x]
        assert holder[0]._cdata == x._cdata != m.ones(2)._cdata
        assert isinstance(x._cdata, int)


def test_nothing_is_traced():
    assert ag._C._get_tracing_state() is None
    with pytest.raises(AttributeError, match="extensions in C"):
        print(ag._C._jit_clear_class_registry)


@pytest.mark.filterwarnings("ignore:`torch.testing.assert_allclose:FutureWarning")
def test_assert_allclose():
    torch = pytest.importorskip("torch")
    for m in (torch, ag):
        m.testing.assert_allclose(m.tensor([1.0, float("nan")]), [1.0 + 5e-5, float("nan")])
        with pytest.raises(AssertionError):
            m.testing.assert_allclose(m.tensor([1.0]), [1.001])


def test_futures_have_a_type_in_annotations():
    assert ag.futures.Future[ag.Tensor].__args__ == (ag.Tensor,)
