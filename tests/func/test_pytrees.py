"""Pytrees as arguments and results of transforms: order of dicts, own classes, ragged lists; names in texts."""

import pytest
from func_programs import assert_equal, normal

import autograd_gpu as ag
from autograd_gpu.func.pytrees import name_of


def test_a_dict_keeps_its_order():
    def f(t):
        return {"z": t["b"] * 2, "a": t["a"]}

    tree = {"b": normal(ag, 2), "a": normal(ag, 2, seed=1)}
    assert list(ag.func.vmap(f)(tree)) == ["z", "a"]
    grads = ag.func.grad(lambda t: (t["b"] * 2 + t["a"] * 3).sum())(tree)
    assert_equal(grads, {"b": ag.full((2,), 2.0, dtype=ag.float64), "a": ag.full((2,), 3.0, dtype=ag.float64)})


def test_dicts_of_another_order_are_paired_by_their_keys():
    def f(t):
        return {"y": t["a"] * 2, "z": t["b"] * t["b"]}

    point = {"a": normal(ag, 2), "b": normal(ag, 2, seed=1)}
    tangent = {"b": normal(ag, 2, seed=2), "a": normal(ag, 2, seed=3)}
    _, pushed = ag.func.jvp(f, (point,), (tangent,))
    assert_equal(pushed, {"y": tangent["a"] * 2, "z": 2 * point["b"] * tangent["b"]})
    _, pull = ag.func.vjp(f, point)
    one, two = normal(ag, 2, seed=4), normal(ag, 2, seed=5)
    grads, = pull({"z": two, "y": one})
    assert_equal(grads, {"a": one * 2, "b": 2 * point["b"] * two})
    in_dims = ({"b": None, "a": 0},)
    mapped = ag.func.vmap(f, in_dims)({"a": normal(ag, 3), "b": normal(ag, 2)})
    assert [mapped[key].shape for key in mapped] == [(3,), (3, 2)]
    for other in ({"y": one}, {"y": one, "x": two}, {"y": one, "z": (two,)}, [one, two]):
        with pytest.raises(RuntimeError, match="Expected pytree structure of cotangents to be the same"):
            pull(other)


def test_a_registered_class_is_a_node():
    class Point:
        def __init__(self, x, y):
            self.x, self.y = x, y

    ag.utils._pytree.register_pytree_node(Point, lambda p: ([p.x, p.y], None), lambda values, _: Point(*values))
    grads = ag.func.grad(lambda p: (p.x * p.y).sum())(Point(normal(ag, 2), normal(ag, 2, seed=1)))
    assert_equal((grads.x, grads.y), (normal(ag, 2, seed=1), normal(ag, 2)))


def test_a_class_of_a_user_is_a_leaf():
    class Box:
        def __init__(self, x):
            self.x = x

    with pytest.raises(ValueError, match=r"must only return Tensors, got type .*Box"):
        ag.func.vmap(lambda x: Box(x))(ag.ones(2))
    with pytest.raises(ValueError, match=r"Thing passed to transform API must be Tensor, got .*Box"):
        ag.func.grad(lambda b: b.x.sum())(Box(ag.ones(2)))
    box = Box(ag.ones(2))
    assert ag.func.vmap(lambda b, x: b.x * x, (None, 0))(box, ag.ones(3, 2)).shape == (3, 2)


def test_name_of():
    import functools

    assert name_of(test_name_of) == "test_name_of"
    assert name_of(functools.partial(test_name_of, 1)) == "functools.partial(test_name_of, ...)"
    assert "Linear" in name_of(ag.nn.Linear(2, 2))


def test_ragged_lists_of_tensors():
    xs = [normal(ag, n) for n in (1, 2, 3)]
    assert_equal(ag.func.grad(lambda xs: sum((x * x).sum() for x in xs))(xs), [2 * x for x in xs])
    assert [[x.shape for x in row] for row in ag.func.jacrev(lambda xs: [x * 2 for x in xs])(xs)] == [
        [(i, j) for j in (1, 2, 3)] for i in (1, 2, 3)]
