"""Broadcasting of several tensors or shapes; atleast_1d, atleast_2d, atleast_3d."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.extend import Size, Tensor, method, public
from ..indexing.basic_index import unpacked
from .reshape import expand, reshape, sum_to


@public()
def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape that tensors of these shapes broadcast to; RuntimeError if they do not.

    >>> ag.broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    try:
        return Size(np.broadcast_shapes(*shapes))
    except ValueError:
        listed = ", ".join(str(shape) for shape in shapes)
        raise RuntimeError(f"broadcast_shapes: {listed} do not broadcast; sizes must be equal or 1, from the last "
                           "dimension on") from None


@public()
def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors expanded to the shape that they broadcast to, without copying.

    >>> ag.broadcast_tensors(ag.ones(2, 1), ag.zeros(3))[0].shape
    (2, 3)
    """
    tensors = unpacked(tensors)
    shape = broadcast_shapes(*[x.shape for x in tensors])
    return tuple([expand(x, shape) for x in tensors])


@method()
def sum_to_size(x: Tensor, *size: Any) -> Tensor:
    """x.sum_to_size(1, 3) or x.sum_to_size((1, 3)): x summed to a shape that broadcasts to that of x.

    >>> ag.ones(2, 3).sum_to_size(1, 3)
    tensor([[2., 2., 2.]])
    """
    shape = unpacked(size)
    if shape == x.shape:
        return x
    if len(shape) > x.ndim or any(n not in (1, m) for n, m in zip(shape[::-1], x.shape[::-1], strict=False)):
        raise RuntimeError(f"size {{{list(shape)}}} is not expandable to size {{{list(x.shape)}}}.")
    return sum_to(x, shape)


def _each(function: Any, tensors: tuple[Any, ...]) -> Any:
    """function(x) for one tensor, a tuple for several."""
    if len(tensors) == 1 and isinstance(tensors[0], Tensor):
        return function(tensors[0])
    return tuple([function(x) for x in unpacked(tensors)])


@public()
def atleast_1d(*tensors: Any) -> Any:
    """Each tensor with at least one dimension: a 0-d one becomes a vector; a tuple for several tensors.

    >>> ag.atleast_1d(ag.tensor(1.0))
    tensor([1.])
    """
    return _each(lambda x: x if x.ndim else reshape(x, (1,)), tensors)


@public()
def atleast_2d(*tensors: Any) -> Any:
    """Each tensor with at least two dimensions: a vector or 0-d one becomes a row; a tuple for several tensors.

    >>> ag.atleast_2d(ag.tensor([1.0, 2.0]))
    tensor([[1., 2.]])
    """
    return _each(lambda x: x if x.ndim > 1 else reshape(x, (1, -1)), tensors)


@public()
def atleast_3d(*tensors: Any) -> Any:
    """Each tensor with at least three: a matrix becomes (m, n, 1), a vector (1, n, 1); a tuple for several tensors.

    >>> ag.atleast_3d(ag.ones(2)).shape
    (1, 2, 1)
    """
    return _each(lambda x: x if x.ndim > 2 else reshape(x, (*x.shape, 1) if x.ndim == 2 else (1, -1, 1)), tensors)
