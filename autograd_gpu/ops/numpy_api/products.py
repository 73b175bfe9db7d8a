"""Products and linear algebra with NumPy's arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.extend import Tensor
from ..linalg import (
    cholesky,
    det,
    eig,
    einsum,
    matmul,
    matrix_functions,
    norms,
    qr,
    solve,
    svd,
    tensordot,
    vector_products,
)
from .table import Row, Table, floats, tensor, tensors


def _dot(a: Any, b: Any) -> Tensor:
    a, b = tensors([a, b])
    if not a.ndim or not b.ndim:
        return a * b
    return matmul.matmul(a, b) if b.ndim <= 2 else tensordot.tensordot(a, b, ([a.ndim - 1], [b.ndim - 2]))


def _pair(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda a, b: function(*tensors([a, b]))


def _array_api_pair(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda x1, x2: function(*tensors([x1, x2]))


def _outer(a: Tensor, b: Tensor) -> Tensor:
    return vector_products.outer(a.ravel(), b.ravel())


def _tensordot(a: Any, b: Any, axes: Any = 2) -> Tensor:
    a, b = tensors([a, b])
    return tensordot.tensordot(a, b, axes)


def _tensorsolve(a: Any, b: Any, axes: Any = None) -> Tensor:
    a, b = tensors([a, b])
    return solve.tensorsolve(floats(a), floats(b), axes)


def _einsum(*operands: Any, optimize: Any = False) -> Tensor:
    if isinstance(operands[0], str):
        return einsum.einsum(operands[0], *tensors(operands[1:]))
    pairs, last = operands[: len(operands) // 2 * 2], operands[len(operands) // 2 * 2 :]
    arrays = tensors(pairs[::2])
    return einsum.einsum(*[part for pair in zip(arrays, pairs[1::2], strict=True) for part in pair], *last)


def _cross(a: Any, b: Any, axis: int | None = None) -> Tensor:
    return vector_products.linalg_cross(*tensors([a, b]), dim=-1 if axis is None else axis)


def _square(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda a: function(floats(a))


def _multi_dot(arrays: Any) -> Tensor:
    return tensordot.multi_dot(tensors(arrays))


def _svd(a: Any, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    return svd.svd(floats(a), full_matrices) if compute_uv else svd.svdvals(floats(a))


def _qr(a: Any, mode: str = "reduced") -> Any:
    if mode == "r":
        return qr.qr(floats(a))[1]  # which is recorded; PyTorch's mode "r" has no derivative
    return qr.qr(floats(a), mode)


def _pinv(a: Any, rcond: Any = None, hermitian: bool = False, rtol: Any = None) -> Tensor:
    return svd.pinv(floats(a), rtol=rcond if rtol is None else rtol, hermitian=hermitian)


def _rank(A: Any, tol: Any = None, hermitian: bool = False, rtol: Any = None) -> Tensor:  # NumPy's name
    return svd.matrix_rank(floats(A), atol=tol, rtol=rtol, hermitian=hermitian)


def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    return norms.norm(floats(x), ord, axis, keepdims)


PRODUCTS: Table = {
    "dot": Row("matmul", _dot), "vdot": Row("vdot", _pair(lambda a, b: vector_products.dot(a.ravel(), b.ravel()))),
    "inner": Row("inner", _pair(tensordot.inner)), "outer": Row("outer", _pair(_outer)),
    "kron": Row("kron", _pair(tensordot.kron)), "cross": Row("linalg.cross", _cross),
    "tensordot": Row("tensordot", _tensordot),
    "einsum": Row("einsum", _einsum),
    "linalg.norm": Row("linalg.norm", _norm),
    "linalg.vector_norm": Row("linalg.vector_norm", lambda x, axis=None, keepdims=False, ord=2: norms.vector_norm(
        floats(x), ord, axis, keepdims)),
    "linalg.matrix_norm": Row("linalg.matrix_norm", lambda x, keepdims=False, ord="fro": norms.matrix_norm(
        floats(x), ord, keepdim=keepdims)),
    "linalg.cond": Row("linalg.cond", lambda x, p=None: norms.cond(floats(x), p)),
    "linalg.det": Row("linalg.det", _square(det.det)), "linalg.slogdet": Row("linalg.slogdet", _square(det.slogdet)),
    "linalg.inv": Row("linalg.inv", _square(solve.inv)), "linalg.pinv": Row("linalg.pinv", _pinv),
    "linalg.solve": Row("linalg.solve", lambda a, b: solve.solve(*map(floats, tensors([a, b])))),
    "linalg.cholesky": Row("linalg.cholesky", lambda a, upper=False: cholesky.cholesky(floats(a), upper)),
    "linalg.qr": Row("linalg.qr", _qr), "linalg.svd": Row("linalg.svd", _svd),
    "linalg.svdvals": Row("linalg.svdvals", lambda x: svd.svdvals(floats(x))),
    "linalg.eigh": Row("linalg.eigh", lambda a, UPLO="L": eig.eigh(floats(a), UPLO)),
    "linalg.eigvalsh": Row("linalg.eigvalsh", lambda a, UPLO="L": eig.eigvalsh(floats(a), UPLO)),
    "linalg.matrix_power": Row("linalg.matrix_power", lambda a, n: matrix_functions.matrix_power(tensor(a), n)),
    "linalg.matrix_rank": Row("linalg.matrix_rank", _rank), "linalg.multi_dot": Row("linalg.multi_dot", _multi_dot),
    "linalg.tensorinv": Row("linalg.tensorinv", lambda a, ind=2: solve.tensorinv(floats(a), ind)),
    "linalg.tensorsolve": Row("linalg.tensorsolve", _tensorsolve),
    "linalg.matmul": Row("matmul", _array_api_pair(matmul.matmul)),
    "linalg.outer": Row("outer", _array_api_pair(_outer)),
    "linalg.cross": Row("linalg.cross", lambda x1, x2, axis=-1: _cross(x1, x2, axis)),
    "linalg.vecdot": Row("linalg.vecdot", lambda x1, x2, axis=-1: vector_products.vecdot(*tensors([x1, x2]), axis)),
    "linalg.tensordot": Row("tensordot", lambda x1, x2, axes=2: _tensordot(x1, x2, axes)),
}  # fmt: skip
