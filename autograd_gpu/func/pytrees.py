"""What the transforms check of nested tuples, lists and dicts of tensors."""

from __future__ import annotations

import functools
from typing import Any

from ..core.tensor import Tensor
from ..pytrees import TreeSpec, flatten


def name_of(function: Any) -> str:
    """The name of a function for error messages."""
    if isinstance(function, functools.partial):
        return f"functools.partial({name_of(function.func)}, ...)"
    return getattr(function, "__name__", None) or repr(function)


def tensors(tree: Any, what: str) -> tuple[list[Tensor], TreeSpec]:
    """The leaves of a pytree of tensors and its structure; RuntimeError, which begins with `what`, for others."""
    leaves, spec = flatten(tree)
    for x in leaves:
        if not isinstance(x, Tensor):
            raise RuntimeError(f"{what} only tensors, got unsupported type {type(x)}")
    return leaves, spec


def points(tree: Any) -> tuple[list[Tensor], TreeSpec]:
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


def some_tensors(tree: Any, api: str) -> tuple[list[Tensor], TreeSpec]:
    """The outputs of a function to be differentiated, at least one tensor and nothing else, and their structure."""
    leaves, spec = tensors(tree, f"{api}: expected f(*primals) to return")
    if not leaves:
        raise RuntimeError(f"{api}: Expected f to be a function that has non-empty output (got output = {tree})")
    return leaves, spec


def outputs(tree: Any, api: str) -> tuple[list[Tensor], TreeSpec]:
    """The outputs of a function to be differentiated in reverse mode, floating-point tensors, and their structure."""
    leaves, spec = some_tensors(tree, api)
    for x in leaves:
        if not x.is_floating_point():
            raise RuntimeError(f"{api}: All outputs of f must be floating-point or complex Tensors, got Tensor with "
                               f"dtype {x.dtype}")
    return leaves, spec
