"""Nested tuples, lists, dicts and classes: flattening and back, structures, prefixes, registered classes."""

import copy
import gc
import pickle
import sys
import threading
import weakref
from collections import OrderedDict, defaultdict, deque, namedtuple

import pytest

import autograd_gpu as ag
from autograd_gpu import pytrees
from autograd_gpu.pytrees import KINDS, TreeSpec, flatten, register, reordered, spread, tree_map, unflatten

pytestmark = pytest.mark.cpu
Pair = namedtuple("Pair", "a b")


class Tagged(Pair):
    """A subclass of a namedtuple."""


@pytest.mark.parametrize("tree", [
    1, None, (), [], {}, (1, 2), [1, [2, (3,)]], {"b": 1, "a": (2, None)}, Pair(1, [2]), OrderedDict(b=1, a=2),
    (None, {}), defaultdict(list, b=1, a=(2,)), deque([1, (2, 3)], 4), Tagged(1, (2,)), ((), (1, 2)), [[], [[]]],
], ids=str)  # fmt: skip
def test_there_and_back(tree):
    leaves, spec = flatten(tree)
    again = unflatten(spec, leaves)
    assert again == tree
    assert type(again) is type(tree)
    assert flatten(again) == (leaves, spec)
    assert hash(flatten(again)[1]) == hash(spec)
    assert spec.num_leaves == len(leaves)
    for other in (pickle.loads(pickle.dumps(spec)), copy.deepcopy(spec)):
        assert other == spec
        assert unflatten(other, leaves) == tree


def test_what_a_node_knows_is_kept():
    again = unflatten(flatten(deque([1, 2], 4))[1], [3, 4])
    assert (again, again.maxlen) == (deque([3, 4]), 4)
    assert unflatten(flatten(defaultdict(list, a=1))[1], [2])["b"] == []


def test_values_of_a_dict_come_in_its_order():
    leaves, spec = flatten({"b": 1, "a": {"z": 2, "y": 3}})
    assert leaves == [1, 2, 3]
    assert list(unflatten(spec, leaves)) == ["b", "a"]


def test_none_and_subclasses_of_containers_are_leaves():
    assert flatten((1, None))[0] == [1, None]
    assert tree_map(lambda x: x is None, {"a": None, "b": [1]}) == {"a": True, "b": [False]}
    size, own = ag.Size((2, 3)), type("Own", (dict,), {})(a=1)
    assert flatten([size, own])[0] == [size, own]


def test_is_leaf():
    assert flatten([(1, 2), {"a": (3,)}], lambda x: isinstance(x, tuple))[0] == [(1, 2), (3,)]
    assert flatten((1, 2), lambda x: True)[0] == [(1, 2)]


def test_structures():
    spec = flatten({"a": (1, 2), "b": 3})[1]
    assert (spec.type, spec.context, spec.num_nodes, spec.num_children) == (dict, ["a", "b"], 5, 2)
    assert spec.children() == [spec.child(0), flatten(0)[1]]
    assert [child.is_leaf() for child in spec.children()] == [False, True]
    assert repr(spec) == "TreeSpec({'a': (*, *), 'b': *})"
    assert spec == TreeSpec(dict, ["a", "b"], spec.children())
    for other in ({"b": 3, "a": (1, 2)}, OrderedDict(a=(1, 2), b=3), {"a": (1,), "b": 3}, {"a": [1, 2], "b": 3}):
        assert flatten(other)[1] != spec
    assert spec != "a spec"
    for leaves in ([1, 2], [1, 2, 3, 4]):
        with pytest.raises(ValueError, match=r"has length \d, but TreeSpec\(\{'a'.*has 3 leaves"):
            spec.unflatten(leaves)


def test_up_to_a_structure():
    spec = flatten({"a": 0, "b": (0, 0)})[1]
    assert spec.flatten_up_to({"b": ([1], 2), "a": (3, 4)}) == [(3, 4), [1], 2]
    assert spec.flatten_up_to(OrderedDict(b=(1, 2), a=3)) == [3, 1, 2]
    assert flatten(defaultdict(list, a=0))[1].flatten_up_to({"a": 1}) == [1]
    assert flatten(deque([0], 3))[1].flatten_up_to(deque([1])) == [1]
    wrong = {"keys": {"a": 1, "c": (1, 2)}, "arity": {"a": 1, "b": (1, 2, 3)}, "type": {"a": 1, "b": [1, 2]}}
    for what, tree in wrong.items():
        with pytest.raises(ValueError, match=f"Node {what} mismatch"):
            spec.flatten_up_to(tree)


def test_spread():
    def over(prefix, tree):
        return spread(prefix, flatten(tree)[1])

    assert over(0, {"a": 1, "b": (2, 3)}) == [0, 0, 0]
    assert over((0, None), (1, [2, 3])) == [0, None, None]
    assert over({"a": 0, "b": 1}, {"b": (1, 2), "a": 3}) == [1, 1, 0]
    for prefix, tree in (((0, 0), (1,)), ([0], (1,)), ({"a": 0}, {"b": 1}), ((0, (0,)), (1, 2))):
        with pytest.raises(ValueError, match="mismatch"):
            over(prefix, tree)


def test_reordered():
    spec = flatten({"a": 0, "b": (0, 0)})[1]
    assert reordered({"b": (1, 2), "a": 3}, spec) == [3, 1, 2]
    assert reordered({"b": (1, 2), "a": [3]}, spec) == []
    assert reordered({"b": (1, 2)}, spec) == []


def test_registered_classes():
    class Box:
        def __init__(self, *values):
            self.values = values

    assert len(flatten([Box(1, 2)])[0]) == 1  # before
    register(Box, lambda box: (iter(box.values), "tag"), lambda children, tag: Box(*children, tag))
    leaves, spec = flatten([Box(1, (2, 3))])
    assert leaves == [1, 2, 3]
    assert unflatten(spec, [4, 5, 6])[0].values == (4, (5, 6), "tag")
    with pytest.raises(ValueError, match="already registered"):
        register(Box, iter, Box)
    with pytest.raises(ValueError, match="already registered"):
        register(dict, iter, dict)
    register(other := type("Other", (), {}), lambda node: ((1,), node.tag), lambda children, tag: None)
    one, two = other(), other()
    one.tag, two.tag = 1, 2
    with pytest.raises(ValueError, match="Node context mismatch"):
        flatten(one)[1].flatten_up_to(two)


def test_repr_makes_no_object_of_a_registered_class():
    class Positive:
        def __init__(self, value):
            assert value > 0
            self.value = value

    register(Positive, lambda node: ((node.value,), None), lambda children, _: Positive(*children))
    spec = flatten([Positive(1), Pair(2, (3,))])[1]
    assert repr(spec) == "TreeSpec([Positive(*), Pair(*, (*,))])"
    with pytest.raises(ValueError, match=r"but TreeSpec\(\[Positive\(\*\)"):
        spec.unflatten([1])


def test_threads_with_classes_of_their_own(monkeypatch):
    """More than are remembered; a thread that forgets classes is not disturbed by others that add some."""
    before, errors = sys.getswitchinterval(), []
    monkeypatch.setattr(threading, "excepthook", lambda args: errors.append(args.exc_value))
    threads = [threading.Thread(target=lambda: [flatten(type("C", (), {})()) for _ in range(15000)]) for _ in range(4)]
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert not errors


def test_the_classes_seen_are_not_kept_forever(monkeypatch):
    monkeypatch.setattr(pytrees, "SEEN", len(KINDS) + 3)
    classes = [weakref.ref(cls) for cls in (type(f"C{i}", (), {}) for i in range(8)) if flatten(cls())]
    gc.collect()
    assert [cls() for cls in classes[:3]] == [None] * 3
    assert flatten([(1,), Pair(2, 3)])[0] == [1, 2, 3]
