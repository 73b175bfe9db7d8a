"""`swap_tensors`: two tensors exchange everything but their identity."""

from __future__ import annotations

import gc
import weakref
from typing import Any

from ..core.graph.leaf import AccumulateGrad
from ..core.graph.tensor_base import TensorBase
from ..core.tensor import Tensor

_SLOTS = [name for name in (*TensorBase.__slots__, "_codes_dtype") if name != "__weakref__"]


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Exchanges two tensors in place: memory, gradient, history, class and attributes.

    Whoever holds one of them, such as a module, then sees the other. RuntimeError if one is a view or has views, or is
    referred to weakly by somebody else.

    >>> a, b = ag.nn.Parameter(ag.zeros(2)), ag.nn.Parameter(ag.ones(3))
    >>> ag.utils.swap_tensors(a, b)
    >>> a.shape, b.shape
    ((3,), (2,))
    """
    for name, tensor in (("t1", t1), ("t2", t2)):
        _check(name, tensor)
    t1.__class__, t2.__class__ = type(t2), type(t1)  # TypeError for float8 and another dtype, before any change
    states = [_taken(t1), _taken(t2)]
    for tensor, (slots, attributes) in zip((t2, t1), states, strict=True):
        for name, value in slots.items():
            setattr(tensor, name, value)
        tensor.__dict__.update(attributes)
        if isinstance(tensor._fn, AccumulateGrad):
            tensor._fn._ref = weakref.ref(tensor)


def _check(name: str, tensor: Tensor) -> None:
    """RuntimeError for a tensor whose identity somebody relies on."""
    known = 1 if isinstance(tensor._fn, AccumulateGrad) else 0  # the node of a leaf refers to it weakly
    if weakref.getweakrefcount(tensor) > known:
        raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
    views = any(isinstance(owner, Tensor) and owner._base is tensor for owner in gc.get_referrers(tensor))
    if tensor._base is not None or views:
        raise RuntimeError(f"Cannot swap {name} because it is a view or has views; swap what it is a view of before "
                           "views are made")


def _taken(tensor: Tensor) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the slots and the dict of the tensor hold; both are empty afterwards."""
    slots = {name: getattr(tensor, name) for name in _SLOTS if hasattr(tensor, name)}
    for name in slots:
        delattr(tensor, name)
    attributes = dict(tensor.__dict__)
    tensor.__dict__.clear()
    return slots, attributes
