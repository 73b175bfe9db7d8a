"""PyTorch's names for nested tuples, lists and dicts, by optree: None is a leaf, and dicts keep their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import optree

NAMESPACE = "autograd_gpu.torch"
TreeSpec = optree.PyTreeSpec
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
    with optree.dict_insertion_ordered(True, namespace=NAMESPACE):
        return optree.tree_flatten(tree, is_leaf, none_is_leaf=True, namespace=NAMESPACE)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The tree of that structure with these leaves."""
    return optree.tree_unflatten(treespec, leaves)


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


def register_pytree_node(
    cls: type, flatten_fn: Callable[[Any], tuple[list[Any], Any]], unflatten_fn: Callable[[Any, Any], Any],
    **options: Any,
) -> None:  # fmt: skip
    """Makes `cls` a node of trees: flatten_fn(x) -> (children, context), unflatten_fn(children, context) -> x."""
    optree.register_pytree_node(
        cls, flatten_fn, lambda context, children: unflatten_fn(list(children), context), namespace=NAMESPACE
    )


_register_pytree_node = register_pytree_node
