"""PyTorch's names for nested tuples, lists and dicts (autograd_gpu/pytrees.py), which the transforms use, too."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...pytrees import KINDS, TreeSpec, flatten, register

PyTreeSpec = TreeSpec
PyTree = Any


def tree_flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """The leaves of a tree and its structure.

    >>> leaves, spec = ag.utils._pytree.tree_flatten({"b": 1, "a": [2, None]})
    >>> leaves
    [1, 2, None]
    >>> ag.utils._pytree.tree_unflatten([3, 4, 5], spec)
    {'b': 3, 'a': [4, 5]}
    """
    return flatten(tree, is_leaf)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The tree of that structure with these leaves."""
    return treespec.unflatten(leaves)


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves of a tree."""
    return tree_flatten(tree, is_leaf)[0]


tree_iter = tree_leaves


def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    """The structure of a tree."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """The tree of func(leaf, *leaves of the other trees, which have the same structure)."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [spec.flatten_up_to(other) for other in rests]
    return tree_unflatten(map(func, leaves, *others), spec)


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """Calls func on the leaves, and returns `tree`."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def tree_map_only(
    type_or_types: Any, func: Callable[[Any], Any], tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """The tree with func(leaf) for the leaves of these types, or for which the predicate holds."""
    chosen = _predicate(type_or_types)
    return tree_map(lambda leaf: func(leaf) if chosen(leaf) else leaf, tree, is_leaf=is_leaf)


def _predicate(types: Any) -> Callable[[Any], bool]:
    if callable(types) and not isinstance(types, type):
        return types
    return lambda leaf: isinstance(leaf, types)


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether `pred` holds for all leaves."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether `pred` holds for a leaf."""
    return any(map(pred, tree_leaves(tree, is_leaf)))


def tree_is_leaf(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether a tree is a leaf."""
    return KINDS[type(tree)] is None or (is_leaf is not None and is_leaf(tree))


def register_pytree_node(
    cls: type, flatten_fn: Callable[[Any], tuple[list[Any], Any]], unflatten_fn: Callable[[Any, Any], Any],
    **options: Any,
) -> None:  # fmt: skip
    """Makes `cls` a node of trees: flatten_fn(x) -> (children, context), unflatten_fn(children, context) -> x.

    ValueError if it is one. Options, which serve serialization, have no effect. Function transforms see the children,
    too.

    >>> class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> ag.utils._pytree.register_pytree_node(Pair, lambda p: ([p.a, p.b], None), lambda children, _: Pair(*children))
    >>> ag.func.grad(lambda p: p.a * p.b)(Pair(ag.tensor(2.0), ag.tensor(3.0))).a
    tensor(3.)
    """
    register(cls, flatten_fn, unflatten_fn)


_register_pytree_node = register_pytree_node


def register_dataclass(
    cls: type, *, field_names: Sequence[str] | None = None, drop_field_names: Sequence[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:  # fmt: skip
    """Makes `cls`, whose fields its constructor takes by name, a node of trees; a field that is None is no child.

    field_names: needed unless `cls` is a dataclass. drop_field_names: fields with defaults that are not kept.
    ValueError for names that are not those of the dataclass. `serialized_type_name` has no effect.
    """
    if dataclasses.is_dataclass(cls):
        kept = [field.name for field in dataclasses.fields(cls) if field.init]
        if field_names is None:
            field_names = kept
        elif wrong := (set(kept) - set(drop_field_names or ())) ^ set(field_names):
            raise ValueError(f"register_dataclass: field_names and drop_field_names should be the fields of {cls}; "
                             f"missing or unexpected: {', '.join(sorted(wrong))}")
    elif field_names is None:
        raise ValueError(f"register_dataclass: field_names must be specified with a list of all fields used to "
                         f"initialize {cls}, as it is not a dataclass.")
    names = tuple(field_names)

    def flat(node: Any) -> tuple[list[Any], Any]:
        values = {name: getattr(node, name) for name in names}
        present = [name for name in names if values[name] is not None]
        return [values[name] for name in present], (present, [name for name in names if values[name] is None])

    def built(children: list[Any], context: Any) -> Any:
        present, absent = context
        return cls(**dict(zip(present, children, strict=True)), **dict.fromkeys(absent))

    register(cls, flat, built)
