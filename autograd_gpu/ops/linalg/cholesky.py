"""Triangular systems, and the Cholesky decomposition."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from ... import backend
from ...core.extend import MATRICES, SAME, Tensor, check_values, defop, one_by_one, public, rank
from ..creation.factories import eye
from ..creation.from_data import as_tensor
from ..shape.permute import mT
from .checks import check_square, check_system, info_array, raise_if_failed, solutions
from .matmul import ALWAYS

# ---- triangular systems -------------------------------------------------------------------------------


def _solve_triangular(xp, a, b, *, upper, left=True, unitriangular=False):
    check_system("linalg.solve_triangular", a, b, left)
    solver = backend.decompositions(xp).solve_triangular
    if left:
        return solver(a, b, upper, unitriangular)
    return solver(a.swapaxes(-1, -2), b.swapaxes(-1, -2), not upper, unitriangular).swapaxes(-1, -2)


def _solve_triangular_back(F, g, need, a, out, upper, left, unitriangular):
    """b's gradient solves the system with aᵀ and g; a's is its product with the solution, in the triangle."""
    h = F.solve_triangular(F.mT(a), g, not upper, left, unitriangular)
    if not need[0]:
        return None, h
    full = -F.gemm(h, out, False, True) if left else -F.gemm(out, h, True, False)
    return _triangle(F, full, upper, unitriangular), h


def _triangle(F, a, upper, unitriangular):
    """The triangle of a that solve_triangular reads."""
    return F.triu(a, int(unitriangular)) if upper else F.tril(a, -int(unitriangular))


def _solve_triangular_jvp(F, t, a, out, upper, left, unitriangular):
    """The solution of a @ y = t_b - t_a @ x."""
    t_a, right = t
    if t_a is not None:
        t_a = _triangle(F, t_a, upper, unitriangular)
        moved = F.gemm(t_a, out) if left else F.gemm(out, t_a)
        right = -moved if right is None else right - moved
    return F.solve_triangular(a, right, upper, left, unitriangular)


def _solve_triangular_batch(F, n, batched, a, b, *, upper, left, unitriangular):
    def run(a, b): return F.solve_triangular(a, b, upper, left, unitriangular)
    if rank(a, batched[0]) < 2 or rank(b, batched[1]) < 2:
        return one_by_one(F, "solve_triangular", run, n, batched, (a, b))  # which raises the op's error
    return solutions(F, run, n, batched, a, b, left)


@defop
class solve_triangular:
    """x with a @ x = b, or x @ a = b if not `left`; only the `upper` or lower triangle of the matrices a is read.

    With `unitriangular` the diagonal is taken as ones. A zero on the diagonal gives infinities or NaN, not an error.
    The batches broadcast.

    >>> ag.linalg.solve_triangular(ag.tensor([[2.0, 1.0], [0.0, 1.0]]), ag.tensor([[4.0], [2.0]]), upper=True)
    tensor([[1.],
            [2.]])
    """

    no_capture = "cuSOLVER"
    forward = _solve_triangular
    grads = _solve_triangular_back
    parameter_names = ("input", "B")
    types, broadcasts = SAME, ALWAYS
    jvp, batch = _solve_triangular_jvp, _solve_triangular_batch
    public = "linalg.solve_triangular"
    no_lossy_save = True


# ---- Cholesky -----------------------------------------------------------------------------------------


def _not_positive(i):
    return ("The factorization could not be completed because the input is not positive-definite (the leading minor of "
            f"order {i} is not positive-definite).")


def _cholesky(xp, a, *, upper=False, check_errors=True):
    check_square("linalg.cholesky", a)
    out, info = backend.decompositions(xp).cholesky(a, upper)
    if check_errors:
        raise_if_failed("linalg.cholesky", info, _not_positive)
    return out


def _cholesky_back(F, g, out, upper):
    """L⁻ᵀ S L⁻¹, where S is the symmetric part of the lower triangle of Lᵀ g; Murray, arXiv:1602.07527."""
    lower, g = (F.mT(out), F.mT(g)) if upper else (out, g)
    s = F.gemm(lower, g, True, False)
    s = (F.tril(s) + F.mT(F.tril(s, -1))) * 0.5
    half = F.solve_triangular(F.mT(lower), s, True)
    return F.solve_triangular(F.mT(lower), F.mT(half), True)


def _cholesky_jvp(F, t, out, upper):
    """L S for S the lower triangle of the symmetric part of L⁻¹ t L⁻ᵀ, its diagonal halved."""
    lower = F.mT(out) if upper else out
    half = F.solve_triangular(lower, t, False)
    inside = F.solve_triangular(lower, F.mT(half), False)
    moved = F.gemm(lower, (F.tril(inside) + F.tril(F.mT(inside), -1)) * 0.5)
    return F.mT(moved) if upper else moved


@defop
class cholesky:
    """The lower triangle L with L @ L.mT = a, for positive-definite a; or U with U.mT @ U = a if `upper`.

    Only that triangle of a is read; the gradient is symmetric. LinAlgError if a is not positive-definite, or NaN with
    `check_errors=False`.

    >>> ag.linalg.cholesky(ag.tensor([[4.0, 2.0], [2.0, 2.0]]))
    tensor([[2., 0.],
            [1., 1.]])
    """

    no_capture = "cuSOLVER"
    forward = _cholesky
    grad_a = _cholesky_back
    jvp, batch = _cholesky_jvp, MATRICES
    public = "cholesky", "linalg.cholesky"
    methods = no_lossy_save = True


@defop
class minor_info:
    """Of each square matrix 0, or the order of its first leading minor that is not positive; int32.

    >>> from autograd_gpu.ops.linalg.cholesky import minor_info
    >>> minor_info(-ag.eye(2))
    tensor(1, dtype=int32)
    """

    no_capture = "cuSOLVER"
    def forward(xp, a, *, upper=False): return info_array(backend.decompositions(xp).cholesky(a, upper)[1], a)
    nondiff = True
    batch = MATRICES


cholesky_result = namedtuple("cholesky_result", ("L", "info"))


@public("linalg.cholesky_ex", out=True)
def cholesky_ex(input: Tensor, *, upper: bool = False, check_errors: bool = False) -> Any:
    """(L, info) of `linalg.cholesky`: info is 0, or the order of the first leading minor that is not positive.

    The factor of such a matrix is NaN.

    >>> ag.linalg.cholesky_ex(-ag.eye(2)).info
    tensor(1, dtype=int32)
    """
    input = as_tensor(input)
    check_square("linalg.cholesky_ex", input)
    info = minor_info(input, upper)
    if check_errors:
        check_values(info, lambda info: raise_if_failed("linalg.cholesky_ex", backend.to_numpy(info), _not_positive))
    return cholesky_result(cholesky(input, upper, False), info)


@public(methods=True, out=True)
def cholesky_solve(input: Tensor, input2: Tensor, upper: bool = False) -> Tensor:
    """x with a @ x = input, from the Cholesky factor `input2` of a, the lower or `upper` triangle.

    >>> ag.cholesky_solve(ag.tensor([[4.0], [8.0]]), ag.tensor([[2.0, 0.0], [0.0, 2.0]]))
    tensor([[1.],
            [2.]])
    """
    for name, x in (("b", input), ("u", input2)):
        if x.ndim < 2:
            raise RuntimeError(f"{name} should have at least 2 dimensions, but has {x.ndim} dimensions instead")
    m, n = input2.shape[-2:]
    if m == n != input.shape[-2]:
        raise RuntimeError(f"Incompatible matrix sizes for cholesky_solve: each A matrix is {m} by {n} but each b "
                           f"matrix is {input.shape[-2]} by {input.shape[-1]}")
    flipped = mT(input2)
    first, second = (flipped, input2) if upper else (input2, flipped)
    return solve_triangular(second, solve_triangular(first, input, upper=False), upper=True)


@public(methods=True, out=True)
def cholesky_inverse(input: Tensor, upper: bool = False) -> Tensor:
    """The inverse of a, from the Cholesky factor of a, the lower or `upper` triangle.

    >>> ag.cholesky_inverse(ag.tensor([[2.0, 0.0], [0.0, 1.0]]))
    tensor([[0.25, 0.  ],
            [0.  , 1.  ]])
    """
    check_square("cholesky_inverse", input)
    return cholesky_solve(eye(input.shape[-1], dtype=input.dtype, device=input.device), input, upper)
