"""Buffers and parameters with something to say about themselves: Buffer, UninitializedParameter."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend import device_of, is_array
from ..backend.arrays.device import Device
from ..core.graph.storage import bump_version, storage_of
from ..core.size import Size
from ..core.tensor import Parameter, StorageTensor, Tensor, rebuild, wrap_given
from ..ops.creation.factories import empty


class Buffer(Tensor):
    """A tensor that a Module takes as a buffer when it is assigned to an attribute; from then on a plain Tensor.

    Buffer(data, persistent=True) shares the memory of `data`, a Tensor or an array; one that is not persistent is left
    out of `state_dict`.

    >>> module = ag.nn.Module()
    >>> module.mean = ag.nn.Buffer(ag.zeros(2))
    >>> list(module.state_dict())
    ['mean']
    """

    __slots__ = ()

    persistent = True

    def __new__(cls, data: Any, *, persistent: bool = True) -> Buffer:
        if not isinstance(data, Tensor) and is_array(data):
            data = wrap_given(data)
        if isinstance(data, StorageTensor) or not isinstance(data, Tensor):
            raise TypeError(f"Buffer expects a Tensor or an array, got {type(data).__name__}; hand other tensors to "
                            "register_buffer")
        result = rebuild(cls if persistent else TransientBuffer, data._array, False, None)
        result._storage = storage_of(data)
        return result

    def __init__(self, data: Any, *, persistent: bool = True) -> None:
        """Everything is done by __new__."""


class TransientBuffer(Buffer):
    """A Buffer that is left out of `state_dict`."""

    __slots__ = ()

    persistent = False


class UninitializedParameter(Parameter):
    """A parameter whose shape is not known yet; `materialize` makes an ordinary Parameter of the same object.

    An optimizer may hold it before. Its shape raises a RuntimeError and its values a ValueError.

    >>> p = ag.nn.UninitializedParameter()
    >>> p.materialize((2, 3))
    >>> type(p).__name__, p.shape
    ('Parameter', (2, 3))
    """

    __slots__ = ()

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> UninitializedParameter:
        return rebuild(cls, empty(0, device=device, dtype=dtype)._array, requires_grad, None)

    def __init__(self, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> None:
        """Everything is done by __new__."""

    @property
    def _array(self) -> Any:
        """Refused: the slot of Tensor holds an empty array, which only says device and dtype."""
        raise ValueError("Attempted to use an uninitialized parameter: it has no values before the first `forward` of "
                         "its module. Call that with an example")

    @_array.setter
    def _array(self, array: Any) -> None:
        Tensor._array.__set__(self, array)

    @property
    def shape(self) -> Size:
        raise RuntimeError("Can't access the shape of an uninitialized parameter or buffer. This error usually happens "
                           "in `load_state_dict` when trying to load an uninitialized parameter into an initialized "
                           "one. Call `forward` to initialize the parameters before accessing their attributes.")

    @property
    def dtype(self) -> np.dtype:
        return Tensor._array.__get__(self).dtype

    @property
    def device(self) -> Device:
        return device_of(Tensor._array.__get__(self))

    @property
    def is_cuda(self) -> bool:
        return self.device.type == "cuda"

    def place(self, device: Any = None, dtype: Any = None) -> None:
        """Says where, and in which dtype, it will be."""
        self._array = empty(0, device=device or self.device, dtype=dtype or self.dtype)._array

    def materialize(self, shape: tuple[int, ...], device: Any = None, dtype: Any = None) -> None:
        """Gives it memory of `shape`, not set, on its device and in its dtype unless told otherwise."""
        fresh = empty(*shape, device=device or self.device, dtype=dtype or self.dtype)
        self.__class__ = Parameter  # type: ignore[assignment]
        self._array = fresh._array
        bump_version(self)

    def detach(self) -> Tensor:
        """Itself, since there is nothing to share yet."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> UninitializedParameter:
        result = memo[id(self)] = UninitializedParameter(self.requires_grad, self.device, self.dtype)
        return result

    def __reduce__(self) -> tuple[Any, ...]:
        return UninitializedParameter, (self.requires_grad, str(self.device), self.dtype)

    def __repr__(self) -> str:
        return "<UninitializedParameter>"


def is_lazy(tensor: Any) -> bool:
    """Whether `tensor` is a parameter without a shape."""
    return isinstance(tensor, UninitializedParameter)


__all__ = ["Buffer", "Parameter", "UninitializedParameter", "is_lazy"]
