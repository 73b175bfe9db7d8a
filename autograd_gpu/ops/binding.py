"""The table that binds Tensor's methods and operators to the ops, and NumPy's and CuPy's protocols.

`ci/write_stubs.py` writes core/tensor.pyi and ops/__init__.pyi from it; a test holds them against it.
"""

from __future__ import annotations

from typing import Any

from ..backend.arrays import dtypes
from ..core.extend import Tensor, operator
from . import aliases, properties
from .creation import convert, like, strided
from .elementwise import (
    arithmetic,
    bessel,
    bitwise,
    clamp,
    comparison,
    division,
    erf,
    gamma,
    logarithm,
    rounding,
    trigonometric,
    unary,
)
from .indexing import basic_index, gather, index, index_put, masked, scatter, setitem
from .inplace import activations, expanded, random, views, write
from .linalg import addmm, cholesky, det, distance, matmul, matrix_functions, solve, svd, tensordot, vector_products
from .nn import activation, piecewise_activations, softmax
from .numpy_functions import array_function
from .random import sampling
from .reduction import covariance, cumprod, cumulative, difference, minmax, nan, sum, variance
from .shape import broadcast, diagonal, permute, rearrange, reshape, split, view
from .sorting import histogram, order_statistics, quantile, sort, unique

# Methods with the name and the signature of the function.
SAME_NAME: dict[Any, tuple[str, ...]] = {
    activation: ("relu", "sigmoid", "tanh"),
    addmm: ("addbmm", "addmm", "addmv", "addr", "baddbmm"),
    aliases: (
        "absolute", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "clip", "fix", "greater",
        "greater_equal", "igamma", "igammac", "less", "less_equal", "multiply", "negative", "not_equal", "sgn",
        "subtract", "true_divide",
    ),
    gather: ("gather", "take_along_dim"),
    arithmetic: (
        "add", "addcdiv", "addcmul", "atan2", "copysign", "float_power", "heaviside", "hypot", "ldexp", "lerp", "mul",
        "nextafter", "pow", "sub",
    ),
    bessel: ("i0",),
    bitwise: ("bitwise_and", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor"),
    clamp: ("clamp", "clamp_max", "clamp_min", "fmax", "fmin", "maximum", "minimum"),
    broadcast: ("sum_to_size",),
    comparison: (
        "allclose", "eq", "equal", "ge", "gt", "isclose", "isfinite", "isinf", "isnan", "isneginf", "isposinf",
        "isreal", "le", "logical_and", "logical_not", "logical_or", "logical_xor", "lt", "ne", "signbit",
    ),
    tensordot: ("inner", "kron"),
    convert: ("clone", "contiguous", "cpu", "cuda", "detach_", "to", "type_as"),
    like: ("new", "new_empty", "new_full", "new_ones", "new_tensor", "new_zeros"),
    cumprod: ("cumprod",),
    det: ("det", "logdet", "slogdet"),
    diagonal: ("diag", "diag_embed", "diagflat", "diagonal", "diagonal_scatter", "tril", "triu"),
    difference: ("diff",),
    distance: ("dist", "renorm"),
    division: ("divide", "floor_divide", "fmod", "gcd", "lcm", "remainder"),
    unary: (
        "abs", "conj", "conj_physical", "exp", "exp2", "expm1", "frexp", "log", "log10", "log1p", "log2", "neg",
        "positive", "reciprocal", "rsqrt", "sign", "sqrt", "square",
    ),
    erf: ("erf", "erfc", "erfinv"),
    expanded: ("fill_diagonal_", "index_fill_", "index_put_", "masked_fill_"),
    minmax: ("all", "amax", "amin", "aminmax", "any", "argmax", "argmin", "max", "min"),
    gamma: ("digamma", "lgamma", "mvlgamma", "polygamma"),
    histogram: ("bincount", "histc", "histogram"),
    index: ("index_select",),
    write: ("add_", "copy_", "div_", "fill_", "mul_", "sub_", "zero_"),
    random: (
        "bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_", "normal_", "random_", "uniform_",
    ),
    solve: ("inverse",),
    logarithm: ("logaddexp", "logaddexp2", "logit", "xlogy"),
    masked: ("masked_fill", "masked_scatter", "masked_select"),
    matrix_functions: ("matrix_exp", "matrix_power"),
    nan: ("nan_to_num", "nanmean", "nansum"),
    order_statistics: ("kthvalue", "median", "mode", "nanmedian"),
    activations: ("relu_", "sigmoid_", "tanh_"),
    permute: ("adjoint", "moveaxis", "movedim", "swapaxes", "swapdims", "t", "transpose"),
    piecewise_activations: ("hardshrink", "prelu"),
    index_put: ("index_add", "index_copy", "index_fill", "index_put", "put", "select_scatter", "slice_scatter", "take"),
    softmax: ("log_softmax", "softmax"),
    matmul: ("bmm", "matmul", "mm", "mv"),
    properties: (
        "data_ptr", "get_device", "is_complex", "is_nonzero", "is_same_size", "is_signed", "ndimension",
        "size", "storage_offset", "stride",
    ),
    quantile: ("nanquantile", "quantile"),
    rearrange: ("fliplr", "flipud", "repeat_interleave", "roll", "rot90"),
    sum: ("count_nonzero", "logsumexp", "mean", "norm", "sum", "trace"),
    rounding: ("ceil", "floor", "frac", "round", "trunc"),
    sampling: ("bernoulli", "multinomial"),
    cumulative: ("cummax", "cummin", "cumsum", "logcumsumexp", "prod"),
    scatter: ("index_reduce", "scatter", "scatter_add", "scatter_reduce"),
    reshape: ("broadcast_to", "expand_as", "flatten", "ravel", "squeeze", "sum_to", "unflatten", "unsqueeze"),
    svd: ("pinverse",),
    basic_index: ("narrow", "narrow_copy", "select"),
    sort: ("argsort", "argwhere", "isin", "msort", "nonzero", "sort", "topk"),
    split: (
        "chunk", "dsplit", "hsplit", "split_with_sizes", "tensor_split", "unbind", "unsafe_chunk", "unsafe_split",
        "unsafe_split_with_sizes", "vsplit",
    ),
    covariance: ("corrcoef", "cov"),
    strided: ("new_empty_strided",),
    cholesky: ("cholesky", "cholesky_inverse", "cholesky_solve"),
    trigonometric: (
        "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "deg2rad", "rad2deg", "sin", "sinc", "sinh",
        "tan",
    ),
    unique: ("unique", "unique_consecutive"),
    variance: ("std", "var"),
    vector_products: ("cross", "dot", "ger", "outer", "vdot"),
    view: ("as_strided", "reshape_as", "unfold", "view_as"),
}  # fmt: skip

# Methods that differ from the function: varargs shapes, other names.
RENAMED: dict[str, Any] = {
    "div": division.divide,
    "reshape": reshape.reshape_method,
    "view": view.view_method,
    "nelement": properties.numel,
    "where": masked.where_method,
    "type": convert.type_method,
    "permute": permute.permute_method,
    "flip": rearrange.flip_method,
    "expand": reshape.expand_method,
    "repeat": rearrange.repeat_method,
    "tile": rearrange.tile_method,
    "split": split.split_method,
    "bfloat16": convert.to_named(dtypes.bfloat16),
    "bool": convert.to_named(dtypes.bool_),
    "byte": convert.to_named(dtypes.uint8),
    "char": convert.to_named(dtypes.int8),
    "double": convert.to_named(dtypes.float64),
    "float": convert.to_named(dtypes.float32),
    "half": convert.to_named(dtypes.float16),
    "int": convert.to_named(dtypes.int32),
    "long": convert.to_named(dtypes.int64),
    "short": convert.to_named(dtypes.int16),
    "__abs__": unary.abs,
    "__neg__": unary.neg,
    "__getitem__": index.getitem,
    "__setitem__": setitem.setitem,
    "__invert__": bitwise.bitwise_not,
    "__pos__": convert.itself,
}

# Written back into their first operand: x.tril_() and so on.
WRITTEN_BACK: dict[Any, tuple[str, ...]] = {
    addmm: ("addbmm", "addmm", "addmv", "addr", "baddbmm"),
    aliases: (
        "absolute", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "clip", "fix", "greater",
        "greater_equal", "igamma", "igammac", "less", "less_equal", "negative", "not_equal", "sgn",
    ),
    arithmetic: (
        "addcdiv", "addcmul", "atan2", "copysign", "float_power", "heaviside", "hypot", "ldexp", "lerp", "nextafter",
        "pow",
    ),
    bessel: ("i0",),
    bitwise: SAME_NAME[bitwise],
    clamp: ("clamp", "clamp_max", "clamp_min"),
    comparison: ("eq", "ge", "gt", "le", "logical_and", "logical_not", "logical_or", "logical_xor", "lt", "ne"),
    cumprod: SAME_NAME[cumprod],
    diagonal: ("tril", "triu"),
    distance: ("renorm",),
    division: ("floor_divide", "fmod", "gcd", "lcm", "remainder"),
    unary: (
        "abs", "conj_physical", "exp", "exp2", "expm1", "log", "log10", "log1p", "log2", "neg", "reciprocal", "rsqrt",
        "sign", "sqrt", "square",
    ),
    erf: SAME_NAME[erf],
    gamma: SAME_NAME[gamma],
    logarithm: ("logit", "xlogy"),
    masked: ("masked_scatter",),
    nan: ("nan_to_num",),
    index_put: ("index_add", "index_copy", "put"),
    rounding: SAME_NAME[rounding],
    cumulative: ("cumsum",),
    scatter: SAME_NAME[scatter],
    trigonometric: SAME_NAME[trigonometric],
}  # fmt: skip
# x itself in another shape: x.unsqueeze_(0) and so on.
VIEWED: dict[Any, tuple[str, ...]] = {
    permute: ("swapaxes", "swapdims", "t", "transpose"),
    reshape: ("squeeze", "unsqueeze"),
    view: ("as_strided",),
}
for table, make in ((WRITTEN_BACK, write.in_place), (VIEWED, views.in_place_view)):
    RENAMED.update({f"{n}_": make(getattr(module, n), f"{n}_") for module, names in table.items() for n in names})
RENAMED.update({
    "multiply_": write.mul_, "subtract_": write.sub_, "true_divide_": write.div_, "divide_": write.div_,
})  # fmt: skip

BINARY: dict[str, Any] = {
    "add": arithmetic.add, "sub": arithmetic.sub, "mul": arithmetic.mul, "truediv": division.div,
    "floordiv": division.floor_divide, "mod": division.remainder, "pow": arithmetic.pow,
    "and": bitwise.bitwise_and, "or": bitwise.bitwise_or, "xor": bitwise.bitwise_xor,
    "lshift": bitwise.bitwise_left_shift, "rshift": bitwise.bitwise_right_shift,
}  # fmt: skip
COMPARISONS: dict[str, Any] = {
    "eq": comparison.eq, "ne": comparison.ne, "lt": comparison.lt, "le": comparison.le, "gt": comparison.gt,
    "ge": comparison.ge,
}  # fmt: skip
IN_PLACE = {
    "add": write.add_, "sub": write.sub_, "mul": write.mul_, "truediv": write.div_,
    "floordiv": RENAMED["floor_divide_"], "mod": RENAMED["remainder_"], "pow": RENAMED["pow_"],
    "and": RENAMED["bitwise_and_"], "or": RENAMED["bitwise_or_"], "xor": RENAMED["bitwise_xor_"],
    "lshift": RENAMED["bitwise_left_shift_"], "rshift": RENAMED["bitwise_right_shift_"],
}  # fmt: skip
PROPERTIES = {
    "H": permute.hermitian, "mH": permute.adjoint, "mT": permute.mT, "T": permute.transpose_all,
    "is_cpu": properties.is_cpu, "is_sparse": properties.is_sparse,
}  # fmt: skip

# NumPy's and CuPy's ufuncs by name -> the op that records in their place.
UFUNCS: dict[str, Any] = {
    "add": arithmetic.add, "subtract": arithmetic.sub, "multiply": arithmetic.mul, "divide": division.div,
    "true_divide": division.div, "power": arithmetic.pow, "floor_divide": division.floor_divide,
    "remainder": division.remainder, "maximum": clamp.maximum, "minimum": clamp.minimum,
    "arctan2": arithmetic.atan2, "equal": comparison.eq, "not_equal": comparison.ne, "less": comparison.lt,
    "less_equal": comparison.le, "greater": comparison.gt, "greater_equal": comparison.ge,
    "bitwise_and": bitwise.bitwise_and, "bitwise_or": bitwise.bitwise_or, "bitwise_xor": bitwise.bitwise_xor,
    "invert": bitwise.bitwise_not, "left_shift": bitwise.bitwise_left_shift,
    "right_shift": bitwise.bitwise_right_shift, "gcd": division.gcd, "lcm": division.lcm, "fmod": division.fmod,
    "fmax": clamp.fmax, "fmin": clamp.fmin, "hypot": arithmetic.hypot, "copysign": arithmetic.copysign,
    "nextafter": arithmetic.nextafter, "heaviside": arithmetic.heaviside, "logaddexp": logarithm.logaddexp,
    "logaddexp2": logarithm.logaddexp2, "logical_xor": comparison.logical_xor, "isinf": comparison.isinf,
    "signbit": comparison.signbit, "positive": unary.positive, "deg2rad": trigonometric.deg2rad,
    "radians": trigonometric.deg2rad, "rad2deg": trigonometric.rad2deg, "degrees": trigonometric.rad2deg,
    "logical_and": comparison.logical_and, "logical_or": comparison.logical_or, "logical_not": comparison.logical_not,
    "isnan": comparison.isnan, "isfinite": comparison.isfinite, "negative": unary.neg,
    "absolute": unary.abs,
    "sign": unary.sign, "floor": rounding.floor, "ceil": rounding.ceil, "rint": rounding.round,
    "trunc": rounding.trunc, "reciprocal": unary.reciprocal, "square": unary.square,
    "sqrt": unary.sqrt, "exp": unary.exp, "exp2": unary.exp2, "expm1": unary.expm1,
    "log": unary.log, "log2": unary.log2, "log10": unary.log10, "log1p": unary.log1p,
    "sin": trigonometric.sin, "cos": trigonometric.cos, "tan": trigonometric.tan, "arcsin": trigonometric.asin,
    "arccos": trigonometric.acos, "arctan": trigonometric.atan, "sinh": trigonometric.sinh, "cosh": trigonometric.cosh,
    "tanh": activation.tanh, "arcsinh": trigonometric.asinh, "arccosh": trigonometric.acosh,
    "arctanh": trigonometric.atanh, "matmul": matmul.matmul,
}  # fmt: skip


def reflected(function: Any) -> Any:
    """`other OP self` for an operand that does not know tensors."""

    def method(self: Tensor, other: Any) -> Any:
        return function(other, self)

    return method


def array_ufunc(self: Tensor, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """NumPy's protocol: np.sin(t) and array * t record, as the op of the same meaning."""
    name = f"np.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
    return _record(name, UFUNCS.get(ufunc.__name__) if method == "__call__" else None, inputs, kwargs)


def cupy_override(self: Tensor, kernel: Any, *inputs: Any, **kwargs: Any) -> Any:
    """The same for CuPy, which asks this of its ufuncs' operands; their names are cupy_sin and the like."""
    name = kernel.name.removeprefix("cupy_")
    if len(inputs) > kernel.nin:  # array += tensor
        inputs, kwargs = inputs[: kernel.nin], {**kwargs, "out": inputs[kernel.nin :]}
    return _record(f"cupy.{name}", UFUNCS.get(name), inputs, kwargs)


def _record(name: str, op: Any, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if op is None or kwargs:
        given = f" with {', '.join(sorted(kwargs))}=" if kwargs else ""
        raise TypeError(f"{name}{given} is not defined for tensors; use the ag function, or {name}(t.detach().array)")
    return op(*inputs)


def _iterate(self: Tensor) -> Any:
    if self.ndim == 0:
        raise TypeError("iteration over a 0-d tensor")
    return iter(split.unbind(self, 0))


def _reversed(self: Tensor) -> Tensor:
    return rearrange.flip(self, (0,)) if self.ndim else self


def bind() -> None:
    """Gives Tensor everything that the tables above name."""
    for module, names in SAME_NAME.items():
        for name in names:
            setattr(Tensor, name, getattr(module, name))
    for name, function in RENAMED.items():
        setattr(Tensor, name, function)
    for name, function in BINARY.items():
        setattr(Tensor, f"__{name}__", operator(function.op))
        setattr(Tensor, f"__r{name}__", reflected(function))
    for name, function in COMPARISONS.items():
        setattr(Tensor, f"__{name}__", operator(function.op))
    for name, function in IN_PLACE.items():
        setattr(Tensor, f"__i{name}__", function)
    for name, function in PROPERTIES.items():
        setattr(Tensor, name, property(function))
    Tensor.__matmul__ = matmul.matmul  # type: ignore[operator, assignment]
    Tensor.__rmatmul__ = reflected(matmul.matmul)  # type: ignore[operator]
    Tensor.__iter__ = _iterate  # type: ignore[attr-defined]
    Tensor.__reversed__ = _reversed  # type: ignore[attr-defined]
    Tensor.__array_ufunc__ = array_ufunc  # type: ignore[attr-defined]
    Tensor.__array_function__ = array_function  # type: ignore[attr-defined]
    Tensor.__cupy_override_elementwise_kernel__ = cupy_override  # type: ignore[attr-defined]


bind()
