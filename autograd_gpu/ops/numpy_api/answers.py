"""NumPy's functions that answer in Python's own values."""

from __future__ import annotations

from typing import Any

from ... import backend
from ...core.extend import Size, Tensor
from ..elementwise import comparison
from .elements import close
from .table import Row, Table, tensors


def _array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    a, b = tensors([a1, a2])
    if a.shape != b.shape:
        return False
    same = comparison.eq(a, b)
    return bool((same | (comparison.ne(a, a) & comparison.ne(b, b)) if equal_nan else same).all())


def _allclose(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    return bool(close(a, b, rtol, atol, equal_nan).all())


def _size(a: Tensor, axis: int | None = None) -> int:
    return a.numel() if axis is None else a.shape[axis]


def _share(a: Any, b: Any, max_work: int | None = None) -> bool:
    one, other = (x.array if isinstance(x, Tensor) else x for x in (a, b))
    return bool(backend.may_share_memory(one, other))


ANSWERS: Table = {
    "shape": Row("Tensor.shape", lambda a: Size(a.shape)), "ndim": Row("Tensor.ndim", lambda a: a.ndim),
    "size": Row("Tensor.numel", _size), "allclose": Row("allclose", _allclose),
    "array_equal": Row("equal", _array_equal),
    "may_share_memory": Row("Tensor.array", _share),
    "shares_memory": Row("Tensor.array", _share, "by the bounds of the memory"),
    "iscomplexobj": Row("is_complex", lambda x: False), "isrealobj": Row("is_complex", lambda x: True),
}  # fmt: skip
