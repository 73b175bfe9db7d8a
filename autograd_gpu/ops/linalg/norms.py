"""Norms of vectors and matrices by torch.linalg's names, and condition numbers. `ag.norm` is in reduction/norm.py."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...backend.arrays import dtypes
from ...core.extend import Tensor, as_number, other_words, public
from ..creation.convert import to
from ..creation.from_data import as_tensor
from ..elementwise.arithmetic import where
from ..elementwise.unary import abs as absolute
from ..indexing.basic_index import wrap_dim
from ..reduction.minmax import amax, amin
from ..reduction.norm import norm as power_norm
from ..reduction.sum import sum as sum_over
from ..shape.permute import movedim
from ..shape.reshape import unsqueeze
from .checks import check_square
from .solve import inv_ex
from .svd import svdvals


@public("linalg.vector_norm", out=True)
@other_words
def vector_norm(
    x: Tensor, ord: float = 2, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:  # fmt: skip
    """sum(|x| ** ord) ** (1 / ord) over `dim`, or over all elements; x may have any shape.

    `ord` is a number: inf and -inf give the largest and the smallest |x|, 0 the number of nonzero elements. x is
    converted to `dtype` first. The derivative of a norm of 0 is 0.

    >>> ag.linalg.vector_norm(ag.tensor([[3.0, 4.0], [6.0, 8.0]]), dim=1)
    tensor([ 5., 10.])
    """
    ord = as_number("linalg.vector_norm", "ord", ord)
    if not isinstance(ord, (int, float)):
        raise RuntimeError(f"linalg.vector_norm: ord is a number; got {ord!r}")
    return power_norm(as_tensor(x), float(ord), dim, keepdim, dtype)


# ---- matrices -----------------------------------------------------------------------------------------

SINGULAR = ("nuc", 2, -2)
SUMS = (1, -1, math.inf, -math.inf)


def _two(name: str, x: Tensor, dim: Any) -> tuple[int, int]:
    """The dimensions of rows and columns, counted from the left."""
    if isinstance(dim, int) or len(dim) != 2:
        raise RuntimeError(f"{name}: dim must be a 2-tuple. Got {dim}")
    rows, columns = (wrap_dim(d, x.ndim) for d in dim)
    if rows == columns:
        raise RuntimeError(f"{name}: dims must be different. Got ({dim[0]}, {dim[1]})")
    return rows, columns


@public("linalg.matrix_norm", out=True)
@other_words
def matrix_norm(
    input: Tensor, ord: float | str = "fro", dim: Sequence[int] = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Tensor:  # fmt: skip
    """The norm `ord` of the matrices in the two dimensions `dim`.

    "fro" is the root of the sum of squares, "nuc" the sum of the singular values, 2 and -2 the largest and smallest of
    them, inf and -inf the largest and smallest sum of |input| along a row, 1 and -1 along a column. Ties share the
    gradient. Norms by singular values need float32 or float64.

    >>> ag.linalg.matrix_norm(ag.tensor([[1.0, -2.0], [3.0, 4.0]]), ord=1)
    tensor(6.)
    """
    input = as_tensor(input)
    if input.ndim < 2:
        raise RuntimeError("linalg.matrix_norm: The input tensor A must have at least 2 dimensions.")
    if ord not in ("fro", *SINGULAR, *SUMS):
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    rows, columns = _two("linalg.matrix_norm", input, dim)
    input = input if dtype is None else to(input, dtype)
    if input.dtype not in dtypes.FLOATS:
        raise RuntimeError(f"linalg.matrix_norm: Expected a floating point tensor as input. Got {input.dtype}")
    if ord == "fro":
        return power_norm(input, 2.0, (rows, columns), keepdim)
    if (rows, columns) != (input.ndim - 2, input.ndim - 1):
        input = movedim(input, (rows, columns), (-2, -1))
    sizes = svdvals(input) if ord in SINGULAR else sum_over(absolute(input), -2 if ord in (1, -1) else -1)
    if ord == "nuc" or (ord > 0 and not sizes.shape[-1]):  # type: ignore[operator]
        out = sum_over(sizes, -1)
    else:
        out = (amax if ord > 0 else amin)(sizes, -1)  # type: ignore[operator]
    if keepdim:
        for d in sorted((rows, columns)):
            out = unsqueeze(out, d)
    return out


@public("linalg.norm", out=True)
@other_words
def norm(
    input: Tensor, ord: float | str | None = None, dim: int | Sequence[int] | None = None, keepdim: bool = False, *,
    dtype: Any = None,
) -> Tensor:  # fmt: skip
    """`vector_norm` or `matrix_norm`: a matrix norm if `dim` names two dimensions, or if none and input has two.

    Without `ord` it is the 2-norm of the elements, whatever the shape.

    >>> ag.linalg.norm(ag.tensor([[3.0, 0.0], [0.0, 4.0]]), ord="nuc")
    tensor(7.)
    """
    input = as_tensor(input)
    if isinstance(dim, Sequence) and len(dim) not in (1, 2) and ord is not None:
        raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dim)}")
    if ord is None:
        return vector_norm(input, 2, dim, keepdim, dtype=dtype)
    if dim is None and input.ndim not in (1, 2):
        raise RuntimeError("linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got "
                           f"{input.ndim}D.")
    if isinstance(ord, str) or (input.ndim == 2 if dim is None else isinstance(dim, Sequence) and len(dim) == 2):
        return matrix_norm(input, ord, (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
    return vector_norm(input, ord, dim, keepdim, dtype=dtype)


@public("linalg.cond", out=True)
def cond(input: Tensor, p: float | str | None = None) -> Tensor:
    """The condition number in the matrix norm `p`, by default 2: norm(a) * norm(inv(a)).

    For 2 and -2 it is the ratio of singular values, of matrices of any shape; for other norms a is square, and the
    condition number of a singular matrix is inf. float32 or float64.

    >>> ag.linalg.cond(ag.tensor([[2.0, 0.0], [0.0, 8.0]]))
    tensor(4.)
    """
    input = as_tensor(input)
    if p is None or p in (2, -2):
        values = svdvals(input)
        if not values.shape[-1]:
            return sum_over(values, -1)
        first, last = values[..., 0], values[..., -1]
        return last / first if p == -2 else first / last
    check_square(f"linalg.cond(ord={p})", input)
    inverse, info = inv_ex(input)
    return where(info > 0, math.inf, matrix_norm(input, p) * matrix_norm(inverse, p))
