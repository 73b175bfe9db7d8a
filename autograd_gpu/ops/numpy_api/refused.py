"""The way out for each of NumPy's functions, ufuncs and arguments that tensors do not have."""

from __future__ import annotations

_NO_POLY = "coefficients are a tensor: np.polyval takes one; else"
_BY_SORT = "ag.sort, ag.topk and ag.kthvalue"
_SETS = "ag.unique, ag.isin and ag.cat"
_FILES = "ag.save, or t.detach().numpy()"
_TEXT = "repr(t), or ag.set_printoptions and print(t)"

NEAREST: dict[str, str] = {  # what to call in place of np.NAME
    "apply_along_axis": "ag.func.vmap", "apply_over_axes": "ag.sum and others with several dims",
    "argpartition": _BY_SORT, "partition": _BY_SORT, "lexsort": "ag.argsort, stable, key by key",
    "sort_complex": "ag.sort",
    "array2string": _TEXT, "array_repr": _TEXT, "array_str": _TEXT, "array_equiv": "ag.equal(a.expand(shape), b)",
    "can_cast": "ag.can_cast(t.dtype, dtype)", "result_type": "ag.result_type or ag.promote_types",
    "common_type": "ag.promote_types", "min_scalar_type": "t.dtype",
    "choose": "ag.gather or ag.where", "convolve": "t.unfold(0, n, 1) @ v.flip(0)",
    "correlate": "t.unfold(0, n, 1) @ v",
    "copyto": "dst.copy_(src)", "put": "t.index_put_", "place": "t.masked_scatter_", "putmask": "t.masked_scatter_",
    "put_along_axis": "t.scatter_", "fill_diagonal": "t.fill_diagonal_",
    "delete": "ag.cat of what stays, or t[mask]", "insert": "ag.cat of the parts",
    "resize": "t.repeat(...)[:n].reshape(...)",
    "diag_indices_from": "ag.arange", "tril_indices_from": "ag.tril_indices", "triu_indices_from": "ag.triu_indices",
    "ix_": "ag.meshgrid(..., indexing='ij')", "unravel_index": "ag.unravel_index",
    "ravel_multi_index": "sums of index * stride",
    "digitize": "ag.bucketize", "histogram": "ag.histogram or ag.histc", "histogram_bin_edges": "ag.histogram",
    "histogram2d": "ag.bincount of two ag.bucketize", "histogramdd": "ag.bincount of several ag.bucketize",
    "einsum_path": "ag.einsum, which searches for the order itself",
    "interp": "ag.searchsorted and ag.lerp", "unwrap": "ag.diff, ag.round and ag.cumsum",
    "imag": "ag.zeros_like (tensors are real)", "iscomplex": "ag.zeros_like (tensors are real)",
    "real_if_close": "the tensor itself, which is real",
    "in1d": "ag.isin", "intersect1d": _SETS, "setdiff1d": _SETS, "setxor1d": _SETS, "union1d": _SETS,
    "unique_all": "ag.unique", "unique_counts": "ag.unique", "unique_inverse": "ag.unique",
    "linalg.eig": "ag.linalg.eig or ag.linalg.eigh", "linalg.eigvals": "ag.linalg.eigvals or ag.linalg.eigvalsh",
    "linalg.lstsq": "ag.linalg.lstsq, whose results are PyTorch's",
    "logspace": "base ** ag.linspace(a, b, n)",
    "geomspace": "ag.exp(ag.linspace(a, b, n))",
    "nanargmax": "ag.argmax(ag.nan_to_num(t, nan=-math.inf))", "nanargmin": "ag.argmin(ag.nan_to_num(t, nan=math.inf))",
    "piecewise": "ag.where", "trim_zeros": "t[first:last]",
    "poly": f"{_NO_POLY} sums of powers", "polyadd": "ag.add of padded coefficients",
    "polysub": "ag.sub of padded coefficients",
    "polymul": "ag.outer and sums of its diagonals", "polydiv": "np.polydiv of t.detach().numpy()",
    "polyder": "p[:-1] * ag.arange(n, 0, -1)", "polyint": "p / ag.arange(n, 0, -1)",
    "polyfit": "ag.linalg.lstsq of ag.linalg.vander", "roots": "ag.linalg.eigvals of the companion matrix",
    "save": _FILES, "savetxt": _FILES, "savez": _FILES, "savez_compressed": _FILES,
    "lib.stride_tricks.sliding_window_view": "t.unfold",
    # ufuncs
    "cbrt": "ag.sign(t) * ag.abs(t) ** (1 / 3)", "spacing": "ag.nextafter(t, inf) - t",
    "bitwise_count": "sums of t >> k & 1",
    "frexp": "ag.frexp", "modf": "ag.frac and ag.trunc", "divmod": "ag.floor_divide and ag.remainder",
    "conjugate": "ag.conj", "vecdot": "ag.linalg.vecdot",
    "add.reduce": "np.sum", "multiply.reduce": "np.prod", "maximum.reduce": "np.max", "minimum.reduce": "np.min",
    "logical_and.reduce": "np.all", "logical_or.reduce": "np.any",
    "add.accumulate": "np.cumsum", "multiply.accumulate": "np.cumprod", "multiply.outer": "np.outer",
}  # fmt: skip

INSTEAD: dict[str, str] = {  # what to do in place of an argument
    "casting": "leave it out, and convert by .to(dtype)",
    "order": "leave it out: tensors are laid out in rows; transpose them where columns are to come first",
    "subok": "leave it out: results are tensors",
    "where": "use ag.where(mask, result, other)",
    "out": "write into a tensor: t.copy_(result), or array[...] = result.detach().numpy()",
    "dtype": "leave it out, and convert the result by .to(dtype)",
    "device": "leave it out, and move the result by .to(device)",
    "copy": "leave it out; t.clone() copies",
    "weights": "use np.average, or ag.sort and a sum of your own",
    "mode": "leave it out: an index out of range is an error; use ag.clamp or ag.remainder on the indices",
    "return_index": "use ag.argsort", "equal_nan": "leave it out: each NaN is a value of its own, as in PyTorch",
    "hermitian": "use ag.linalg.eigh", "bias": "leave it out", "ddof": "leave it out",
    "axisa": "use axis=, or ag.movedim", "axisb": "use axis=, or ag.movedim", "axisc": "use axis=, or ag.movedim",
    "initial": "combine the result and the number by ag.maximum or ag.minimum", "newshape": "give shape",
    "interpolation": "use method=", "period": "leave it out",
}  # fmt: skip


def way_out(name: str, known: list[str], module: str = "np") -> str:
    """What an error advises in place of `name` of NumPy or CuPy; `known` are the public functions' names."""
    array = f"{module}.{name}(t.detach().array), which computes with arrays and records nothing"
    nearest = NEAREST.get(name) or next((f"ag.{k}" for k in (name, name.rpartition(".")[2]) if k in known), None)
    return f"use {nearest}, or {array}" if nearest else f"use {array}"
