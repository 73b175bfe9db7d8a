"""PyTorch's old tensor types, such as FloatTensor: a dtype and a kind of device in one name, for old programs.

They construct tensors, name what `Tensor.type` converts to, and are classes for isinstance. `Tensor` does the same
with any dtype; its constructor is here, too. New code says `ag.tensor(data)` and `ag.empty(sizes)`.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ...backend.arrays import dtypes
from ...backend.arrays.device import set_default_device
from ...core.extend import Tensor, as_subclass, method, public
from .convert import to
from .factories import empty
from .like import new

TYPE_NAMES = {
    dtypes.float16: "HalfTensor", dtypes.bfloat16: "BFloat16Tensor", dtypes.float32: "FloatTensor",
    dtypes.float64: "DoubleTensor", dtypes.uint8: "ByteTensor", dtypes.int8: "CharTensor",
    dtypes.int16: "ShortTensor", dtypes.int32: "IntTensor", dtypes.int64: "LongTensor", dtypes.bool_: "BoolTensor",
}  # fmt: skip


class TensorType(type):
    """The class of the tensor types: isinstance looks at a tensor's dtype and device, a call makes a tensor."""

    dtype: np.dtype
    is_cuda: bool
    is_sparse = False

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor) and instance.dtype == cls.dtype and instance.is_cuda == cls.is_cuda

    def __call__(cls, *sizes: Any, data: Any = None, size: Any = None, device: Any = None) -> Tensor:
        home = "cuda" if cls.is_cuda else "cpu"
        if device is not None and str(device).partition(":")[0] != home:
            raise RuntimeError(f"legacy constructor expects device type: {home} but device type: {device} was passed")
        args = sizes if data is None else (data,)
        return new(empty(0, dtype=cls.dtype, device=home), *args, size=size, device=device)


def _name(dtype: np.dtype, is_cuda: bool) -> str:
    return f"torch.{'cuda.' if is_cuda else ''}{TYPE_NAMES.get(dtype, dtype)}"


def _types(is_cuda: bool) -> dict[str, TensorType]:
    """The tensor types on the CPU or on CUDA, by name."""
    where, module = ("a CUDA device", "autograd_gpu.cuda") if is_cuda else ("the CPU", "autograd_gpu")
    return {
        name: TensorType(name, (), {
            "dtype": dtype, "is_cuda": is_cuda, "__module__": module,
            "__doc__": f"""PyTorch's old type of {dtype} tensors on {where}, for calls and isinstance.

            {name}(2, 3) is an uninitialized tensor of that shape, {name}([0, 1]) a tensor of these numbers.

            >>> {module.replace("autograd_gpu", "ag")}.{name}.dtype
            {dtype!r}
            """,
        })
        for dtype, name in TYPE_NAMES.items()
    }  # fmt: skip


CPU_TYPES, CUDA_TYPES = _types(False), _types(True)
_NAMED = {_name(cls.dtype, cls.is_cuda): cls for types in (CPU_TYPES, CUDA_TYPES) for cls in types.values()}


def construct(
    cls: Any, *sizes: Any, data: Any = None, size: Any = None, device: Any = None
) -> Tensor:  # fmt: skip
    """Tensor(2, 3) is uninitialized, Tensor([2, 3]) a copy in the default dtype; Tensor(t) shares memory with t.

    A subclass gets a leaf of its own class; what operations make of it are plain tensors, unlike PyTorch's. TypeError
    for a number that is no size.
    """
    args = sizes if data is None else (data,)
    if len(args) == 1 and isinstance(args[0], Tensor):
        result = args[0].view_as(args[0])
    else:
        result = new(empty(0, device=device), *args, size=size)
    return result if cls is Tensor else as_subclass(result, cls)


@method("type")
def type_method(x: Tensor, dtype: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Any:
    """x in another dtype, like x.to(dtype); without one PyTorch's name of the type, such as "torch.cuda.FloatTensor".

    `dtype` is a dtype, a tensor type or its name; the last two say on which device, too. ValueError for another name.

    >>> x = ag.ones(2, device="cpu")
    >>> x.type(), x.type("torch.LongTensor").dtype, x.type(ag.DoubleTensor).dtype
    ('torch.FloatTensor', dtype('int64'), dtype('float64'))
    """
    if dtype is None:
        return _name(x.dtype, x.is_cuda)
    named = _tensor_type(dtype)
    if named is None:
        return to(x, dtype, memory_format=memory_format)
    home = x.device if x.is_cuda == named.is_cuda else "cuda" if named.is_cuda else "cpu"
    return to(x, home, named.dtype, memory_format=memory_format)


def _tensor_type(kind: Any) -> TensorType | None:
    """The tensor type that `kind` is or names; None for anything else, which may be a dtype."""
    if kind is Tensor or kind == "torch.Tensor":
        return CPU_TYPES[TYPE_NAMES[dtypes.get_default_dtype()]]
    if isinstance(kind, str) and kind.endswith("Tensor"):
        if kind not in _NAMED:
            raise ValueError(f"invalid type: {kind!r}; one is 'torch.FloatTensor', or 'torch.cuda.FloatTensor'")
        return _NAMED[kind]
    return kind if isinstance(kind, TensorType) else None


@public()
def typename(obj: Any) -> str:
    """The name of a tensor's type, such as "torch.FloatTensor"; of another object that of its class.

    >>> ag.typename(ag.ones(2, device="cpu")), ag.typename(3), ag.typename(ag.nn.ReLU())
    ('torch.FloatTensor', 'int', 'autograd_gpu.nn.activation.ReLU')
    """
    if isinstance(obj, Tensor):
        return _name(obj.dtype, obj.is_cuda)
    named = obj if hasattr(obj, "__qualname__") else type(obj)
    module = getattr(named, "__module__", None)
    return named.__qualname__ if module in (None, "builtins") else f"{module}.{named.__qualname__}"


def set_default_tensor_type(t: Any) -> None:
    """Sets the default dtype and device by a tensor type or its PyTorch name, or the default dtype by a dtype.

    Deprecated in PyTorch, so it warns as PyTorch does; use `ag.set_default_dtype` and `ag.set_default_device`.
    TypeError for anything but a floating-point type.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", UserWarning)
    ...     ag.set_default_tensor_type("torch.FloatTensor")
    """
    warnings.warn("set_default_tensor_type() is deprecated, as in PyTorch; use set_default_dtype() and "
                  "set_default_device()", UserWarning, stacklevel=2)
    named = _NAMED.get(t) if isinstance(t, str) else t
    if named is None or dtypes.as_dtype(named.dtype if isinstance(named, TensorType) else named) not in dtypes.FLOATS:
        raise TypeError("only floating-point types are supported as the default type, by their names, "
                        f"'torch.DoubleTensor' or 'torch.cuda.FloatTensor'; got {t!r}")
    if isinstance(named, TensorType):
        dtypes.set_default_dtype(named.dtype)
        set_default_device("cuda" if named.is_cuda else "cpu")
    else:
        dtypes.set_default_dtype(named)
