"""Nested tuples, lists and dicts of tensors: flattening, by optree, and what the transforms check of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

try:
    import optree
except ImportError as error:
    raise ImportError("autograd_gpu.func needs optree, a dependency of this package: pip install optree") from error

from ..core.tensor import Tensor

Spec = optree.PyTreeSpec


def flatten(tree: Any) -> tuple[list[Any], Spec]:
    """The leaves of a pytree, None among them, and its structure."""
    return optree.tree_flatten(tree, none_is_leaf=True)


def unflatten(spec: Spec, leaves: Sequence[Any]) -> Any:
    return optree.tree_unflatten(spec, leaves)


def tree_map(function: Callable[..., Any], tree: Any) -> Any:
    leaves, spec = flatten(tree)
    return unflatten(spec, [function(x) for x in leaves])


def spread(prefix: Any, tree: Any) -> list[Any]:
    """One element per leaf of `tree`, from a pytree that is a prefix of it; ValueError if it is none."""
    return optree.broadcast_prefix(prefix, tree, none_is_leaf=True)


def name_of(function: Any) -> str:
    """The name of a function for error messages."""
    if isinstance(function, functools.partial):
        return f"functools.partial({name_of(function.func)}, ...)"
    return getattr(function, "__name__", None) or repr(function)


def tensors(tree: Any, what: str) -> tuple[list[Tensor], Spec]:
    """The leaves of a pytree of tensors and its structure; RuntimeError, which begins with `what`, for others."""
    leaves, spec = flatten(tree)
    for x in leaves:
        if not isinstance(x, Tensor):
            raise RuntimeError(f"{what} only tensors, got unsupported type {type(x)}")
    return leaves, spec


def points(tree: Any) -> tuple[list[Tensor], Spec]:
    """The tensors to differentiate by in reverse mode, and their structure."""
    leaves, spec = flatten(tree)
    for x in leaves:
        if not isinstance(x, Tensor):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(x)}; for an argument that is "
                             "not to be differentiated use argnums")
        if not x.is_floating_point():
            raise RuntimeError(f"only Tensors of floating point dtype can require gradients; got {x.dtype}")
    return leaves, spec


def with_aux(result: Any, call: str, has_aux: bool) -> tuple[Any, Any]:
    """The output of a function and its aux, which is None unless `has_aux`."""
    if not has_aux:
        return result, None
    if not (isinstance(result, tuple) and len(result) == 2):
        raise RuntimeError(f"{call}: output of function f should be a tuple: (output, aux) if has_aux is True")
    return result


def some_tensors(tree: Any, api: str) -> tuple[list[Tensor], Spec]:
    """The outputs of a function to be differentiated, at least one tensor and nothing else, and their structure."""
    leaves, spec = tensors(tree, f"{api}: expected f(*primals) to return")
    if not leaves:
        raise RuntimeError(f"{api}: Expected f to be a function that has non-empty output (got output = {tree})")
    return leaves, spec


def outputs(tree: Any, api: str) -> tuple[list[Tensor], Spec]:
    """The outputs of a function to be differentiated in reverse mode, floating-point tensors, and their structure."""
    leaves, spec = some_tensors(tree, api)
    for x in leaves:
        if not x.is_floating_point():
            raise RuntimeError(f"{api}: All outputs of f must be floating-point or complex Tensors, got Tensor with "
                               f"dtype {x.dtype}")
    return leaves, spec
