"""Pytrees: nested tuples, lists, dicts and registered classes, flattened to their leaves and put together again.

As in PyTorch a node is an object whose exact class is registered, or a namedtuple; anything else is a leaf, None too.
The values of a dict come in the order of insertion.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

DICTS = (dict, OrderedDict, defaultdict)  # stand for each other where one tree is compared with another


class Kind(NamedTuple):
    """How a node comes apart and together: flatten(node) -> (children, context), unflatten(children, context)."""

    flatten: Callable[[Any], tuple[Any, Any]]
    unflatten: Callable[[list[Any], Any], Any]


NAMEDTUPLE = Kind(lambda node: (node, type(node)), lambda children, cls: cls(*children))
SEEN = 1000  # classes whose kind is remembered


class _Kinds(dict[type, Kind | None]):
    """The kind of the objects of a class, None if they are leaves; remembers it, for the lookup is most of the work."""

    def __missing__(self, cls: type) -> Kind | None:
        named = issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)
        if len(self) >= SEEN:  # classes that a program makes anew again and again
            # copy() makes no objects but the dict, so no collection lets other threads add classes meanwhile.
            for other, kind in self.copy().items():
                if kind in (None, NAMEDTUPLE):
                    self.pop(other, None)
        return self.setdefault(cls, NAMEDTUPLE if named else None)


KINDS = _Kinds({
    tuple: Kind(lambda node: (node, None), lambda children, _: tuple(children)),
    list: Kind(lambda node: (node, None), lambda children, _: children),
    dict: Kind(lambda node: (node.values(), list(node)), lambda children, keys: dict(zip(keys, children, strict=True))),
    OrderedDict: Kind(
        lambda node: (node.values(), list(node)), lambda children, keys: OrderedDict(zip(keys, children, strict=True))),
    defaultdict: Kind(
        lambda node: (node.values(), [node.default_factory, list(node)]),
        lambda children, context: defaultdict(context[0], zip(context[1], children, strict=True))),
    deque: Kind(lambda node: (node, node.maxlen), deque),
})  # fmt: skip


def register(cls: type, flatten: Callable[[Any], Any], unflatten: Callable[[list[Any], Any], Any]) -> None:
    """Makes objects of `cls` nodes, as `Kind` describes; ValueError if they already are."""
    if KINDS[cls] is not None:
        raise ValueError(f"{cls} is already registered as pytree node.")

    def flattened(node: Any) -> tuple[list[Any], Any]:
        children, context = flatten(node)
        return list(children), context

    KINDS[cls] = Kind(flattened, unflatten)


_kind: Callable[[Any], Any] = KINDS.__getitem__
_new = object.__new__


class TreeSpec:
    """The structure of a pytree; a leaf has the type None.

    type: the class of the root. context: what it knows besides its children, such as the keys of a dict.
    """

    __slots__ = ("_children", "_flat", "context", "num_leaves", "type")

    def __init__(self, type: type | None, context: Any, children_specs: Sequence[TreeSpec]) -> None:
        self.type, self.context, self._children = type, context, tuple(children_specs)
        self._flat = all(child.type is None for child in self._children)  # all children are leaves
        self.num_leaves: int = 1 if type is None else sum([child.num_leaves for child in self._children])

    @property
    def num_children(self) -> int:
        """The number of children of the root."""
        return len(self._children)

    @property
    def num_nodes(self) -> int:
        """The number of nodes and leaves."""
        return 1 + sum([child.num_nodes for child in self._children])

    def children(self) -> list[TreeSpec]:
        """The structures of the children."""
        return list(self._children)

    def child(self, index: int) -> TreeSpec:
        """The structure of one child."""
        return self._children[index]

    def is_leaf(self) -> bool:
        """Whether this is a leaf."""
        return self.type is None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return self is other or (
            self.type is other.type and self.context == other.context and self._children == other._children)

    def __hash__(self) -> int:
        return hash((self.type, self._children))  # a context need not be hashable

    def __repr__(self) -> str:
        return f"TreeSpec({self._shape()!r})"

    def _shape(self) -> Any:
        """What repr shows; no object of a registered class, which may not take stars for its children."""
        if self.type is None:
            return _STAR
        children = [child._shape() for child in self._children]
        if self.type in (tuple, list, deque, *DICTS):
            return _kind(self.type).unflatten(children, self.context)
        return _Shown(f"{self.type.__name__}({', '.join(map(repr, children))})")

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The pytree with these leaves; ValueError for another number of them."""
        leaves = list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(f"treespec.unflatten(leaves): `leaves` has length {len(leaves)}, but {self} has "
                             f"{self.num_leaves} leaves")
        if self.type is None:
            return leaves[0]
        kind = _kind(self.type)
        return kind.unflatten(leaves if self._flat else _parts(self, iter(leaves)), self.context)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """What `tree` has where this structure has leaves; ValueError if this is no prefix of its structure."""
        if self.type is None:
            return [tree]
        return [part for child, spec in zip(self.matched(tree), self._children, strict=True)
                for part in spec.flatten_up_to(child)]

    def matched(self, tree: Any) -> Sequence[Any]:
        """The children of `tree` in the order of this node's; ValueError unless it is a node of the same kind."""
        if type(tree) in DICTS and self.type in DICTS:
            keys = self.context if self.type is not defaultdict else self.context[1]
            if tree.keys() != set(keys):
                raise ValueError(f"Node keys mismatch; expected {keys}, but got {list(tree)}.")
            return [tree[key] for key in keys]
        if type(tree) is not self.type:
            raise ValueError(f"Node type mismatch; expected {self.type}, but got {type(tree)}.")
        children, context = _kind(type(tree)).flatten(tree)
        if len(children) != len(self._children):
            raise ValueError(f"Node arity mismatch; expected {len(self._children)}, but got {len(children)}.")
        if context != self.context and self.type is not deque:
            raise ValueError(f"Node context mismatch; expected {self.context!r}, but got {context!r}.")
        return children


LEAF = TreeSpec(None, None, ())


class _Shown(str):
    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


_STAR = _Shown("*")


def flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """The leaves of a pytree and its structure; `is_leaf` makes a leaf of a node for which it returns true."""
    kind = KINDS[type(tree)]
    if kind is None or (is_leaf is not None and is_leaf(tree)):
        return [tree], LEAF
    leaves: list[Any] = []
    return leaves, _flattened(tree, kind, leaves, is_leaf)


def _flattened(tree: Any, kind: Kind, leaves: list[Any], is_leaf: Callable[[Any], bool] | None) -> TreeSpec:
    """Appends the leaves of a node, and returns its structure."""
    children, context = kind.flatten(tree)
    spec: TreeSpec = _new(TreeSpec)
    spec.type, spec.context = type(tree), context
    kinds = [*map(_kind, map(type, children))]
    if any(kinds):
        before, specs = len(leaves), []
        for child, kind in zip(children, kinds, strict=True):
            if kind is None or (is_leaf is not None and is_leaf(child)):
                leaves.append(child)
                specs.append(LEAF)
            else:
                specs.append(_flattened(child, kind, leaves, is_leaf))
        spec._flat, spec.num_leaves, spec._children = False, len(leaves) - before, tuple(specs)
    else:
        leaves += children
        spec._flat, spec.num_leaves, spec._children = True, len(kinds), (LEAF,) * len(kinds)
    return spec


def _parts(spec: TreeSpec, leaves: Iterator[Any]) -> list[Any]:
    """The children of the root, built of the next leaves."""
    children = []
    for child in spec._children:
        if child.type is None:
            children.append(next(leaves))
        else:
            parts = list(islice(leaves, child.num_leaves)) if child._flat else _parts(child, leaves)
            children.append(_kind(child.type).unflatten(parts, child.context))
    return children


unflatten = TreeSpec.unflatten  # of a structure and leaves


def tree_map(function: Callable[..., Any], tree: Any) -> Any:
    """The pytree with function(leaf) for each leaf."""
    leaves, spec = flatten(tree)
    return spec.unflatten([function(x) for x in leaves])


def spread(prefix: Any, spec: TreeSpec) -> list[Any]:
    """One element for each leaf of `spec`, from a pytree that is a prefix of it; ValueError if it is none."""
    if KINDS[type(prefix)] is None:
        return [prefix] * spec.num_leaves
    return [x for child, part in zip(spec.matched(prefix), spec._children, strict=True) for x in spread(child, part)]


def reordered(tree: Any, spec: TreeSpec) -> list[Any]:
    """The leaves of a pytree in the order of `spec`, if it differs from that in the order of dicts only; else []."""
    try:
        leaves = spec.flatten_up_to(tree)
    except ValueError:
        return []
    return [] if any(KINDS[type(leaf)] is not None for leaf in leaves) else leaves
