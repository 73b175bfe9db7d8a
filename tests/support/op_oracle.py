"""The counterpart of a call of an op in PyTorch."""

from __future__ import annotations

import operator

import numpy as np
import pytest
from op_db import as_tuple

from autograd_gpu import backend
from autograd_gpu.core.declare.op import RECORD
from autograd_gpu.core.declare.public import NAMED

torch = pytest.importorskip("torch")


class Theirs:
    """A call's counterpart: the same values in torch, and its outputs."""

    def __init__(self, call):
        self.inputs, self.call = [], call
        self.args = [self._convert(a) for a in call.args]
        self.outs = as_tuple(torch_call(call.row, self.args, call.sample.kwargs))

    def _convert(self, value):
        if isinstance(value, list):
            return [self._convert(item) for item in value]
        if not hasattr(value, "_array"):
            return value
        tensor = to_torch(value)
        if any(value is x for x in self.call.inputs):
            self.inputs.append(tensor.requires_grad_())
        return tensor


def to_torch(tensor):
    array = backend.to_numpy(tensor._array)
    if str(tensor.dtype) == "bfloat16":
        return torch.tensor(array.astype(np.float32)).to(torch.bfloat16)
    return torch.tensor(array.copy())


def counterpart(op):
    """What computes the same in PyTorch: by `torch` of the op's block, else by its own or a public name."""
    public = next(named.public for named in NAMED if named.function is getattr(RECORD, op.name))
    named = [name for name in public if not name.endswith("_")]
    for name in [op.torch] if op.torch else [*named, op.name]:
        try:
            return operator.attrgetter(name)(torch)
        except AttributeError:
            continue
    raise LookupError(f"{op.name}: PyTorch has none of its names; give its block `torch`, or its row a function")


def torch_call(row, args, kwargs):
    """PyTorch's function; numbers become 0-d tensors where it takes tensors only, which promote in the same way."""
    if callable(row.torch):
        return row.torch(torch, *args, **kwargs)
    function = counterpart(row.definition)
    if any(isinstance(a, (bool, int, float)) for a in args) and row.definition.numbers:
        try:
            return function(*args, **kwargs)
        except TypeError:
            floats = [a.dtype for a in args if isinstance(a, torch.Tensor) and a.is_floating_point()]
            kinds = {bool: torch.bool, int: torch.int64, float: floats[0] if floats else torch.get_default_dtype()}
            args = [torch.tensor(a, dtype=kinds[type(a)]) if type(a) in kinds else a for a in args]
    return function(*args, **kwargs)
