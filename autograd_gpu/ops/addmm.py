"""A product added to a tensor: beta * input + alpha * product, where `input` broadcasts to the product's shape."""

from __future__ import annotations

from .. import backend, errors
from ..backend.dtypes import FLOATS
from ..core.dispatch import defop
from ..core.op import PROMOTE, SAME
from .products import ALWAYS, bmm_arrays, check_expands, mm_arrays, mv_arrays, show_shapes


def _scaled_sum(xp, x, out, beta, alpha):
    """out * alpha + x * beta, in the memory of `out`."""
    if alpha != 1:
        out *= _factor(out, "alpha", alpha)
    if x.shape != out.shape:
        check_expands(x, out.shape)
    if beta != 0:  # PyTorch: with beta 0 not even a NaN of x comes through
        out += x if beta == 1 else (x * _factor(x, "beta", beta)).astype(out.dtype, copy=False)
    return out


def _factor(x, name, value):
    if isinstance(value, float) and x.dtype not in FLOATS:
        raise errors.float_factor(name)
    return value


def _scale(g, factor):
    return g if factor == 1 else g * factor


# ---- matrices ----------------------------------------------------------------------------------------


@defop
class addmm:
    """beta * input + alpha * (mat1 @ mat2); input broadcasts.

    >>> ag.addmm(ag.tensor([1.0]), ag.tensor([[1.0, 2.0]]), ag.tensor([[3.0], [4.0]]), alpha=2)
    tensor([[23.]])
    """

    def forward(xp, input, mat1, mat2, *, beta=1, alpha=1):
        return _scaled_sum(xp, input, mm_arrays(xp, mat1, mat2), beta, alpha)

    def grad_input(F, g, beta): return _scale(g, beta)
    def grad_mat1(F, g, mat2, alpha): return _scale(F.gemm(g, mat2, False, True), alpha)
    def grad_mat2(F, g, mat1, alpha): return _scale(F.gemm(mat1, g, True, False), alpha)
    def add_mat1(F, into, g, mat2, alpha): backend.add_matmul(into, _scale(g, alpha), mat2.T)
    def add_mat2(F, into, g, mat1, alpha): backend.add_matmul(into, mat1.T, _scale(g, alpha))
    types, broadcasts = SAME, ALWAYS


@defop
class baddbmm:
    """beta * input + alpha * bmm(batch1, batch2); input broadcasts.

    >>> ag.baddbmm(ag.ones(1), ag.ones(5, 2, 3), ag.ones(5, 3, 4), beta=0.5)[0, 0]
    tensor([3.5, 3.5, 3.5, 3.5])
    """

    def forward(xp, input, batch1, batch2, *, beta=1, alpha=1):
        return _scaled_sum(xp, input, bmm_arrays(xp, batch1, batch2), beta, alpha)

    def grad_input(F, g, beta): return _scale(g, beta)
    def grad_batch1(F, g, batch2, alpha): return _scale(F.gemm(g, batch2, False, True), alpha)
    def grad_batch2(F, g, batch1, alpha): return _scale(F.gemm(batch1, g, True, False), alpha)
    types, broadcasts = SAME, ALWAYS


def _batch_summed(batch1, batch2):
    """The sum of bmm(batch1, batch2) over the batch as one product: the batch joins what is summed."""
    for i, x in enumerate((batch1, batch2), 1):
        if x.ndim != 3:
            raise RuntimeError(f"batch{i} must be a 3D tensor")
    (b1, n, k), (b2, m, p) = batch1.shape, batch2.shape
    if b1 != b2:
        raise RuntimeError(f"batch1 and batch2 must have same number of batches, got {b1} and {b2}")
    if k != m:
        raise RuntimeError("Incompatible matrix sizes for bmm "
                           f"({show_shapes(batch1.shape[1:], batch2.shape[1:])})")
    return backend.matmul(batch1.swapaxes(0, 1).reshape(n, b1 * k), batch2.reshape(b1 * k, p))


@defop
class addbmm:
    """beta * input + alpha * the sum over the batch of batch1[i] @ batch2[i]; input broadcasts.

    >>> ag.addbmm(ag.ones(1), ag.ones(5, 2, 3), ag.ones(5, 3, 4), alpha=2)[0]
    tensor([31., 31., 31., 31.])
    """

    def forward(xp, input, batch1, batch2, *, beta=1, alpha=1):
        return _scaled_sum(xp, input, _batch_summed(batch1, batch2), beta, alpha)

    def grad_input(F, g, beta): return _scale(g, beta)
    def grad_batch1(F, g, batch2, alpha): return F.gemm(_scale(g, alpha), batch2, False, True)
    def grad_batch2(F, g, batch1, alpha): return F.gemm(batch1, _scale(g, alpha), True, False)
    types, broadcasts = SAME, ALWAYS


# ---- vectors -----------------------------------------------------------------------------------------


def _matrix_times_vector(xp, input, mat, vec):
    if mat.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got {input.ndim}, {mat.ndim}, {vec.ndim}")
    return mv_arrays(xp, mat, vec)


@defop
class addmv:
    """beta * input + alpha * (mat @ vec); input broadcasts.

    >>> ag.addmv(ag.tensor([1.0]), ag.tensor([[1.0, 2.0], [3.0, 4.0]]), ag.tensor([1.0, 1.0]), beta=-1)
    tensor([2., 6.])
    """

    def forward(xp, input, mat, vec, *, beta=1, alpha=1):
        return _scaled_sum(xp, input, _matrix_times_vector(xp, input, mat, vec), beta, alpha)

    def grad_input(F, g, beta): return _scale(g, beta)
    def grad_mat(F, g, vec, alpha): return F.outer(_scale(g, alpha), vec)
    def grad_vec(F, g, mat, alpha): return F.matmul(_scale(g, alpha), mat)
    types, broadcasts = SAME, ALWAYS


def _addr(xp, input, vec1, vec2, *, beta=1, alpha=1):
    for name, x in (("vec1", vec1), ("vec2", vec2)):
        if x.ndim != 1:
            raise RuntimeError(f"addr: Expected 1-D argument {name}, but got {x.ndim}-D")
    return _scaled_sum(xp, input, vec1[:, None] * vec2, beta, alpha)


@defop
class addr:
    """beta * input + alpha * outer(vec1, vec2); input broadcasts.

    >>> ag.addr(ag.ones(1), ag.tensor([1.0, 2.0]), ag.tensor([3.0, 4.0]))
    tensor([[4., 5.],
            [7., 9.]])
    """

    forward = _addr
    def grad_input(F, g, beta): return _scale(g, beta)
    def grad_vec1(F, g, vec2, alpha): return F.matmul(_scale(g, alpha), vec2)
    def grad_vec2(F, g, vec1, alpha): return F.matmul(vec1, _scale(g, alpha))
    types, broadcasts = PROMOTE, ALWAYS
