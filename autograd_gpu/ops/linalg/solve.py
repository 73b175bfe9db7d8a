"""Inverses, and solutions of square linear systems."""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Sequence
from typing import Any

from ... import backend
from ...core.extend import MATRICES, SAME, Tensor, check_values, defop, one_by_one, public, rank
from ..creation.from_data import as_tensor
from ..shape.permute import movedim
from ..shape.reshape import ravel, reshape
from .checks import check_square, check_system, info_array, raise_if_failed, solutions
from .matmul import ALWAYS

# ---- inverse -----------------------------------------------------------------------------------------


def _zero_pivot(i):
    return (f"The diagonal element {i} is zero, the inversion could not be completed because the input matrix is "
            "singular.")


def _inv(xp, a, *, check_errors=True):
    check_square("linalg.inv", a)
    out, info = backend.decompositions(xp).inv(a)
    if check_errors:
        raise_if_failed("linalg.inv", info, _zero_pivot)
    return out


@defop
class inv:
    """The inverse of a square matrix, or of each in a batch; float32 or float64.

    LinAlgError for a singular matrix, or NaN with `check_errors=False`. To solve a system, `linalg.solve` is faster and
    more accurate.

    >>> ag.linalg.inv(ag.tensor([[2.0, 1.0], [1.0, 1.0]]))
    tensor([[ 1., -1.],
            [-1.,  2.]])
    """

    no_capture = "cuSOLVER"
    forward = _inv
    parameter_names = ("A",)
    def grad_a(F, g, out): return -F.gemm(F.gemm(out, g, True, False), out, False, True)
    def jvp(F, t, out): return -F.gemm(F.gemm(out, t), out)
    batch = MATRICES
    public = "inverse", "linalg.inv"
    methods = no_lossy_save = True


@defop
class pivot_info:
    """Of each square matrix 0, or the index, from 1, of its first zero pivot; int32.

    >>> from autograd_gpu.ops.linalg.solve import pivot_info
    >>> pivot_info(ag.zeros(2, 2))
    tensor(1, dtype=int32)
    """

    no_capture = "cuSOLVER"
    def forward(xp, a): return info_array(backend.decompositions(xp).lu(a)[2], a)
    nondiff = True
    batch = MATRICES


inverse = inv
inv_result = namedtuple("inv_result", ("inverse", "info"))


@public("linalg.inv_ex", out=True)
def inv_ex(A: Tensor, *, check_errors: bool = False) -> Any:
    """(inverse, info): info is 0, or the index of the first zero pivot; the inverse is then NaN.

    With `check_errors` LinAlgError instead.

    >>> ag.linalg.inv_ex(ag.zeros(2, 2)).info
    tensor(1, dtype=int32)
    """
    A = as_tensor(A)
    check_square("linalg.inv_ex", A)
    info = pivot_info(A)
    if check_errors:
        check_values(info, lambda info: raise_if_failed("linalg.inv_ex", backend.to_numpy(info), _zero_pivot))
    return inv_result(inv(A, False), info)


@public("linalg.tensorinv", out=True)
def tensorinv(input: Tensor, ind: int = 2) -> Tensor:
    """The inverse of a as a map from its last to its first `ind` dimensions: tensordot(a_inv, a, ind) is the identity.

    >>> ag.linalg.tensorinv(ag.eye(6).reshape(2, 3, 6), ind=2).shape
    (6, 2, 3)
    """
    if ind <= 0:
        raise RuntimeError(f"Expected a strictly positive integer for 'ind', but got {ind}")
    first, last = input.shape[:ind], input.shape[ind:]
    rows, columns = math.prod(first), math.prod(last)
    if rows != columns:
        raise RuntimeError("Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), "
                           f"but got {columns} != {rows}")
    return reshape(inv(reshape(input, (rows, columns))), (*last, *first))


# ---- solve -------------------------------------------------------------------------------------------


def _singular(i):
    return "The solver failed because the input matrix is singular."


def is_vector(a_shape, b_shape):
    """Whether b is one vector for each matrix of a, by PyTorch's rule."""
    return len(b_shape) == 1 or (len(a_shape) - 1 == len(b_shape) and tuple(b_shape) == tuple(a_shape[:-1]))


def _solve(xp, a, b, *, left=True, check_errors=True):
    check_square("linalg.solve", a)
    vector = is_vector(a.shape, b.shape)
    if vector and not left:
        raise RuntimeError("linalg.solve: Vector broadcasting of the left hand side is not supported for left=False. "
                           "In this case linalg.solve is equivalent to B / A.squeeze(-1)")
    b = b[..., None] if vector else b
    check_system("linalg.solve", a, b, left)
    solver = backend.decompositions(xp).solve
    x, info = solver(a, b) if left else solver(a.swapaxes(-1, -2), b.swapaxes(-1, -2))
    if check_errors:
        raise_if_failed("torch.linalg.solve", info, _singular)
    x = x if left else x.swapaxes(-1, -2)
    return x[..., 0] if vector else x


def _solve_back(F, g, need, a, b_shape, out, left, check_errors):
    """The gradient of b solves the system with aᵀ and g; that of a is its product with the solution."""
    vector = is_vector(a.shape, b_shape)
    g, x = (F.unsqueeze(g, -1), F.unsqueeze(out, -1)) if vector else (g, out)
    h = F.solve(F.mT(a), g, left, check_errors)
    grad_a = (-F.gemm(h, x, False, True) if left else -F.gemm(x, h, True, False)) if need[0] else None
    return grad_a, (F.squeeze(h, -1) if vector else h) if need[1] else None


def _solve_jvp(F, t, a, b_shape, out, left, check_errors):
    """The solution of a @ y = t_b - t_a @ x."""
    t_a, t_b = t
    if t_a is None:
        return F.solve(a, t_b, left, check_errors)
    vector = is_vector(a.shape, b_shape)
    x = F.unsqueeze(out, -1) if vector else out
    right = -F.gemm(t_a, x) if left else -F.gemm(x, t_a)
    if t_b is not None:
        right = right + (F.unsqueeze(t_b, -1) if vector else t_b)
    y = F.solve(a, right, left, check_errors)
    return F.squeeze(y, -1) if vector else y


def _solve_batch(F, n, batched, a, b, *, left, check_errors):
    def run(a, b): return F.solve(a, b, left, check_errors)
    shapes = [x.shape[1:] if is_batched else x.shape for x, is_batched in zip((a, b), batched, strict=True)]
    vector = left and is_vector(*shapes)
    if rank(a, batched[0]) < 2 or rank(b, batched[1]) < 2 - vector:
        return one_by_one(F, "solve", run, n, batched, (a, b))  # which raises the op's error
    x = solutions(F, run, n, batched, a, F.unsqueeze(b, -1) if vector else b, left)
    return F.squeeze(x, -1) if vector else x


@defop
class solve:
    """x with a @ x = b, or x @ a = b if not `left`, for square matrices a; the batches broadcast.

    b is a matrix, or a vector if it has one dimension or the shape of a without the last dimension. LinAlgError if a is
    singular, or NaN with `check_errors=False`.

    >>> ag.linalg.solve(ag.tensor([[2.0, 0.0], [0.0, 4.0]]), ag.tensor([2.0, 8.0]))
    tensor([1., 2.])
    """

    no_capture = "cuSOLVER"
    forward = _solve
    grads = _solve_back
    parameter_names = ("A", "B")
    types, broadcasts = SAME, ALWAYS
    jvp, batch = _solve_jvp, _solve_batch
    public = "linalg.solve"
    no_lossy_save = True


solve_result = namedtuple("solve_result", ("result", "info"))


@public("linalg.solve_ex", out=True)
def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> Any:
    """(result, info) of `linalg.solve`: info is 0, or the index of the first zero pivot; the result is then NaN.

    >>> ag.linalg.solve_ex(ag.zeros(2, 2), ag.ones(2)).info
    tensor(1, dtype=int32)
    """
    A = as_tensor(A)
    check_square("linalg.solve_ex", A)
    info = pivot_info(A)
    if check_errors:
        check_values(info, lambda info: raise_if_failed("torch.linalg.solve_ex", backend.to_numpy(info), _singular))
    return solve_result(solve(A, B, left, False), info)


@public("linalg.tensorsolve", out=True)
def tensorsolve(input: Tensor, other: Tensor, dims: Sequence[int] | None = None) -> Tensor:
    """x with tensordot(input, x, x.ndim) = other, after moving the dimensions `dims` of input to its end.

    >>> ag.linalg.tensorsolve(ag.eye(6).reshape(2, 3, 6), ag.ones(2, 3)).shape
    (6,)
    """
    input = input if dims is None else movedim(input, tuple(dims), tuple(range(input.ndim - len(dims), input.ndim)))
    shape = input.shape[other.ndim :]
    rows, columns = math.prod(input.shape[: other.ndim]), math.prod(shape)
    if rows != columns:
        raise RuntimeError("Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
                           f"prod(self.shape[:other.ndim]), but got {columns} != {rows}")
    return reshape(solve(reshape(input, (rows, columns)), ravel(other)), shape)
