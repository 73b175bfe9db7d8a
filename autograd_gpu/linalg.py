"""Linear algebra with torch.linalg's names, for batches of float32 and float64 matrices (..., m, n).

Uses LAPACK on the CPU, cuSOLVER and cuBLAS on CUDA.
"""

from __future__ import annotations

from .core.codegen.keywords import other_words
from .core.tensor import Tensor
from .errors import LinAlgError
from .ops._support.out import LINALG, take_out
from .ops.creation.factories import arange, as_tensor
from .ops.elementwise.arithmetic import pow
from .ops.linalg import vector_products
from .ops.linalg.cholesky import cholesky, cholesky_ex, solve_triangular
from .ops.linalg.det import det, slogdet
from .ops.linalg.eig import eig, eigh, eigvals, eigvalsh
from .ops.linalg.lu import lu, lu_factor, lu_factor_ex, lu_solve
from .ops.linalg.matmul import matmul
from .ops.linalg.matrix_functions import matrix_exp, matrix_power
from .ops.linalg.norms import cond, matrix_norm, norm, vector_norm
from .ops.linalg.qr import householder_product, qr
from .ops.linalg.solve import inv, inv_ex, solve, solve_ex, tensorinv, tensorsolve
from .ops.linalg.svd import lstsq, matrix_rank, pinv, svd, svdvals
from .ops.linalg.tensordot import multi_dot
from .ops.linalg.vector_products import vecdot
from .ops.shape.diagonal import diagonal as _diagonal
from .ops.shape.reshape import unsqueeze

__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "householder_product",
    "inv",
    "inv_ex",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensorinv",
    "tensorsolve",
    "vander",
    "vecdot",
    "vector_norm",
]


@other_words
def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """The cross products of 3-vectors along `dim`; the other dimensions broadcast.

    >>> ag.linalg.cross(ag.tensor([1.0, 0.0, 0.0]), ag.tensor([0.0, 1.0, 0.0]))
    tensor([0., 0., 1.])
    """
    return vector_products.cross(input, other, dim)


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonal `offset` of the matrices in dimensions dim1 and dim2, as a view.

    >>> ag.linalg.diagonal(ag.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([1., 4.])
    """
    return _diagonal(A, offset, dim1, dim2)


def vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """The Vandermonde matrix: powers 0 to N - 1 (default N: len(x)) of each element along a new last dimension.

    >>> ag.linalg.vander(ag.tensor([2.0, 3.0]), N=3)
    tensor([[1., 2., 4.],
            [1., 3., 9.]])
    """
    x = as_tensor(x)
    size = (x.shape[-1] if x.ndim else 0) if N is None else N
    if size <= 1:
        raise RuntimeError("N must be greater than 1.")
    return pow(unsqueeze(x, -1), arange(size, device=x.device))


take_out(globals(), LINALG)
