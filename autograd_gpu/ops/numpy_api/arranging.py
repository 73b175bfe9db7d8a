"""Joining, cutting and rearranging with NumPy's arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.extend import Tensor
from ..creation import convert
from ..linalg import matrix_functions
from ..nn import pad as padding
from ..shape import broadcast, concat, diagonal, meshgrid, permute, rearrange, reshape, split
from .table import Row, Table, cast, dims, tensor, tensors


def _concatenate(arrays: Any, axis: int | None = 0, dtype: Any = None) -> Tensor:
    parts = tensors(arrays)
    return cast(concat.cat([p.ravel() for p in parts] if axis is None else parts, 0 if axis is None else axis), dtype)


def _joining(join: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda tup, dtype=None: cast(join(tensors(tup)), dtype)


def _append(arr: Any, values: Any, axis: int | None = None) -> Tensor:
    return _concatenate([arr, values], axis)


def _block(arrays: Any) -> Tensor:
    def depth(part: Any) -> int:
        return 1 + max(map(depth, part)) if isinstance(part, list) else 0

    def dimensions(part: Any) -> int:
        return max(map(dimensions, part)) if isinstance(part, list) else np.ndim(part)

    def joined(part: Any, dim: int) -> Tensor:  # the innermost lists are joined along the last dimension
        if isinstance(part, list):
            return concat.cat([joined(item, dim + 1) for item in part], dim)
        leaf = tensor(part)
        return leaf.reshape((1,) * (rank - leaf.ndim) + tuple(leaf.shape))

    rank = max(depth(arrays), dimensions(arrays))
    return joined(arrays, rank - depth(arrays))


def _split(ary: Tensor, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    if isinstance(indices_or_sections, int) and ary.shape[axis] % indices_or_sections:
        raise ValueError(f"np.split: {ary.shape[axis]} elements along axis {axis} cannot be cut into "
                         f"{indices_or_sections} equal parts; use np.array_split")
    return _array_split(ary, indices_or_sections, axis)


def _array_split(ary: Tensor, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    cuts = indices_or_sections if isinstance(indices_or_sections, int) else [int(i) for i in indices_or_sections]
    return list(split.tensor_split(ary, cuts, axis))


def _hsplit(ary: Tensor, indices_or_sections: Any) -> list[Tensor]:
    return _split(ary, indices_or_sections, 1 if ary.ndim > 1 else 0)


def _roll_axis(a: Tensor, axis: int, start: int = 0) -> Tensor:
    axis, start = axis % a.ndim, start + a.ndim if start < 0 else start
    return permute.movedim(a, axis, start - 1 if axis < start else start)


def _repeat(a: Any, repeats: Any, axis: int | None = None) -> Tensor:
    a = tensor(a)
    counts = repeats if isinstance(repeats, int) else tensors([a, repeats])[1]
    if axis is None:
        a, axis = a.ravel(), 0
    return rearrange.repeat_interleave(a, counts, axis)


def _flip(m: Tensor, axis: Any = None) -> Tensor:
    return rearrange.flip(m, dims(m, axis))


def _transpose(a: Tensor, axes: Any = None) -> Tensor:
    return permute.permute(a, tuple(range(a.ndim))[::-1] if axes is None else tuple(axes))


def _widths(pad_width: Any, ndim: int) -> list[tuple[int, int]]:
    """(before, after) of each dimension."""
    return [(int(before), int(after)) for before, after in np.broadcast_to(np.asarray(pad_width), (ndim, 2))]


def _pad(array: Tensor, pad_width: Any, mode: str = "constant", constant_values: Any = 0,
         reflect_type: str = "even") -> Tensor:  # fmt: skip
    widths = _widths(pad_width, array.ndim)
    if mode == "constant" and isinstance(constant_values, (int, float)):
        return padding.pad(array, [n for pair in reversed(widths) for n in pair], value=constant_values)
    if mode not in ("edge", "reflect", "symmetric", "wrap") or reflect_type != "even" or constant_values != 0:
        raise TypeError(f"np.pad: mode={mode!r} with reflect_type={reflect_type!r} and constant_values of type "
                        f"{type(constant_values).__name__} is not defined for tensors, which take one constant, and "
                        "the modes edge, reflect, symmetric and wrap; join parts by ag.cat")
    for dim, pair in enumerate(widths):
        if pair != (0, 0):  # NumPy pads the numbers of the elements
            source = list(np.pad(np.arange(array.shape[dim]), pair, mode))  # type: ignore[call-overload]
            array = array[(slice(None),) * dim + (tensors([array, source])[1],)]
    return array


def _expand_dims(a: Tensor, axis: Any) -> Tensor:
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    rank = a.ndim + len(axes)
    for dim in sorted([d % rank if -rank <= d < rank else d for d in axes]):
        a = reshape.unsqueeze(a, dim)
    return a


def _diagonal(a: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    return diagonal.diagonal(a, offset, axis1, axis2)


def _trace(a: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Tensor:
    return diagonal.diagonal(a, offset, axis1, axis2).sum(-1, dtype=dtype)


def _meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Tensor, ...]:
    grids = meshgrid.meshgrid(*tensors(xi), indexing=indexing)
    if sparse:
        kept = [1 - d if d < 2 and indexing == "xy" else d for d in range(len(grids))] if len(grids) > 1 else [0]
        grids = tuple([g[tuple([slice(None) if d == k else slice(1) for d in range(g.ndim)])]
                       for g, k in zip(grids, kept, strict=True)])  # fmt: skip
    return tuple([g.clone() for g in grids]) if copy else grids


def _vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:  # NumPy's name
    return matrix_functions.vander(x, N, increasing)


def _atleast(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arys: function(*tensors(arys))


def _stack(arrays: Sequence[Any], axis: int = 0, dtype: Any = None) -> Tensor:
    return cast(concat.stack(tensors(arrays), axis), dtype)


ARRANGING: Table = {
    "concatenate": Row("cat", _concatenate), "stack": Row("stack", _stack),
    "vstack": Row("vstack", _joining(concat.vstack)),
    "hstack": Row("hstack", _joining(concat.hstack)), "dstack": Row("dstack", lambda tup: concat.dstack(tensors(tup))),
    "column_stack": Row("column_stack", lambda tup: concat.column_stack(tensors(tup))),
    "append": Row("cat", _append), "block": Row("cat", _block),
    "split": Row("tensor_split", _split), "array_split": Row("tensor_split", _array_split),
    "hsplit": Row("hsplit", _hsplit),
    "vsplit": Row("vsplit", lambda ary, indices_or_sections: _split(ary, indices_or_sections, 0)),
    "dsplit": Row("dsplit", lambda ary, indices_or_sections: _split(ary, indices_or_sections, 2)),
    "unstack": Row("unbind", lambda x, axis=0: x.unbind(axis)),
    "reshape": Row("reshape", lambda a, shape: a.reshape(shape)), "ravel": Row("ravel", lambda a: a.ravel()),
    "transpose": Row("permute", _transpose), "matrix_transpose": Row("Tensor.mT", lambda x: x.mT),
    "linalg.matrix_transpose": Row("Tensor.mT", lambda x: x.mT),
    "swapaxes": Row("swapaxes", lambda a, axis1, axis2: permute.transpose(a, axis1, axis2)),
    "moveaxis": Row("moveaxis", lambda a, source, destination: permute.movedim(a, source, destination)),
    "rollaxis": Row("movedim", _roll_axis), "squeeze": Row("squeeze", lambda a, axis=None: reshape.squeeze(a, axis)),
    "expand_dims": Row("unsqueeze", _expand_dims),
    "broadcast_to": Row("broadcast_to", lambda array, shape: array.expand(shape)),
    "broadcast_arrays": Row("broadcast_tensors", lambda *args: broadcast.broadcast_tensors(*tensors(args))),
    "flip": Row("flip", _flip), "fliplr": Row("fliplr", lambda m: rearrange.fliplr(m)),
    "flipud": Row("flipud", lambda m: rearrange.flipud(m)),
    "rot90": Row("rot90", lambda m, k=1, axes=(0, 1): rearrange.rot90(m, k, axes)),
    "roll": Row("roll", lambda a, shift, axis=None: rearrange.roll(a, shift, axis)),
    "tile": Row("tile", lambda A, reps: rearrange.tile(A, (reps,) if isinstance(reps, int) else tuple(reps))),
    "repeat": Row("repeat_interleave", _repeat), "pad": Row("nn.functional.pad", _pad),
    "diag": Row("diag", lambda v, k=0: diagonal.diag(v, k)),
    "diagflat": Row("diagflat", lambda v, k=0: diagonal.diagflat(v, k)),
    "diagonal": Row("diagonal", _diagonal), "trace": Row("trace", _trace),
    "linalg.diagonal": Row("linalg.diagonal", lambda x, offset=0: _diagonal(x, offset, -2, -1)),
    "linalg.trace": Row("trace", lambda x, offset=0, dtype=None: _trace(x, offset, -2, -1, dtype)),
    "tril": Row("tril", lambda m, k=0: diagonal.tril(m, k)), "triu": Row("triu", lambda m, k=0: diagonal.triu(m, k)),
    "meshgrid": Row("meshgrid", _meshgrid), "vander": Row("vander", _vander),
    **{f"atleast_{n}d": Row(f"atleast_{n}d", _atleast(getattr(broadcast, f"atleast_{n}d"))) for n in (1, 2, 3)},
    "copy": Row("clone", lambda a: convert.clone(a)),
}  # fmt: skip
