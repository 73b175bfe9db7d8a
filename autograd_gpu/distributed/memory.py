"""The memory of tensors that collectives read and fill, and what becomes of the tensors they write to."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, NoReturn

import numpy as np

from .. import backend
from ..autograd.function import Function
from ..core.graph.storage import before_write, bump_version
from ..core.tensor import Tensor
from ..missing_names import warn_once
from ..modes import GRAD_OFF, MODES


def checked(function: str, name: str, tensor: Any) -> Tensor:
    """TypeError unless `tensor` is a Tensor with memory of its own."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{function}: {name} must be a Tensor, not {type(tensor).__name__}")
    if not backend.is_array(tensor._array):
        raise RuntimeError(f"{function}: {name} belongs to a function transform such as vmap, where there are no "
                           "collectives; distributed.nn.functional has differentiable ones")
    return tensor


def home(array: Any) -> Any:
    """A context in which the device of `array` is the current one."""
    return array.device if backend.is_cuda(array) else nullcontext()


def flat(tensor: Tensor) -> Any:
    """The array of `tensor` in one dimension: its own memory if it is contiguous, else a copy."""
    with home(tensor._array):
        array = tensor._array.reshape(-1)
        return array if array.flags.c_contiguous else array.copy()


def described(tensor: Tensor) -> str:
    return f"{tensor.dtype} {list(tensor.shape)}"


class _Overwritten(Function):
    """Takes the place of a recorded tensor that a collective writes to: what it writes has no derivative here."""

    @staticmethod
    def forward(function: str, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tensors

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.function = inputs[0]
        ctx.mark_dirty(*output)

    @staticmethod
    def backward(ctx: Any, *gs: Any) -> tuple[Any, ...]:
        warn_once(f"backward through {ctx.function}",
                  f"distributed.{ctx.function} has written to a tensor that requires grad, and backward passes the "
                  "gradient on as if it had not; distributed.nn.functional has differentiable collectives")  # fmt: skip
        return None, *gs

    @staticmethod
    def jvp(ctx: Any, *ts: Any) -> NoReturn:
        raise RuntimeError(f"{ctx.function}: a collective that writes to its arguments has no derivative in forward "
                           "mode; distributed.nn.functional has differentiable ones")


def _is_recorded(tensor: Tensor) -> bool:
    return bool(MODES.stack) or (tensor.requires_grad and not tensor.is_leaf and not MODES.bits & GRAD_OFF)


class Written:
    """The arrays that a collective fills in place of those of tensors, and what brings them there.

    later: whether the caller goes on before the tensors are filled.
    """

    def __init__(self, function: str, tensors: Sequence[Tensor], later: bool) -> None:
        before_write(tensors)
        self.tensors, self.later = tensors, later
        if recorded := [tensor for tensor in tensors if _is_recorded(tensor)]:
            _Overwritten.apply(function, *recorded)
        for tensor in tensors:  # what was saved before must not be used from here on
            bump_version(tensor)

    def arrays(self) -> list[Any]:
        self.filled = [flat(tensor) for tensor in self.tensors]
        return self.filled

    def joined(self) -> Any:
        """One array for all of the tensors, one after the other: the memory of a single one."""
        if len(self.tensors) == 1:
            return self.arrays()[0]
        first = self.tensors[0]._array
        with home(first):
            whole = backend.namespace(first).empty(sum(t.numel() for t in self.tensors), first.dtype)
        ends = np.cumsum([t.numel() for t in self.tensors])
        self.filled = [whole[end - t.numel() : end] for t, end in zip(self.tensors, ends, strict=True)]
        return whole

    def __call__(self) -> None:
        """Copies what has been filled into tensors that have other memory."""
        for tensor, array in zip(self.tensors, self.filled, strict=True):
            target = tensor._array
            if not (target.flags.c_contiguous and backend.may_share_memory(target, array)):
                with home(target):
                    target[...] = array.reshape(target.shape)
            if self.later:  # nor what was saved in the meantime
                bump_version(tensor)


def joined(tensors: Sequence[Tensor]) -> Any:
    """The elements of the tensors, one after the other, in one array."""
    if len(tensors) == 1:
        return flat(tensors[0])
    with home(tensors[0]._array):
        return backend.namespace(tensors[0]._array).concatenate([flat(tensor) for tensor in tensors])


def apart(array: Any, out: Any) -> Any:
    """`array`, or a copy if it has memory of `out`, which MPI refuses and messages would overwrite."""
    if out is None or not backend.may_share_memory(array, out):
        return array
    with home(array):
        return array.copy()
