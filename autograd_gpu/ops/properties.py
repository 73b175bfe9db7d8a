"""Properties of tensors: sizes, strides, dtypes and devices as numbers and bools."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..backend.arrays import dtypes, strides
from ..backend.arrays.memory_format import strided
from ..core.extend import Tensor, method, other_words, public, tracer
from ..modes import MODES
from .indexing.basic_index import wrap_dim


@public()
def is_tensor(obj: Any) -> bool:
    """Whether `obj` is a Tensor.

    >>> ag.is_tensor(ag.ones(2)), ag.is_tensor(1.0)
    (True, False)
    """
    return isinstance(obj, Tensor)


@public(methods="nelement")
def numel(input: Tensor) -> int:
    """The number of elements of input.

    >>> ag.numel(ag.ones(2, 3))
    6
    """
    return input.numel()


@method()
def ndimension(x: Tensor) -> int:
    """The number of dimensions of x."""
    return x.ndim


def _at(values: tuple[int, ...], dim: int | None) -> Any:
    if dim is None:
        return values
    if not values:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    return values[wrap_dim(dim, len(values))]


@method()
@other_words
def size(x: Tensor, dim: int | None = None) -> Any:
    """The shape, or the length of one dimension.

    >>> ag.ones(2, 3).size(), ag.ones(2, 3).size(-1)
    ((2, 3), 3)
    """
    return x.shape if dim is None else _at(x.shape, dim)


@method()
@other_words
def stride(x: Tensor, dim: int | None = None) -> Any:
    """The strides of all dimensions, or of one, in elements; those of an empty tensor are row-major.

    >>> ag.ones(2, 3).stride()
    (3, 1)
    """
    array = x._layout()
    if not array.size:  # NumPy's strides of empty arrays depend on its version
        lengths = [max(n, 1) for n in array.shape]
        return _at(tuple([math.prod(lengths[i + 1 :]) for i in range(len(lengths))]), dim)
    return _at(tuple(s // array.itemsize for s in array.strides), dim)


@public()
def is_floating_point(input: Tensor) -> bool:
    """Whether input has a floating-point dtype.

    >>> ag.is_floating_point(ag.ones(2))
    True
    """
    return input.is_floating_point()


@public()
def is_inference(input: Tensor) -> bool:
    """Whether input was created in `ag.inference_mode`.

    >>> with ag.inference_mode():
    ...     x = ag.ones(2)
    >>> ag.is_inference(x), ag.is_inference(ag.ones(2))
    (True, False)
    """
    if not isinstance(input, Tensor):
        raise TypeError(f"is_inference(): argument 'input' must be Tensor, not {type(input).__name__}")
    return input.is_inference()


@public(methods=True)
def is_complex(input: Tensor) -> bool:
    """False: no dtype is complex.

    >>> ag.is_complex(ag.ones(2))
    False
    """
    return False


@public()
def real(input: Tensor) -> Tensor:
    """input itself, since no dtype is complex; also the property `x.real`.

    >>> ag.real(ag.ones(2)), ag.ones(2).real
    (tensor([1., 1.]), tensor([1., 1.]))
    """
    return input


@public(methods=True)
def is_signed(input: Tensor) -> bool:
    """Whether the dtype of input is signed.

    >>> ag.is_signed(ag.ones(2)), ag.is_signed(ag.ones(2, dtype=ag.uint8))
    (True, False)
    """
    return input.dtype.kind != "u" and input.dtype != dtypes.bool_


@public(methods=True)
def is_nonzero(input: Tensor) -> bool:
    """Whether the single element of input is not zero; RuntimeError unless input has one element.

    >>> ag.is_nonzero(ag.tensor([0.0]))
    False
    """
    return bool(input)


@public(methods=True)
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether both have the same shape.

    >>> ag.is_same_size(ag.ones(2), ag.ones(2, 1))
    False
    """
    return input.shape == other.shape


@public()
def result_type(tensor: Any, other: Any) -> np.dtype:
    """The dtype of an operation on a and b, tensors or numbers: a 0-d tensor, or a number, counts only if its category
    (bool, integer, floating point) is higher than that of the others.

    >>> ag.result_type(ag.ones(2, dtype=ag.int32), 1.0)
    dtype('float32')
    """
    tensors = [x for x in (tensor, other) if isinstance(x, Tensor)]
    numbers = [x for x in (tensor, other) if not isinstance(x, Tensor)]
    return dtypes.result_type([x.dtype for x in tensors if x.ndim], [x.dtype for x in tensors if not x.ndim], numbers)


@public(methods=True)
def get_device(input: Tensor) -> int:
    """The ordinal of input's CUDA device; -1 on the CPU.

    >>> ag.get_device(ag.ones(2, device="cpu"))
    -1
    """
    return -1 if input.device.index is None else input.device.index


@method()
def data_ptr(x: Tensor) -> int:
    """The address of the first element of x."""
    refuse_place("data_ptr")
    return strides.address(x._layout())


@method()
def storage_offset(x: Tensor) -> int:
    """The index in the storage of the first element of x.

    >>> ag.ones(2, 3)[1].storage_offset()
    3
    """
    refuse_place("storage_offset")
    return strides.offset_of(x._layout())


def refuse_place(name: str) -> None:
    """A call that is traced stays eager: the arguments of another one lie elsewhere."""
    if MODES.stack and (level := tracer()) is not None:
        level.refuse(f"{name}() of a tensor is asked for", "do it outside of the function")


def is_sparse(x: Tensor) -> bool:
    """False: there are no sparse tensors."""
    return False


def is_elsewhere(x: Tensor) -> bool:
    """False: a tensor is on the CPU or on CUDA."""
    return False


def layout(x: Tensor) -> Any:
    """`ag.strided`: every tensor is."""
    return strided


@method()
def to_dense(x: Tensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    """x itself, or in another dtype: every tensor is dense."""
    return x if dtype is None else x.to(dtype)


def is_cpu(x: Tensor) -> bool:
    """Whether x is on the CPU."""
    return not x.is_cuda
