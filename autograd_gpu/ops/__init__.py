"""The ops, by PyTorch's names. Each is one block in the file of its family; `methods` binds the Tensor methods."""

from . import methods as methods  # binds Tensor's methods
from .activation import elu, gelu, leaky_relu, relu, sigmoid, silu, softplus, tanh
from .along import gather, scatter, scatter_add, take_along_dim
from .arithmetic import (
    add,
    addcdiv,
    addcmul,
    atan2,
    clamp,
    div,
    eq,
    floor_divide,
    ge,
    gt,
    isfinite,
    isnan,
    le,
    lerp,
    logical_and,
    logical_not,
    logical_or,
    lt,
    maximum,
    minimum,
    mul,
    ne,
    pow,
    remainder,
    sub,
    where,
)
from .classification import cross_entropy, nll_loss
from .convert import clone, contiguous, to
from .creation import (
    arange,
    as_tensor,
    empty,
    empty_like,
    eye,
    from_dlpack,
    from_numpy,
    full,
    full_like,
    linspace,
    ones,
    ones_like,
    tensor,
    zeros,
    zeros_like,
)
from .einsum import einsum
from .elementwise import (
    abs,
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atanh,
    ceil,
    cos,
    cosh,
    erf,
    erfc,
    exp,
    exp2,
    expm1,
    floor,
    log,
    log1p,
    log2,
    log10,
    neg,
    reciprocal,
    round,
    rsqrt,
    sign,
    sin,
    sinh,
    sqrt,
    square,
    tan,
    trunc,
)
from .extreme import all, amax, amin, any, argmax, argmin, max, min
from .index import embedding, index_add, index_select, masked_fill, masked_select, one_hot
from .join import cat, chunk, hstack, split, split_with_sizes, stack, unbind, vstack
from .loss import binary_cross_entropy_with_logits, huber_loss, l1_loss, mse_loss, smooth_l1_loss
from .noise import dropout
from .norm import layer_norm
from .probability import log_softmax, softmax
from .products import addmm, baddbmm, bmm, dot, linear, matmul, mm, mv, outer
from .rearrange import diagonal, flip, pad, repeat, roll, tile, tril, triu
from .reduce import logsumexp, mean, norm, std, sum, var
from .scan import cumsum, prod
from .shape import (
    broadcast_to,
    expand,
    expand_as,
    flatten,
    movedim,
    permute,
    ravel,
    reshape,
    squeeze,
    sum_to,
    t,
    transpose,
    unflatten,
    unsqueeze,
)
from .slicing import narrow, select
from .sorting import argsort, argwhere, nonzero, sort, topk

__all__ = [
    "abs", "acos", "acosh", "add", "addcdiv", "addcmul", "addmm", "all", "amax", "amin", "any", "arange",
    "argmax", "argmin", "argsort", "argwhere", "as_tensor", "asin", "asinh", "atan", "atan2", "atanh",
    "baddbmm", "binary_cross_entropy_with_logits", "bmm", "broadcast_to", "cat", "ceil", "chunk", "clamp",
    "clone", "contiguous", "cos", "cosh", "cross_entropy", "cumsum", "diagonal", "div", "dot", "dropout",
    "einsum", "elu", "embedding", "empty", "empty_like", "eq", "erf", "erfc", "exp", "exp2", "expand",
    "expand_as", "expm1", "eye", "flatten", "flip", "floor", "floor_divide", "from_dlpack", "from_numpy",
    "full", "full_like", "gather", "ge", "gelu", "gt", "hstack", "huber_loss", "index_add", "index_select",
    "isfinite", "isnan", "l1_loss", "layer_norm", "le", "leaky_relu", "lerp", "linear", "linspace", "log",
    "log10", "log1p", "log2", "log_softmax", "logical_and", "logical_not", "logical_or", "logsumexp", "lt",
    "masked_fill", "masked_select", "matmul", "max", "maximum", "mean", "min", "minimum", "mm", "movedim",
    "mse_loss", "mul", "mv", "narrow", "ne", "neg", "nll_loss", "nonzero", "norm", "one_hot", "ones",
    "ones_like", "outer", "pad", "permute", "pow", "prod", "ravel", "reciprocal", "relu", "remainder", "repeat",
    "reshape", "roll", "round", "rsqrt", "scatter", "scatter_add", "select", "sigmoid", "sign", "silu", "sin",
    "sinh", "smooth_l1_loss", "softmax", "softplus", "sort", "split", "split_with_sizes", "sqrt", "square",
    "squeeze", "stack", "std", "sub", "sum", "sum_to", "t", "take_along_dim", "tan", "tanh", "tensor", "tile",
    "to", "topk", "transpose", "tril", "triu", "trunc", "unbind", "unflatten", "unsqueeze", "var", "vstack",
    "where", "zeros", "zeros_like",
]  # fmt: skip
