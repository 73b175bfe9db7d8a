"""NumPy's functions on tensors, by NumPy's protocol `__array_function__`: the common ones call ops, which record.

Each line has NumPy's parameters. Other functions get the tensors' arrays as `np.asarray` returns them, which raises for
tensors that require grad and for tensors on the GPU.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..core.extend import Size, Tensor
from .creation import convert
from .creation.from_data import as_tensor
from .elementwise import clamp, rounding
from .indexing import masked
from .linalg import det, einsum, matmul, norms, solve, tensordot, vector_products
from .reduction import cumulative, minmax, sum, variance
from .shape import concat, diagonal, permute, rearrange, reshape
from .sorting import sort


def _dot(a: Any, b: Any) -> Tensor:
    a, b = as_tensor(a), as_tensor(b)
    if not a.ndim or not b.ndim:
        return a * b
    return matmul.matmul(a, b) if b.ndim <= 2 else tensordot.tensordot(a, b, ([a.ndim - 1], [b.ndim - 2]))


def _tensors(arrays: Iterable[Any]) -> list[Tensor]:
    return [as_tensor(a) for a in arrays]


def _concatenate(arrays: Any, axis: int | None = 0) -> Tensor:
    tensors = _tensors(arrays)
    return concat.cat([t.ravel() for t in tensors]) if axis is None else concat.cat(tensors, axis)


def _cumsum(a: Any, axis: int | None = None, dtype: Any = None) -> Tensor:
    return cumulative.cumsum(a.ravel(), 0, dtype) if axis is None else cumulative.cumsum(a, axis, dtype)


def _sort(a: Any, axis: int | None = -1) -> Tensor:
    return sort.sort(a.ravel(), 0)[0] if axis is None else sort.sort(a, axis)[0]


def _argsort(a: Any, axis: int | None = -1) -> Tensor:
    return sort.argsort(a.ravel(), 0) if axis is None else sort.argsort(a, axis)


def _transpose(a: Any, axes: Any = None) -> Tensor:
    return permute.permute(a, tuple(range(a.ndim))[::-1] if axes is None else tuple(axes))


def _repeat(a: Any, repeats: Any, axis: int | None = None) -> Tensor:
    repeats = repeats if isinstance(repeats, int) else as_tensor(repeats)
    return rearrange.repeat_interleave(a, repeats, axis)


def _flip(m: Any, axis: Any = None) -> Tensor:
    dims = range(m.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    return rearrange.flip(m, tuple(dims))


def _size(a: Any, axis: int | None = None) -> int:
    return a.numel() if axis is None else a.shape[axis]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sum": lambda a, axis=None, dtype=None, keepdims=False: sum.sum(a, axis, keepdims, dtype),
    "prod": lambda a, axis=None, dtype=None, keepdims=False: sum.prod(a, axis, keepdims, dtype),
    "mean": lambda a, axis=None, dtype=None, keepdims=False: sum.mean(a, axis, keepdims, dtype),
    "var": lambda a, axis=None, ddof=0, keepdims=False: variance.var(a, axis, correction=ddof, keepdim=keepdims),
    "std": lambda a, axis=None, ddof=0, keepdims=False: variance.std(a, axis, correction=ddof, keepdim=keepdims),
    "max": lambda a, axis=None, keepdims=False: minmax.amax(a, axis, keepdims),
    "min": lambda a, axis=None, keepdims=False: minmax.amin(a, axis, keepdims),
    "argmax": lambda a, axis=None, keepdims=False: minmax.argmax(a, axis, keepdims),
    "argmin": lambda a, axis=None, keepdims=False: minmax.argmin(a, axis, keepdims),
    "all": lambda a, axis=None, keepdims=False: minmax.all(a, axis, keepdims),
    "any": lambda a, axis=None, keepdims=False: minmax.any(a, axis, keepdims),
    "cumsum": _cumsum, "sort": _sort, "argsort": _argsort, "transpose": _transpose, "repeat": _repeat, "flip": _flip,
    "dot": _dot, "vdot": lambda a, b: vector_products.vdot(as_tensor(a).ravel(), as_tensor(b).ravel()),
    "inner": lambda a, b: tensordot.inner(as_tensor(a), as_tensor(b)),
    "outer": lambda a, b: vector_products.outer(as_tensor(a).ravel(), as_tensor(b).ravel()),
    "kron": lambda a, b: tensordot.kron(as_tensor(a), as_tensor(b)),
    "tensordot": lambda a, b, axes=2: tensordot.tensordot(as_tensor(a), as_tensor(b), axes),
    "einsum": lambda subscripts, *operands: einsum.einsum(subscripts, *_tensors(operands)),
    "trace": lambda a: diagonal.trace(a), "concatenate": _concatenate,
    "stack": lambda arrays, axis=0: concat.stack(_tensors(arrays), axis),
    "vstack": lambda tup: concat.vstack(_tensors(tup)), "hstack": lambda tup: concat.hstack(_tensors(tup)),
    "dstack": lambda tup: concat.dstack(_tensors(tup)), "column_stack": lambda tup: concat.column_stack(_tensors(tup)),
    "reshape": lambda a, shape: a.reshape(shape), "ravel": lambda a: a.ravel(),
    "swapaxes": lambda a, axis1, axis2: permute.transpose(a, axis1, axis2),
    "moveaxis": lambda a, source, destination: permute.movedim(a, source, destination),
    "squeeze": lambda a, axis=None: reshape.squeeze(a, axis),
    "expand_dims": lambda a, axis: reshape.unsqueeze(a, axis),
    "broadcast_to": lambda array, shape: array.expand(shape),
    "roll": lambda a, shift, axis=None: rearrange.roll(a, shift, axis),
    "tile": lambda A, reps: rearrange.tile(A, (reps,) if isinstance(reps, int) else tuple(reps)),
    "where": lambda condition, x, y: masked.where(as_tensor(condition), x, y),
    "clip": lambda a, a_min=None, a_max=None: clamp.clamp(a, a_min, a_max),
    "diag": lambda v, k=0: diagonal.diag(v, k), "tril": lambda m, k=0: diagonal.tril(m, k),
    "triu": lambda m, k=0: diagonal.triu(m, k), "round": lambda a, decimals=0: rounding.round(a, decimals=decimals),
    "copy": lambda a: convert.clone(a), "shape": lambda a: Size(a.shape), "ndim": lambda a: a.ndim, "size": _size,
    "linalg.norm": lambda x, ord=None, axis=None, keepdims=False: norms.norm(x, ord, axis, keepdims),
    "linalg.inv": lambda a: solve.inverse(a), "linalg.det": lambda a: det.det(a),
    "linalg.solve": lambda a, b: solve.solve(as_tensor(a), as_tensor(b)),
}  # fmt: skip
FUNCTIONS.update({"amax": FUNCTIONS["max"], "amin": FUNCTIONS["min"], "around": FUNCTIONS["round"]})


def array_function(self: Tensor, function: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """NumPy's protocol: np.sum(t), np.concatenate([t, u]) call the op of the same meaning, which records."""
    name = f"{function.__module__}.{function.__name__}".removeprefix("numpy.")
    known = FUNCTIONS.get(name)
    if known is None:
        return function(*[_plain(arg) for arg in args], **{key: _plain(value) for key, value in kwargs.items()})
    try:
        inspect.signature(known).bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"np.{name} on tensors: {error}; it takes {inspect.signature(known)}. Use the ag function, or "
                        f"np.{name}(t.detach().array)") from None
    return known(*args, **kwargs)


def _plain(value: Any) -> Any:
    """`value` with the tensors in it replaced by arrays."""
    if isinstance(value, Tensor):
        return np.asarray(value)
    if type(value) in (list, tuple):
        return type(value)([_plain(item) for item in value])
    return value
