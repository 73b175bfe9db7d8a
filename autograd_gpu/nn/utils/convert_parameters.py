"""Conversion of parameters to one vector and back."""

from __future__ import annotations

from collections.abc import Iterable

from ...core.tensor import Tensor
from ...ops import cat


def _check_device(tensor: Tensor, first: Tensor) -> None:
    if tensor.device != first.device:
        raise TypeError("Found two parameters on different devices, this is currently not supported: "
                        f"{first.device} and {tensor.device}")


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """The flattened `parameters` concatenated into one vector; recorded. TypeError for mixed devices.

    >>> ag.nn.utils.parameters_to_vector([ag.ones(2, 1), ag.zeros(1)])
    tensor([1., 1., 0.])
    """
    listed = list(parameters)
    for tensor in listed:
        _check_device(tensor, listed[0])
    return cat([tensor.reshape(-1) for tensor in listed])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Makes each of `parameters` a view of its part of `vec`, in order. TypeError if `vec` is not a tensor,
    RuntimeError if it is too short.

    >>> p = ag.nn.Parameter(ag.zeros(2, 1))
    >>> ag.nn.utils.vector_to_parameters(ag.tensor([1.0, 2.0]), [p])
    >>> p.tolist()
    [[1.0], [2.0]]
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected a Tensor, but got: {type(vec).__name__}")
    start, source = 0, vec.detach()
    for parameter in parameters:
        _check_device(parameter, vec)
        end = start + parameter.numel()
        if end > vec.numel():
            raise RuntimeError(f"vector_to_parameters: the vector of {vec.numel()} elements is shorter than the "
                               "parameters")
        parameter.data = source[start:end].reshape(parameter.shape)
        start = end
