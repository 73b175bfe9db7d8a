"""Functions of a square matrix: powers and the exponential; Vandermonde matrices."""

from __future__ import annotations

from ... import backend
from ...backend.arrays.dtypes import int64
from ...core.extend import MATRICES, RECORD, Tensor, defop, public
from ..creation.convert import contiguous
from ..creation.factories import constant_like, eye
from ..creation.from_data import as_tensor
from ..reduction.cumulative import cumprod
from ..shape.rearrange import flip
from ..shape.reshape import expand, unsqueeze
from .checks import check_square
from .matmul import matmul
from .solve import inv


def _matrix_exp(xp, a):
    check_square("linalg.matrix_exp", a)
    return backend.decompositions(xp).expm(a)


def _matrix_exp_jvp(F, t, a):
    """The upper right block of exp([[a, t], [0, a]]); Van Loan, IEEE Trans. Automat. Control 23 (1978)."""
    n, zeros = a.shape[-1], F.constant_like(a, 0.0)
    both = F.cat([F.cat([a, t], -1), F.cat([zeros, a], -1)], -2)
    return F.basic_index(F.matrix_exp(both), (..., slice(n), slice(n, None)))


@defop
class matrix_exp:
    """The exponential of a square matrix, 1 + a + a a / 2 + ...; float32 or float64.

    By scaling and squaring: Al-Mohy and Higham, SIAM J. Matrix Anal. Appl. 31 (2009).

    >>> ag.matrix_exp(ag.tensor([[0.0, 1.0], [0.0, 0.0]]))
    tensor([[1., 1.],
            [0., 1.]])
    """

    no_capture = "cuBLAS"
    forward = _matrix_exp
    def grad_a(F, g, a): return _matrix_exp_jvp(F, g, F.mT(a))
    jvp, batch = _matrix_exp_jvp, MATRICES
    takes_out = False
    public = "matrix_exp", "linalg.matrix_exp"
    methods = True


@public("matrix_power", "linalg.matrix_power", methods=True, out=True)
def matrix_power(input: Tensor, n: int) -> Tensor:
    """The product of n factors a by repeated squaring, of the inverse for n < 0; the identity for n = 0.

    >>> ag.matrix_power(ag.tensor([[1.0, 1.0], [0.0, 1.0]]), 5)
    tensor([[1., 5.],
            [0., 1.]])
    """
    input = as_tensor(input)
    if input.ndim < 2:
        raise RuntimeError("linalg.matrix_power: The input tensor A must have at least 2 dimensions.")
    if input.shape[-1] != input.shape[-2]:
        raise RuntimeError("linalg.matrix_power: A must be batches of square matrices, but they are "
                           f"{input.shape[-2]} by {input.shape[-1]} matrices")
    if n == 0:
        one = eye(input.shape[-1], dtype=input.dtype, device=input.device)
        none = RECORD.basic_index(input, (..., slice(0), slice(None)))  # so that the gradient is zero, not missing
        return RECORD.cat([none, RECORD.expand(one, input.shape)], -2)
    square = inv(input) if n < 0 else input
    result, n = None, abs(n)
    while True:
        if n & 1:
            result = square if result is None else matmul(result, square)
            if n == 1:
                return result
        n >>= 1
        square = matmul(square, square)


@public()
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """Rows of powers N - 1 to 0 (0 to N - 1 if `increasing`) of each element of the vector x; N defaults to its length.

    >>> ag.vander(ag.tensor([1, 2, 3]))
    tensor([[1, 1, 1],
            [4, 2, 1],
            [9, 3, 1]])
    """
    if x.ndim != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    N = x.numel() if N is None else N
    if N < 0:
        raise RuntimeError("N must be non-negative.")
    powers = _powers(x if x.is_floating_point() else x.to(int64), N)
    return powers if increasing else flip(powers, (1,))


def _powers(x: Tensor, n: int) -> Tensor:
    """The powers 0 to n - 1 of each element, along a new last dimension, as products: pow takes fifty times as long."""
    x = unsqueeze(x, -1)
    factors = [constant_like(x, 1), expand(x, (*x.shape[:-1], n - 1))] if n > 1 else [constant_like(x, 1)]
    return cumprod(RECORD.cat(factors, -1), -1)[..., :n]


@public("linalg.vander")
def linalg_vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """The powers 0, 1, ... N - 1 (default: the size of the last dimension) of each element, along a new last dimension.

    >>> ag.linalg.vander(ag.tensor([2.0, 3.0]), N=3)
    tensor([[1., 2., 4.],
            [1., 3., 9.]])
    """
    x = contiguous(as_tensor(x))
    size = (x.shape[-1] if x.ndim else 0) if N is None else N
    if size <= 1:
        raise RuntimeError("N must be greater than 1.")
    return _powers(x if x.is_floating_point() else x.to(int64), size)
