"""Buffers and parameters with something to say about themselves: Buffer, UninitializedParameter."""

from __future__ import annotations

from typing import Any

from ..backend import is_array
from ..core.tensor import Parameter, StorageTensor, Tensor, rebuild
from ..core.views import bump_version, storage_of
from ..ops.creation import empty


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
        array = data._array if isinstance(data, Tensor) else data
        if isinstance(data, StorageTensor) or not is_array(array):
            raise TypeError(f"Buffer expects a Tensor or an array, got {type(data).__name__}; hand other tensors to "
                            "register_buffer")
        result = rebuild(cls if persistent else TransientBuffer, array, False, None)
        if isinstance(data, Tensor):
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

    An optimizer may hold it before. Its shape raises, and so does what reads it.

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
    def shape(self) -> tuple[int, ...]:
        raise RuntimeError("Can't access the shape of an uninitialized parameter or buffer. This error usually happens "
                           "in `load_state_dict` when trying to load an uninitialized parameter into an initialized "
                           "one. Call `forward` to initialize the parameters before accessing their attributes.")

    def materialize(self, shape: tuple[int, ...], device: Any = None, dtype: Any = None) -> None:
        """Gives it memory of `shape`, not set, on its device and in its dtype unless told otherwise."""
        fresh = empty(*shape, device=device or self.device, dtype=dtype or self.dtype)
        self.__class__ = Parameter  # type: ignore[assignment]
        self._array = fresh._array
        bump_version(self)

    def detach(self) -> Tensor:
        """Itself, since there is nothing to share yet."""
        return self

    def __repr__(self) -> str:
        return "<UninitializedParameter>"


def is_lazy(tensor: Any) -> bool:
    """Whether `tensor` is a parameter without a shape."""
    return isinstance(tensor, UninitializedParameter)


__all__ = ["Buffer", "Parameter", "UninitializedParameter", "is_lazy"]
