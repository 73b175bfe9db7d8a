"""Calls of the public functions that are made of ops; test_public.py runs each in both libraries, named m.

name -> [(call, shapes of its tensors)]: the tensors hold normal numbers, other ones in every run. A call makes of them
what it needs: positive numbers, whole ones, a matrix with an inverse.
"""

from __future__ import annotations

import numpy as np


def positive(x):
    return x * x + 0.5


def whole(x):
    """Of -4, -2, ... 4, without a gradient."""
    return (x.detach() * 2).clamp(-2, 2).round() * 2


def indices(m, x, size):
    """As many numbers in [0, size) as x has elements."""
    return (x.detach().abs() * 1000).to(m.int64) % size


def ordered(m, x):
    return m.cumsum(positive(x), -1)


def regular(m, x):
    """A matrix with an inverse."""
    return x + 4 * m.eye(x.shape[-1], dtype=x.dtype)


def definite(m, x):
    return x @ x.mT + m.eye(x.shape[-1], dtype=x.dtype)


def fresh(x):
    """A constant that may be written to."""
    return x.detach().clone()


def holes(m, x):
    return m.where(x > 0.8, float("nan"), x)


ROW, MATRIX, SQUARE, CUBE = (3,), (2, 3), (3, 3), (2, 3, 4)

ELEMENTWISE = {
    "clamp_max": [(lambda m, x: m.clamp_max(x, 0.3), MATRIX), (lambda m, x, y: m.clamp_max(x, y), MATRIX, ROW)],
    "clamp_min": [(lambda m, x: m.clamp_min(x, 0.3), MATRIX), (lambda m, x, y: m.clamp_min(x, y), MATRIX, ROW)],
    "clip": [(lambda m, x: m.clip(x, -0.5, 0.5), MATRIX), (lambda m, x, y: m.clip(x, y - 1, y), MATRIX, ROW)],
    **{
        name: [
            (lambda m, x, y, name=name: getattr(m, name)(x, positive(y)), MATRIX, ROW),
            (lambda m, x, y, name=name: getattr(m, name)(x, positive(y), rounding_mode="floor"), MATRIX, MATRIX),
            (lambda m, x, name=name: getattr(m, name)(x, 0.7, rounding_mode="trunc"), MATRIX),
        ]
        for name in ("div", "divide")
    },
    "float_power": [
        (lambda m, x, y: m.float_power(positive(x), y), MATRIX, ROW), (lambda m, x: m.float_power(x, 3), MATRIX),
    ],
    "ldexp": [(lambda m, x: m.ldexp(x, whole(x)), MATRIX), (lambda m, x: m.ldexp(x, m.tensor([1, 0, 3])), ROW)],
    "mvlgamma": [(lambda m, x: m.mvlgamma(positive(x) + 2, 3), MATRIX), (lambda m, x: x.exp().mvlgamma(1), ROW)],
    "special.multigammaln": [(lambda m, x: m.special.multigammaln(positive(x) + 2, 3), MATRIX)],
    "polygamma": [(lambda m, x: m.polygamma(2, positive(x)), MATRIX), (lambda m, x: m.polygamma(3, positive(x)), ROW)],
    "special.polygamma": [(lambda m, x: m.special.polygamma(2, positive(x)), MATRIX)],
    "positive": [(lambda m, x: m.positive(x), MATRIX)],
    "conj": [(lambda m, x: m.conj(x), MATRIX)],
    "conj_physical": [(lambda m, x: m.conj_physical(x), MATRIX)],
    "rsub": [(lambda m, x, y: m.rsub(x, y, alpha=2), MATRIX, ROW), (lambda m, x: m.rsub(x, 0.5), MATRIX)],
    "allclose": [(lambda m, x, y: m.allclose(x, y, atol=2.0), ROW, ROW), (lambda m, x: m.allclose(x, x), ROW)],
    "equal": [(lambda m, x, y: m.equal(whole(x), whole(y)), (), ()), (lambda m, x: m.equal(x, x), MATRIX)],
}  # fmt: skip

REDUCTIONS = {
    "aminmax": [(lambda m, x: m.aminmax(x), MATRIX), (lambda m, x: m.aminmax(x, dim=-1, keepdim=True), CUBE)],
    "corrcoef": [(lambda m, x: m.corrcoef(x), (3, 5))],
    "cov": [(lambda m, x: m.cov(x), (3, 5)), (lambda m, x: m.cov(x, correction=0), ROW)],
    "cumulative_trapezoid": [
        (lambda m, x: m.cumulative_trapezoid(x, dx=0.5, dim=1), CUBE),
        (lambda m, x, y: m.cumulative_trapezoid(x, ordered(m, y)), MATRIX, ROW),
    ],
    "diff": [(lambda m, x: m.diff(x, 2), (2, 6)), (lambda m, x, y: m.diff(x, dim=0, prepend=y), MATRIX, (1, 3))],
    "dist": [(lambda m, x, y: m.dist(x, y), MATRIX, ROW), (lambda m, x, y: m.dist(x, y, 1), MATRIX, MATRIX),
             (lambda m, x, y: m.dist(x, y, 3), ROW, ROW)],
    "gradient": [(lambda m, x: m.gradient(x), (5,)), (lambda m, x: m.gradient(x, spacing=0.5, dim=1), (3, 4))],
    "max": [(lambda m, x: m.max(x), MATRIX), (lambda m, x: m.max(x, 1), MATRIX),
            (lambda m, x, y: m.max(x, y), MATRIX, ROW), (lambda m, x: m.max(x, 0, keepdim=True), CUBE)],
    "min": [(lambda m, x: m.min(x), MATRIX), (lambda m, x: m.min(x, 1), MATRIX),
            (lambda m, x, y: m.min(x, y), MATRIX, ROW), (lambda m, x: m.min(x, 0, keepdim=True), CUBE)],
    "median": [(lambda m, x: m.median(x), MATRIX), (lambda m, x: m.median(x, 1), MATRIX)],
    "nanmedian": [(lambda m, x: m.nanmedian(x), MATRIX), (lambda m, x: m.nanmedian(holes(m, x), 1), (3, 5))],
    "nanquantile": [(lambda m, x: m.nanquantile(holes(m, x), 0.4), (12,)),
                    (lambda m, x: m.nanquantile(x, 0.7, dim=1), MATRIX)],
    "quantile": [(lambda m, x: m.quantile(x, 0.4), MATRIX), (lambda m, x: m.quantile(x, 0.7, dim=1), MATRIX)],
    "renorm": [(lambda m, x: m.renorm(x, 2, 0, 1.0), MATRIX), (lambda m, x: m.renorm(x, 3, -1, 0.5), CUBE)],
    "std_mean": [(lambda m, x: m.std_mean(x), MATRIX), (lambda m, x: m.std_mean(x, 1, correction=0), CUBE)],
    "var_mean": [(lambda m, x: m.var_mean(x), MATRIX), (lambda m, x: m.var_mean(x, (0, 2), correction=0), CUBE)],
    "trace": [(lambda m, x: m.trace(x), MATRIX), (lambda m, x: m.trace(x), SQUARE)],
    "trapezoid": [(lambda m, x: m.trapezoid(x), MATRIX),
                  (lambda m, x, y: m.trapezoid(x, ordered(m, y)), MATRIX, ROW)],
    "trapz": [(lambda m, x: m.trapz(x), MATRIX), (lambda m, x, y: m.trapz(x, ordered(m, y)), MATRIX, ROW)],
    "unique": [(lambda m, x: m.unique(whole(x)), (9,)),
               (lambda m, x: m.unique(whole(x), return_inverse=True, return_counts=True, dim=0), (5, 1))],
    "unique_consecutive": [(lambda m, x: m.unique_consecutive(whole(x)), (9,)),
                           (lambda m, x: m.unique_consecutive(whole(x), True, True, 1), (1, 9))],
    "searchsorted": [(lambda m, x, y: m.searchsorted(ordered(m, x), y * 3), (5,), MATRIX),
                     (lambda m, x, y: m.searchsorted(ordered(m, x), y, right=True), MATRIX, (2, 4))],
    "bucketize": [(lambda m, x, y: m.bucketize(x * 3, ordered(m, y)), MATRIX, (5,))],
    "histogram": [(lambda m, x: m.histogram(x.detach(), 4), (9,))],
    "cdist": [(lambda m, x, y: m.cdist(x, y, 1), (4, 3), (5, 3)), (lambda m, x, y: m.cdist(x, y, 3), (4, 3), (5, 3)),
              (lambda m, x, y: m.cdist(x, y), (4, 3), (5, 3))],
    "nn.functional.pdist": [(lambda m, x: m.nn.functional.pdist(x), (4, 3)),
                            (lambda m, x: m.nn.functional.pdist(x, 3), (4, 3))],
}  # fmt: skip

SHAPE = {
    "adjoint": [(lambda m, x: m.adjoint(x), MATRIX), (lambda m, x: m.adjoint(x), CUBE)],
    "as_strided": [(lambda m, x: m.as_strided(x, (2, 2), (1, 3), 1), (8,))],
    "atleast_1d": [(lambda m, x: m.atleast_1d(x), ()), (lambda m, x: m.atleast_1d(x, x[0]), MATRIX)],
    "atleast_2d": [(lambda m, x: m.atleast_2d(x), ROW), (lambda m, x: m.atleast_2d(x, x[0, 0]), MATRIX)],
    "atleast_3d": [(lambda m, x: m.atleast_3d(x), ROW), (lambda m, x: m.atleast_3d(x), MATRIX)],
    "block_diag": [(lambda m, x, y: m.block_diag(x, y, y[0]), MATRIX, ROW)],
    "broadcast_shapes": [(lambda m: m.broadcast_shapes((2, 1), (3,)),), (lambda m: m.broadcast_shapes((4, 1, 2), ()),)],
    "broadcast_tensors": [(lambda m, x, y: m.broadcast_tensors(x, y), MATRIX, ROW)],
    "broadcast_to": [(lambda m, x: m.broadcast_to(x, (4, 2, 3)), MATRIX), (lambda m, x: m.broadcast_to(x, (2, 3)), ())],
    "cartesian_prod": [(lambda m, x, y: m.cartesian_prod(x, y), ROW, (2,))],
    "chunk": [(lambda m, x: m.chunk(x, 2), (5, 2)), (lambda m, x: m.chunk(x, 2, -1), CUBE)],
    "column_stack": [(lambda m, x, y: m.column_stack([x, y]), MATRIX, (2,))],
    "combinations": [(lambda m, x: m.combinations(x), (4,)), (lambda m, x: m.combinations(x, 3, True), ROW)],
    "diag": [(lambda m, x: m.diag(x, 1), ROW), (lambda m, x: m.diag(x, -1), SQUARE)],
    "diag_embed": [(lambda m, x: m.diag_embed(x, 1), MATRIX), (lambda m, x: m.diag_embed(x, -1, 0, 2), MATRIX)],
    "diagflat": [(lambda m, x: m.diagflat(x, 1), MATRIX), (lambda m, x: m.diagflat(x), ROW)],
    "diagonal_scatter": [(lambda m, x, y: m.diagonal_scatter(x, y), MATRIX, (2,)),
                         (lambda m, x, y: m.diagonal_scatter(x, y, 1, 0, 2), CUBE, (3, 2))],
    "dsplit": [(lambda m, x: m.dsplit(x, 2), CUBE), (lambda m, x: m.dsplit(x, [1, 3]), CUBE)],
    "dstack": [(lambda m, x, y: m.dstack([x, y]), MATRIX, MATRIX), (lambda m, x, y: m.dstack([x, y]), ROW, ROW)],
    "flatten": [(lambda m, x: m.flatten(x), CUBE), (lambda m, x: m.flatten(x, 1), CUBE)],
    "fliplr": [(lambda m, x: m.fliplr(x), MATRIX)],
    "flipud": [(lambda m, x: m.flipud(x), MATRIX), (lambda m, x: m.flipud(x), ROW)],
    "hsplit": [(lambda m, x: m.hsplit(x, 3), MATRIX), (lambda m, x: m.hsplit(x, [1]), ROW)],
    "hstack": [(lambda m, x, y: m.hstack([x, y]), MATRIX, (2, 1)), (lambda m, x, y: m.hstack([x, y]), ROW, ())],
    "meshgrid": [(lambda m, x, y: m.meshgrid(x, y, indexing="xy"), ROW, (2,)),
                 (lambda m, x, y: m.meshgrid(x, y, indexing="ij"), ROW, ())],
    "moveaxis": [(lambda m, x: m.moveaxis(x, 0, 1), CUBE), (lambda m, x: m.moveaxis(x, (0, 1), (2, 0)), CUBE)],
    "movedim": [(lambda m, x: m.movedim(x, 0, 1), CUBE), (lambda m, x: m.movedim(x, (0, 1), (2, 0)), CUBE)],
    "narrow": [(lambda m, x: m.narrow(x, 1, 1, 2), MATRIX), (lambda m, x: m.narrow(x, -1, -3, 2), CUBE)],
    "narrow_copy": [(lambda m, x: m.narrow_copy(x, 1, 1, 2), MATRIX)],
    "nn.functional.pad": [
        *((lambda m, x, mode=mode: m.nn.functional.pad(x, (1, 2), mode=mode), CUBE)
          for mode in ("constant", "reflect", "replicate", "circular")),
        (lambda m, x: m.nn.functional.pad(x, (0, 1, 2, 0), value=1.5), MATRIX),
    ],
    "ravel": [(lambda m, x: m.ravel(x), MATRIX), (lambda m, x: m.ravel(x.mT), CUBE)],
    "repeat_interleave": [(lambda m, x: m.repeat_interleave(x, 2, 0), MATRIX),
                          (lambda m, x: m.repeat_interleave(x, m.tensor([2, 0, 1]), 1), MATRIX)],
    "rot90": [(lambda m, x: m.rot90(x), MATRIX), (lambda m, x: m.rot90(x, -1, (0, 2)), CUBE)],
    "row_stack": [(lambda m, x, y: m.row_stack([x, y]), MATRIX, ROW)],
    "select": [(lambda m, x: m.select(x, 1, -1), CUBE), (lambda m, x: m.select(x, 0, 1), ROW)],
    "select_scatter": [(lambda m, x, y: m.select_scatter(x, y, 1, 0), MATRIX, (2,))],
    "slice_scatter": [(lambda m, x, y: m.slice_scatter(x, y, 0, 1, 5, 2), (5, 2), (2, 2))],
    "split": [(lambda m, x: m.split(x, 2), (5, 2)), (lambda m, x: m.split(x, [1, 3], 2), CUBE)],
    "swapaxes": [(lambda m, x: m.swapaxes(x, 0, -1), CUBE)],
    "t": [(lambda m, x: m.t(x), MATRIX), (lambda m, x: m.t(x), ROW)],
    "tensor_split": [(lambda m, x: m.tensor_split(x, 2), (5, 2)), (lambda m, x: m.tensor_split(x, (1, 3), 2), CUBE)],
    "tile": [(lambda m, x: m.tile(x, (2, 1)), MATRIX), (lambda m, x: m.tile(x, (2, 1, 2)), ROW)],
    "tril_indices": [(lambda m: m.tril_indices(3, 4, 1),), (lambda m: m.tril_indices(4, 2),)],
    "triu_indices": [(lambda m: m.triu_indices(3, 4, 1),), (lambda m: m.triu_indices(4, 2),)],
    "unflatten": [(lambda m, x: m.unflatten(x, 1, (2, -1)), (2, 6)), (lambda m, x: m.unflatten(x, 0, (3, 1)), ROW)],
    "vander": [(lambda m, x: m.vander(x.detach(), 3), ROW), (lambda m, x: m.vander(x.detach(), increasing=True), ROW)],
    "vsplit": [(lambda m, x: m.vsplit(x, 2), MATRIX), (lambda m, x: m.vsplit(x, [1]), CUBE)],
    "vstack": [(lambda m, x, y: m.vstack([x, y]), MATRIX, ROW), (lambda m, x, y: m.vstack([x, y]), (), ())],
    "Tensor.H": [(lambda m, x: x.H, MATRIX)],
    "Tensor.T": [(lambda m, x: x.T, MATRIX)],
    "Tensor.mH": [(lambda m, x: x.mH, CUBE)],
    "Tensor.mT": [(lambda m, x: x.mT, CUBE)],
    "Tensor.expand": [(lambda m, x: x.expand(4, -1, 3), (2, 1)), (lambda m, x: x.expand((2, 3)), ())],
    "Tensor.expand_as": [(lambda m, x, y: x.expand_as(y), ROW, MATRIX)],
    "Tensor.repeat": [(lambda m, x: x.repeat(2, 1, 2), MATRIX), (lambda m, x: x.repeat((2, 3)), ROW)],
    "Tensor.reshape_as": [(lambda m, x, y: x.reshape_as(y), MATRIX, (3, 2))],
    "Tensor.sum_to_size": [(lambda m, x: x.sum_to_size(1, 3), MATRIX), (lambda m, x: x.sum_to_size((3, 1)), CUBE)],
    "Tensor.unfold": [(lambda m, x: x.unfold(0, 3, 2), (8,)), (lambda m, x: x.unfold(1, 2, 1), CUBE)],
    "Tensor.view": [(lambda m, x: x.view(3, 2), MATRIX), (lambda m, x: x.view((-1, 2)), CUBE)],
    "Tensor.view_as": [(lambda m, x, y: x.view_as(y), MATRIX, (3, 2))],
}  # fmt: skip

INDEXING = {
    "unravel_index": [(lambda m, x: m.unravel_index(indices(m, x, 24), (2, 3, 4)), (5,)),
                      (lambda m, x: m.unravel_index(indices(m, x, 6), 6), MATRIX)],
    "gather": [(lambda m, x, i: m.gather(x, 1, indices(m, i, 3)), MATRIX, (2, 5)),
               (lambda m, x, i: m.gather(x, 0, indices(m, i, 3)), ROW, (4,))],
    "index_add": [(lambda m, x, i, y: m.index_add(x, 1, indices(m, i, 3), y, alpha=2), MATRIX, (4,), (2, 4))],
    "index_copy": [(lambda m, x, y: m.index_copy(x, 1, m.tensor([2, 0]), y), MATRIX, (2, 2)),
                   (lambda m, x, y: m.index_copy(x, 0, m.tensor([1]), y), (3,), ())],
    "index_fill": [(lambda m, x, i, y: m.index_fill(x, 1, indices(m, i, 3), y), MATRIX, (2,), ()),
                   (lambda m, x, i: m.index_fill(x, 0, indices(m, i, 3), 2.5), ROW, (2,))],
    "index_put": [(lambda m, x, i, y: m.index_put(x, (indices(m, i, 3),), y, True), (3, 2), (4,), (4, 2)),
                  (lambda m, x, y: m.index_put(x, (m.tensor([2, 0]),), y), (3, 2), (2,))],
    "index_reduce": [
        (lambda m, x, i, y, how=how: m.index_reduce(x, 1, indices(m, i, 3), y, how), MATRIX, (4,), (2, 4))
        for how in ("prod", "mean", "amax")
    ],
    "index_select": [(lambda m, x, i: m.index_select(x, 1, indices(m, i, 3)), MATRIX, (5,))],
    "masked_scatter": [(lambda m, x, y, z: m.masked_scatter(x, y > 0, z), MATRIX, ROW, MATRIX)],
    "masked_select": [(lambda m, x, y: m.masked_select(x, y > 0), MATRIX, ROW)],
    "msort": [(lambda m, x: m.msort(x), MATRIX), (lambda m, x: m.msort(x), (6,))],
    "nonzero": [(lambda m, x: m.nonzero(whole(x)), MATRIX), (lambda m, x: m.nonzero(whole(x), as_tuple=True), CUBE)],
    "put": [(lambda m, x, y: m.put(x, m.tensor([5, 0]), y), MATRIX, (2,)),
            (lambda m, x, i, y: m.put(x, indices(m, i, 6), y, True), MATRIX, (4,), (4,))],
    "scatter": [(lambda m, x, y: m.scatter(x, 1, m.tensor([[2, 0], [1, 2]]), y), MATRIX, (2, 2)),
                (lambda m, x, i: m.scatter(x, 1, indices(m, i, 3), 2.5), MATRIX, (2, 2))],
    "scatter_add": [(lambda m, x, i, y: m.scatter_add(x, 1, indices(m, i, 3), y), MATRIX, (2, 4), (2, 4))],
    "scatter_reduce": [
        (lambda m, x, i, y, how=how: m.scatter_reduce(x, 1, indices(m, i, 3), y, how), MATRIX, (2, 4), (2, 4))
        for how in ("sum", "prod", "mean", "amax", "amin")
    ],
    "take": [(lambda m, x, i: m.take(x, indices(m, i, 6)), MATRIX, (2, 4))],
    "take_along_dim": [(lambda m, x, i: m.take_along_dim(x, indices(m, i, 3), 1), MATRIX, (2, 5)),
                       (lambda m, x, i: m.take_along_dim(x, indices(m, i, 6)), MATRIX, (4,))],
    "where": [(lambda m, x, y, z: m.where(x > 0, y, z), MATRIX, ROW, ()), (lambda m, x: m.where(x > 0, x, 2.0), ROW)],
    "Tensor.__getitem__": [(lambda m, x, i: x[indices(m, i, 2)], MATRIX, (3,)), (lambda m, x: x[:, 1:, None], MATRIX),
                           (lambda m, x, y: x[y > 0], MATRIX, MATRIX), (lambda m, x: x[..., -1, [0, 0]], CUBE)],
}  # fmt: skip

PRODUCTS = {
    "chain_matmul": [(lambda m, x, y, z: m.chain_matmul(x, y, z), MATRIX, (3, 4), (4, 2))],
    "einsum": [(lambda m, x, y: m.einsum("ij,jk->ki", x, y), MATRIX, (3, 4)),
               (lambda m, x, y: m.einsum("...i,i", x, y), CUBE, (4,)),
               (lambda m, x, y, z: m.einsum("ab,bc,cd->a", x, y, z), MATRIX, SQUARE, (3, 2)),
               (lambda m, x: m.einsum("ii->i", x), SQUARE)],
    "inner": [(lambda m, x, y: m.inner(x, y), MATRIX, (4, 3)), (lambda m, x, y: m.inner(x, y), ROW, ROW)],
    "kron": [(lambda m, x, y: m.kron(x, y), MATRIX, (2, 2)), (lambda m, x, y: m.kron(x, y), ROW, MATRIX)],
    "tensordot": [(lambda m, x, y: m.tensordot(x, y, 1), CUBE, (4, 2)),
                  (lambda m, x, y: m.tensordot(x, y, ([0, 1], [1, 0])), MATRIX, (3, 2))],
    "vdot": [(lambda m, x, y: m.vdot(x, y), ROW, ROW)],
}  # fmt: skip

LINALG = {
    "cholesky_inverse": [(lambda m, x: m.cholesky_inverse(m.linalg.cholesky(definite(m, x))), SQUARE)],
    "cholesky_solve": [(lambda m, x, y: m.cholesky_solve(y, m.linalg.cholesky(definite(m, x))), SQUARE, (3, 2))],
    "inverse": [(lambda m, x: m.inverse(regular(m, x)), (2, 3, 3))],
    "logdet": [(lambda m, x: m.logdet(definite(m, x)), (2, 3, 3))],
    "lu": [(lambda m, x: m.lu(regular(m, x)), (2, 3, 3))],
    "lu_solve": [(lambda m, x, y: m.lu_solve(y, *m.linalg.lu_factor(regular(m, x))), (2, 3, 3), (2, 3, 2))],
    "matrix_power": [(lambda m, x, n=n: m.matrix_power(regular(m, x), n), SQUARE) for n in (3, -2, 0)],
    "pinverse": [(lambda m, x: m.pinverse(x), (4, 2))],
    "triangular_solve": [
        (lambda m, x, y, words=words: tuple(m.triangular_solve(y, regular(m, x), *words)), SQUARE, (3, 2))
        for words in ((), (False,), (True, True), (False, True, True))
    ],
    "svd": [(lambda m, x: m.svd(x)[1], (4, 2)), (lambda m, x: m.svd(x, compute_uv=False)[1], (2, 3)),
            (lambda m, x: (lambda r: (r[0] * r[1].exp()) @ r[2].mT)(m.svd(x)), (4, 2))],
    "linalg.cholesky_ex": [(lambda m, x: m.linalg.cholesky_ex(definite(m, x))[0], SQUARE)],
    "linalg.cond": [(lambda m, x: m.linalg.cond(regular(m, x)), SQUARE),
                    (lambda m, x: m.linalg.cond(regular(m, x), "nuc"), SQUARE)],
    "linalg.cross": [(lambda m, x, y: m.linalg.cross(x, y), MATRIX, MATRIX),
                     (lambda m, x, y: m.linalg.cross(x, y, dim=0), (3, 2), (3, 1))],
    "linalg.diagonal": [(lambda m, x: m.linalg.diagonal(x, offset=1), CUBE),
                        (lambda m, x: m.linalg.diagonal(x, dim1=0, dim2=2), CUBE)],
    "linalg.householder_product": [(lambda m, x, y: m.linalg.householder_product(x, y), (4, 2), (2,))],
    "linalg.inv_ex": [(lambda m, x: m.linalg.inv_ex(regular(m, x))[0], SQUARE)],
    "linalg.lstsq": [(lambda m, x, y: m.linalg.lstsq(x, y)[0], (5, 2), (5, 3))],
    "linalg.lu": [(lambda m, x: m.linalg.lu(regular(m, x)), SQUARE), (lambda m, x: m.linalg.lu(x), (4, 2))],
    "linalg.lu_factor": [(lambda m, x: m.linalg.lu_factor(regular(m, x)), (2, 3, 3))],
    "linalg.lu_solve": [
        (lambda m, x, y: m.linalg.lu_solve(*m.linalg.lu_factor(regular(m, x)), y), (2, 3, 3), (3, 2)),
        (lambda m, x, y: m.linalg.lu_solve(*m.linalg.lu_factor(regular(m, x)), y, left=False), SQUARE, MATRIX),
    ],
    "linalg.matrix_norm": [(lambda m, x, p=p: m.linalg.matrix_norm(x, p), CUBE) for p in ("fro", "nuc", 2, 1, -1)],
    "linalg.matrix_power": [(lambda m, x, n=n: m.linalg.matrix_power(regular(m, x), n), SQUARE) for n in (3, -2, 0)],
    "linalg.matrix_rank": [(lambda m, x, y: m.linalg.matrix_rank(x @ y), (4, 2), (2, 4)),
                           (lambda m, x: m.linalg.matrix_rank(x), (2, 3, 4))],
    "linalg.multi_dot": [(lambda m, x, y, z: m.linalg.multi_dot([x, y, z]), MATRIX, (3, 4), (4, 2)),
                         (lambda m, x, y, z: m.linalg.multi_dot([x, y, z]), ROW, (3, 4), (4,))],
    "linalg.norm": [(lambda m, x: m.linalg.norm(x), CUBE), (lambda m, x: m.linalg.norm(x, 3), ROW),
                    (lambda m, x: m.linalg.norm(x, "nuc"), MATRIX), (lambda m, x: m.linalg.norm(x, dim=1), CUBE)],
    "linalg.vector_norm": [(lambda m, x, p=p: m.linalg.vector_norm(x, p, 1), CUBE) for p in (1, 2, 3.5, float("inf"))],
    "linalg.qr": [(lambda m, x: m.linalg.qr(regular(m, x)), SQUARE), (lambda m, x: m.linalg.qr(x), (4, 2))],
    "linalg.solve_ex": [(lambda m, x, y: m.linalg.solve_ex(regular(m, x), y)[0], SQUARE, (3, 2))],
    "linalg.tensorinv": [(lambda m, x: m.linalg.tensorinv(regular(m, x).reshape(2, 3, 6)), (6, 6))],
    "linalg.tensorsolve": [
        (lambda m, x, y: m.linalg.tensorsolve(regular(m, x).reshape(2, 3, 6), y), (6, 6), MATRIX)
    ],
    "linalg.vander": [(lambda m, x: m.linalg.vander(x), MATRIX), (lambda m, x: m.linalg.vander(x, N=2), ROW)],
}  # fmt: skip

ACTIVATIONS = {
    **{
        f"nn.functional.{name}": [
            (lambda m, x, name=name: getattr(m.nn.functional, name)(x), MATRIX),
            (lambda m, x, name=name: getattr(m.nn.functional, name)(fresh(x), inplace=True), MATRIX),
        ]
        for name in ("celu", "elu", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "mish", "relu", "relu6",
                     "rrelu", "selu", "silu")
    },
    "nn.functional.threshold": [(lambda m, x: m.nn.functional.threshold(x, 0.2, -1.0), MATRIX),
                                (lambda m, x: m.nn.functional.threshold(fresh(x), 0.2, -1.0, inplace=True), MATRIX)],
    **{
        f"nn.functional.{name}_": [(lambda m, x, name=name: getattr(m.nn.functional, f"{name}_")(fresh(x)), MATRIX)]
        for name in ("celu", "elu", "hardtanh", "leaky_relu", "relu", "rrelu", "selu")
    },
    "nn.functional.threshold_": [(lambda m, x: m.nn.functional.threshold_(fresh(x), 0.2, -1.0), MATRIX)],
    **{
        f"{name}_": [(lambda m, x, name=name: getattr(m, f"{name}_")(fresh(x)), MATRIX)]
        for name in ("celu", "relu", "selu", "sigmoid", "tanh")
    },
    "prelu": [(lambda m, x, y: m.prelu(x, y), MATRIX, ROW), (lambda m, x, y: m.prelu(x, y), ROW, (1,))],
}  # fmt: skip


def labels(m, x):
    """The class of each row."""
    return indices(m, x[:, 0], x.shape[1])


LOSSES = {
    "nn.functional.cross_entropy": [
        (lambda m, x, y: m.nn.functional.cross_entropy(x, labels(m, x), positive(y).detach()), (4, 3), ROW),
        (lambda m, x: m.nn.functional.cross_entropy(x, labels(m, x), label_smoothing=0.2), (4, 3)),
        (lambda m, x, y: m.nn.functional.cross_entropy(x, y.softmax(1), reduction="sum"), (4, 3), (4, 3)),
        (lambda m, x: m.nn.functional.cross_entropy(x, labels(m, x), ignore_index=0, reduction="none"), (2, 3, 4)),
    ],
    "nn.functional.nll_loss": [
        (lambda m, x, y: m.nn.functional.nll_loss(x, labels(m, x), positive(y).detach()), (4, 3), ROW),
        (lambda m, x: m.nn.functional.nll_loss(x, labels(m, x), reduction="none"), (2, 3, 4)),
    ],
    "nn.functional.multi_head_attention_forward": [
        (lambda m, x, w, b, o: m.nn.functional.multi_head_attention_forward(
            x, x, x, 4, 2, w, b, None, None, False, 0.0, o, None, training=False), (3, 2, 4), (12, 4), (12,), (4, 4)),
    ],
    "nn.functional.dropout": [(lambda m, x: m.nn.functional.dropout(x, 0.5, training=False), MATRIX)],
}  # fmt: skip

CREATION = {
    "arange": [(lambda m: m.arange(5),), (lambda m: m.arange(1.0, 4.0, 0.5),), (lambda m: m.arange(5, 0, -2),)],
    "as_tensor": [(lambda m: m.as_tensor([[1.0, 2.0]]),), (lambda m, x: m.as_tensor(x), MATRIX)],
    "asarray": [(lambda m: m.asarray([[1.0, 2.0]]),), (lambda m, x: m.asarray(x.detach()), MATRIX)],
    "empty": [(lambda m: m.empty(2, 3).shape,), (lambda m: m.empty((2, 0), dtype=m.int32),)],
    "empty_like": [(lambda m, x: m.empty_like(x).shape, MATRIX)],
    "eye": [(lambda m: m.eye(3),), (lambda m: m.eye(2, 4, dtype=m.int64),)],
    "full": [(lambda m: m.full((2, 3), 1.5),), (lambda m: m.full((2,), 7),), (lambda m: m.full((), True),)],
    "full_like": [(lambda m, x: m.full_like(x, 2), MATRIX), (lambda m, x: m.full_like(x, 2.5, dtype=m.int64), ROW)],
    "linspace": [(lambda m: m.linspace(0, 1, 5),), (lambda m: m.linspace(3.0, -1.0, 4, dtype=m.float64),)],
    "logspace": [(lambda m: m.logspace(0, 2, 5),), (lambda m: m.logspace(0, 3, 4, base=2.0, dtype=m.float64),)],
    "ones": [(lambda m: m.ones(2, 3),), (lambda m: m.ones((0, 2), dtype=m.bool),)],
    "ones_like": [(lambda m, x: m.ones_like(x), MATRIX)],
    "zeros": [(lambda m: m.zeros(2, 3),), (lambda m: m.zeros((4,), dtype=m.int8),)],
    "zeros_like": [(lambda m, x: m.zeros_like(x), MATRIX)],
    "tensor": [(lambda m: m.tensor([[1, 2], [3, 4]]),), (lambda m: m.tensor(2.5),), (lambda m: m.tensor([True]),)],
    "Tensor.new_empty": [(lambda m, x: x.new_empty(2, 3).shape, ROW)],
    "Tensor.new_full": [(lambda m, x: x.new_full((2, 3), 4), ROW)],
    "Tensor.new_ones": [(lambda m, x: x.new_ones(2, 3), ROW)],
    "Tensor.new_tensor": [(lambda m, x: x.new_tensor([1, 2]), ROW)],
    "Tensor.new_zeros": [(lambda m, x: x.new_zeros((2, 3), dtype=m.int64), ROW)],
}  # fmt: skip

CALLS = ELEMENTWISE | REDUCTIONS | SHAPE | INDEXING | PRODUCTS | LINALG | ACTIVATIONS | LOSSES | CREATION


INPUTS = 6  # per function, at least, where it has any


def inputs_of(name):
    """(call, arrays) of every run: each call with other numbers until there are enough."""
    rng, calls = np.random.default_rng(0), CALLS[name]
    rounds = max(2, -(-INPUTS // len(calls)))
    drawn = [(call, [np.asarray(rng.normal(size=s)) for s in shapes]) for _ in range(rounds) for call, *shapes in calls]
    return drawn if drawn[0][1] else drawn[: len(calls)]


def flat(out):
    return [part for item in out for part in flat(item)] if isinstance(out, (list, tuple)) else [out]
