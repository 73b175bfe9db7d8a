"""Buffer and UninitializedParameter."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend import device_of, is_array
from ..backend.arrays.device import Device
from ..core.graph.storage import bump_version, storage_of
from ..core.size import Size
from ..core.tensor import Float8Tensor, Parameter, Tensor, rebuild, wrap_given
from ..ops.creation.factories import empty


class Buffer(Tensor):
    """A tensor that a Module registers as a buffer when it is assigned to an attribute.

    Buffer(data, persistent=True) shares the memory of `data`, a Tensor or an array. A non-persistent buffer is not in
    `state_dict`. The registered object is a plain Tensor. TypeError for other data.

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
        if isinstance(data, Float8Tensor) or not isinstance(data, Tensor):
            raise TypeError(f"Buffer expects a Tensor or an array, got {type(data).__name__}; pass other tensors to "
                            "register_buffer")
        result = rebuild(cls if persistent else TransientBuffer, data._array, False, None)
        result._storage = storage_of(data)
        return result

    def __init__(self, data: Any, *, persistent: bool = True) -> None:
        """Does nothing: __new__ makes the buffer."""


class TransientBuffer(Buffer):
    """A Buffer that is not in `state_dict`."""

    __slots__ = ()

    persistent = False


class UninitializedParameter(Parameter):
    """A parameter without a shape; `materialize` turns the same object into an ordinary Parameter.

    An optimizer may hold it before that. Reading its shape raises RuntimeError, its values ValueError.

    >>> p = ag.nn.UninitializedParameter()
    >>> p.materialize((2, 3))
    >>> type(p).__name__, p.shape
    ('Parameter', (2, 3))
    """

    __slots__ = ()

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> UninitializedParameter:
        return rebuild(cls, empty(0, device=device, dtype=dtype)._array, requires_grad, None)

    def __init__(self, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> None:
        """Does nothing: __new__ makes the parameter."""

    @property
    def _array(self) -> Any:
        """ValueError: the slot of Tensor holds an empty array, only for device and dtype."""
        raise ValueError("Attempted to use an uninitialized parameter: it has no values before the first `forward` of "
                         "its module. Call the module with an input first")

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
        """Sets the device and dtype for `materialize`."""
        self._array = empty(0, device=device or self.device, dtype=dtype or self.dtype)._array

    def materialize(self, shape: tuple[int, ...], device: Any = None, dtype: Any = None) -> None:
        """Allocates uninitialized memory of `shape`, by default on its device and in its dtype."""
        fresh = empty(*shape, device=device or self.device, dtype=dtype or self.dtype)
        self.__class__ = Parameter  # type: ignore[assignment]
        self._array = fresh._array
        bump_version(self)

    def detach(self) -> Tensor:
        """The parameter itself, since it has no memory."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> UninitializedParameter:
        result = memo[id(self)] = UninitializedParameter(self.requires_grad, self.device, self.dtype)
        return result

    def __reduce__(self) -> tuple[Any, ...]:
        return UninitializedParameter, (self.requires_grad, str(self.device), self.dtype)

    def __repr__(self) -> str:
        return "<UninitializedParameter>"


def is_lazy(tensor: Any) -> bool:
    """Whether `tensor` is an UninitializedParameter."""
    return isinstance(tensor, UninitializedParameter)


__all__ = ["Buffer", "Parameter", "UninitializedParameter", "is_lazy"]
