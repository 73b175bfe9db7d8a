"""Variable: PyTorch's old class of tensors with a gradient, for old code."""

from __future__ import annotations

import warnings
from typing import Any

from ..core.tensor import Tensor, alias
from ..ops import tensor as make_tensor
from .callbacks import queue_callback


class _VariableMeta(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor)


class _Engine:
    """The part of PyTorch's engine that data-parallel code uses through Variable."""

    queue_callback = staticmethod(queue_callback)


class Variable(metaclass=_VariableMeta):
    """Variable(data, requires_grad=False): a leaf that shares the memory of the tensor `data`.

    For old code; every tensor is an instance. TypeError unless `data` is a tensor; without it the leaf is empty.
    `Variable._execution_engine.queue_callback` is `ag.autograd.graph.queue_callback`.

    >>> x = ag.autograd.Variable(ag.ones(2), requires_grad=True)
    >>> type(x).__name__, x.requires_grad, isinstance(x, ag.autograd.Variable)
    ('Tensor', True, True)
    """

    _execution_engine = _Engine()

    def __new__(cls, data: Any = None, requires_grad: bool = False, volatile: bool | None = None) -> Any:
        if volatile:
            warnings.warn("volatile was removed and now has no effect. Use `with ag.no_grad():` instead.", UserWarning,
                          stacklevel=2)
        if data is None:
            return make_tensor([], requires_grad=requires_grad)
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        return alias(data).requires_grad_(requires_grad)
