"""Pytrees: what counts as a container, None, order of dicts, own classes; texts that name structures."""

from collections import OrderedDict, namedtuple

import pytest
from func_programs import assert_equal, normal

import autograd_gpu as ag
from autograd_gpu.func.pytrees import flatten, name_of, spread, tree_map, unflatten

Pair = namedtuple("Pair", "a b")


@pytest.mark.parametrize("tree", [
    1, None, (), [], {}, (1, 2), [1, [2, (3,)]], {"b": 1, "a": (2, None)}, Pair(1, [2]), OrderedDict(b=1, a=2),
    (None, {}),
], ids=str)  # fmt: skip
def test_there_and_back(tree):
    leaves, spec = flatten(tree)
    again = unflatten(spec, leaves)
    assert again == tree
    assert type(again) is type(tree)
    assert flatten(again) == (leaves, spec)


def test_none_is_a_leaf():
    assert flatten((1, None))[0] == [1, None]
    assert tree_map(lambda x: x is None, {"a": None, "b": [1]}) == {"a": True, "b": [False]}


def test_a_dict_keeps_its_order():
    def f(t):
        return {"z": t["b"] * 2, "a": t["a"]}

    tree = {"b": normal(ag, 2), "a": normal(ag, 2, seed=1)}
    assert list(ag.func.vmap(f)(tree)) == ["z", "a"]
    grads = ag.func.grad(lambda t: (t["b"] * 2 + t["a"] * 3).sum())(tree)
    assert_equal(grads, {"b": ag.full((2,), 2.0, dtype=ag.float64), "a": ag.full((2,), 3.0, dtype=ag.float64)})


def test_spread():
    assert spread(0, {"a": 1, "b": (2, 3)}) == [0, 0, 0]
    assert spread((0, None), (1, [2, 3])) == [0, None, None]
    for prefix, tree in (((0, 0), (1,)), ([0], (1,)), ({"a": 0}, {"b": 1}), ((0, (0,)), (1, 2))):
        with pytest.raises(ValueError, match=r"."):
            spread(prefix, tree)


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

    assert name_of(test_spread) == "test_spread"
    assert name_of(functools.partial(test_spread, 1)) == "functools.partial(test_spread, ...)"
    assert "Linear" in name_of(ag.nn.Linear(2, 2))


def test_ragged_lists_of_tensors():
    xs = [normal(ag, n) for n in (1, 2, 3)]
    assert_equal(ag.func.grad(lambda xs: sum((x * x).sum() for x in xs))(xs), [2 * x for x in xs])
    assert [[x.shape for x in row] for row in ag.func.jacrev(lambda xs: [x * 2 for x in xs])(xs)] == [
        [(i, j) for j in (1, 2, 3)] for i in (1, 2, 3)]
