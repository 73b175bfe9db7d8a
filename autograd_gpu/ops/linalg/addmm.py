"""beta * input + alpha * product, where `input` broadcasts to the product's shape: addmm and its variants."""

from __future__ import annotations

import functools

from ... import backend, errors
from ...backend.arrays.dtypes import FLOATS
from ...core.extend import PROMOTE, SAME, aligned, defop, example
from .einsum import batch_contract
from .matmul import ALWAYS, batch_bmm, batch_mm, batch_mv, bmm_arrays, check_expands, mm_arrays, mv_arrays, show_shapes


def _scaled_sum(xp, x, out, beta, alpha):
    """out * alpha + x * beta, written into `out`."""
    if alpha != 1:
        out *= _factor(out, "alpha", alpha)
    if x.shape != out.shape:
        check_expands(x, out.shape)
    if beta != 0:  # as in PyTorch, x is ignored if beta is 0, also NaN
        out += x if beta == 1 else (x * _factor(x, "beta", beta)).astype(out.dtype, copy=False)
    return out


def _factor(x, name, value):
    if isinstance(value, float) and x.dtype not in FLOATS:
        raise errors.float_factor(name)
    return value


def _scale(g, factor):
    return g if factor == 1 else g * factor


def _product_jvp(t, product, added, a, b, beta, alpha):
    """The tangent: each factor's tangent times the other factor, plus the tangent of `input`."""
    total = None if t[0] is None or beta == 0 else _scale(t[0], beta)
    for x, y in ((t[1], b), (a, t[2])):
        if x is not None and y is not None:
            total = _scale(product(x, y), alpha) if total is None else added(total, x, y, alpha=alpha)
    return total


def _batch_sum(F, n, batched, x, out, ndim, beta, alpha):
    """The sum for a batch of inputs or of products; `ndim` is the rank of one product."""
    several = len(out.shape) > ndim
    check_expands(example(x, batched[0]), out.shape[several:])
    out = _scale(out, alpha)
    if beta != 0:
        return F.add(*aligned(F, (several, batched[0]), (out, x)), alpha=beta)
    return out if several else F.expand(out, (n, *out.shape))


# ---- matrices ----------------------------------------------------------------------------------------


def _batch_addmm(F, n, batched, input, mat1, mat2, *, beta, alpha):
    return _batch_sum(F, n, batched, input, batch_mm(F, n, batched[1:], mat1, mat2), 2, beta, alpha)


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
    def jvp(F, t, mat1, mat2, beta, alpha): return _product_jvp(t, F.mm, F.addmm, mat1, mat2, beta, alpha)
    batch = _batch_addmm
    numbers_first = True
    public = methods = inplace = True


def _batch_baddbmm(F, n, batched, input, batch1, batch2, *, beta, alpha):
    return _batch_sum(F, n, batched, input, batch_bmm(F, n, batched[1:], batch1, batch2), 3, beta, alpha)


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
    def jvp(F, t, batch1, batch2, beta, alpha): return _product_jvp(t, F.bmm, F.baddbmm, batch1, batch2, beta, alpha)
    batch = _batch_baddbmm
    numbers_first = True
    public = methods = inplace = True


SUMMED = "bij,bjk->ik"  # addbmm as an einsum


def _check_batches(batch1, batch2):
    for i, x in enumerate((batch1, batch2), 1):
        if x.ndim != 3:
            raise RuntimeError(f"batch{i} must be a 3D tensor")
    (b1, _, k), (b2, m, _) = batch1.shape, batch2.shape
    if b1 != b2:
        raise RuntimeError(f"batch1 and batch2 must have same number of batches, got {b1} and {b2}")
    if k != m:
        raise RuntimeError("Incompatible matrix sizes for bmm "
                           f"({show_shapes(batch1.shape[1:], batch2.shape[1:])})")


def _batch_summed(batch1, batch2):
    """The sum of bmm(batch1, batch2) over the batch as one product, with the batch folded into the inner dimension."""
    _check_batches(batch1, batch2)
    (b1, n, k), p = batch1.shape, batch2.shape[2]
    return backend.matmul(batch1.swapaxes(0, 1).reshape(n, b1 * k), batch2.reshape(b1 * k, p))


def _batch_addbmm(F, n, batched, input, batch1, batch2, *, beta, alpha):
    _check_batches(*map(example, (batch1, batch2), batched[1:]))
    out = batch_contract(F, n, batched[1:], batch1, batch2, equation=SUMMED)
    return _batch_sum(F, n, batched, input, out, 2, beta, alpha)


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

    def jvp(F, t, batch1, batch2, beta, alpha):
        return _product_jvp(t, functools.partial(F.contract, equation=SUMMED), F.addbmm, batch1, batch2, beta, alpha)

    batch = _batch_addbmm
    numbers_first = True
    public = methods = inplace = True


# ---- vectors -----------------------------------------------------------------------------------------


def _check_vector(input, mat, vec):
    if mat.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got {input.ndim}, {mat.ndim}, {vec.ndim}")


def _matrix_times_vector(xp, input, mat, vec):
    _check_vector(input, mat, vec)
    return mv_arrays(xp, mat, vec)


def _batch_addmv(F, n, batched, input, mat, vec, *, beta, alpha):
    _check_vector(*map(example, (input, mat, vec), batched))
    return _batch_sum(F, n, batched, input, batch_mv(F, n, batched[1:], mat, vec), 1, beta, alpha)


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
    def jvp(F, t, mat, vec, beta, alpha): return _product_jvp(t, F.mv, F.addmv, mat, vec, beta, alpha)
    batch = _batch_addmv
    numbers_first = True
    public = "addmv", "addmv_"
    methods = inplace = True


def _check_vectors(vec1, vec2):
    for name, x in (("vec1", vec1), ("vec2", vec2)):
        if x.ndim != 1:
            raise RuntimeError(f"addr: Expected 1-D argument {name}, but got {x.ndim}-D")


def _addr(xp, input, vec1, vec2, *, beta=1, alpha=1):
    _check_vectors(vec1, vec2)
    return _scaled_sum(xp, input, vec1[:, None] * vec2, beta, alpha)


def _batch_addr(F, n, batched, input, vec1, vec2, *, beta, alpha):
    _check_vectors(*map(example, (vec1, vec2), batched[1:]))
    return _batch_sum(F, n, batched, input, F.unsqueeze(vec1, -1) * F.unsqueeze(vec2, -2), 2, beta, alpha)


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
    def jvp(F, t, vec1, vec2, beta, alpha): return _product_jvp(t, F.outer, F.addr, vec1, vec2, beta, alpha)
    batch = _batch_addr
    numbers_first = True
    public = methods = inplace = True
