"""The ops, by PyTorch's names. Each is one block in the file of its family; `methods` binds the Tensor methods."""

from . import methods as methods  # binds Tensor's methods
from . import out as out_
from .activation import relu, sigmoid, silu, softsign, tanh, tanhshrink
from .addmm import addbmm, addmm, addmv, addr, baddbmm
from .aliases import (
    absolute,
    arccos,
    arccosh,
    arcsin,
    arcsinh,
    arctan,
    arctan2,
    arctanh,
    clip,
    fix,
    greater,
    greater_equal,
    igamma,
    igammac,
    less,
    less_equal,
    multiply,
    negative,
    not_equal,
    sgn,
    subtract,
    trapz,
    true_divide,
)
from .along import gather, take_along_dim
from .arithmetic import (
    add,
    addcdiv,
    addcmul,
    atan2,
    copysign,
    float_power,
    heaviside,
    hypot,
    ldexp,
    lerp,
    mul,
    nextafter,
    pow,
    rsub,
    sub,
)
from .attention import scaled_dot_product_attention
from .bags import embedding_bag
from .bessel import i0
from .bilinear import bilinear
from .bitwise import bitwise_and, bitwise_left_shift, bitwise_not, bitwise_or, bitwise_right_shift, bitwise_xor
from .bounds import clamp, clamp_max, clamp_min, fmax, fmin, maximum, minimum
from .broadcast import atleast_1d, atleast_2d, atleast_3d, broadcast_shapes, broadcast_tensors
from .channels import batch_norm, group_norm, instance_norm
from .classification import cross_entropy, nll_loss
from .comparison import (
    allclose,
    eq,
    equal,
    ge,
    gt,
    isclose,
    isfinite,
    isinf,
    isnan,
    isneginf,
    isposinf,
    isreal,
    le,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    lt,
    ne,
    signbit,
)
from .contraction import chain_matmul, inner, kron, tensordot
from .convert import clone, contiguous, detach, to
from .creation import (
    arange,
    as_tensor,
    asarray,
    empty,
    eye,
    from_dlpack,
    from_numpy,
    full,
    linspace,
    logspace,
    ones,
    tensor,
    zeros,
)
from .cumprod import cumprod
from .determinant import det, logdet, slogdet
from .diagonal import diag, diag_embed, diagflat, diagonal, diagonal_scatter, tril, tril_indices, triu, triu_indices
from .difference import cumulative_trapezoid, diff, gradient, trapezoid
from .distance import cdist, dist, pdist, renorm
from .division import divide, floor_divide, fmod, gcd, lcm, remainder
from .division import divide as div
from .einsum import einsum
from .elementwise import (
    abs,
    conj,
    exp,
    exp2,
    expm1,
    frexp,
    log,
    log1p,
    log2,
    log10,
    neg,
    positive,
    reciprocal,
    rsqrt,
    sign,
    sqrt,
    square,
)
from .erf import erf, erfc, erfinv
from .exponential import celu, elu, logsigmoid, mish, selu, softplus
from .extreme import all, amax, amin, aminmax, any, argmax, argmin, max, min
from .gamma import digamma, lgamma, mvlgamma
from .gamma import polygamma_of as polygamma
from .gated import glu
from .gelu import gelu
from .grid import cartesian_prod, combinations, meshgrid, unravel_index, vander
from .histogram import bincount, histc, histogram
from .index import embedding, index_select, one_hot
from .inplace_functions import (
    abs_,
    acos_,
    acosh_,
    addmv_,
    arccos_,
    arccosh_,
    arcsin_,
    arcsinh_,
    arctan_,
    arctanh_,
    as_strided_,
    asin_,
    asinh_,
    atan_,
    atanh_,
    ceil_,
    clamp_,
    clamp_max_,
    clamp_min_,
    clip_,
    cos_,
    cosh_,
    deg2rad_,
    detach_,
    erf_,
    erfc_,
    exp2_,
    exp_,
    expm1_,
    fill_,
    fix_,
    floor_,
    frac_,
    gcd_,
    i0_,
    index_put_,
    lcm_,
    ldexp_,
    log1p_,
    log2_,
    log10_,
    log_,
    logit_,
    nan_to_num_,
    neg_,
    negative_,
    rad2deg_,
    reciprocal_,
    round_,
    rsqrt_,
    sin_,
    sinc_,
    sinh_,
    sqrt_,
    square_,
    tan_,
    trunc_,
    xlogy_,
    zero_,
)
from .inverse import inverse
from .join import block_diag, cat, column_stack, concat, concatenate, dstack, hstack, row_stack, stack, vstack
from .likelihood import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    gaussian_nll_loss,
    kl_div,
    poisson_nll_loss,
)
from .likeness import empty_like, full_like, ones_like, zeros_like
from .linear import linear
from .logarithm import logaddexp, logaddexp2, logit, xlogy
from .loss import huber_loss, l1_loss, mse_loss, smooth_l1_loss
from .lu import lu_unpack
from .margin import (
    cosine_embedding_loss,
    hinge_embedding_loss,
    margin_ranking_loss,
    multi_margin_loss,
    multilabel_margin_loss,
    multilabel_soft_margin_loss,
    soft_margin_loss,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)
from .masks import masked_fill, masked_scatter, masked_select, where
from .matrix_functions import matrix_exp, matrix_power
from .nan import nan_to_num, nanmean, nansum
from .noise import (
    alpha_dropout,
    dropout,
    dropout1d,
    dropout2d,
    dropout3d,
    feature_alpha_dropout,
    feature_dropout,
    gumbel_softmax,
    rrelu,
)
from .norm import layer_norm, rms_norm
from .order import kthvalue, median, mode, nanmedian
from .overwrite import (
    alpha_dropout_,
    celu_,
    dropout_,
    elu_,
    feature_alpha_dropout_,
    feature_dropout_,
    hardtanh_,
    leaky_relu_,
    relu_,
    rrelu_,
    selu_,
    sigmoid_,
    tanh_,
    threshold_,
)
from .pad import pad
from .permute import adjoint, moveaxis, movedim, permute, swapaxes, swapdims, t, transpose
from .piecewise import hardshrink, hardsigmoid, hardswish, hardtanh, leaky_relu, prelu, relu6, softshrink, threshold
from .place import index_add, index_copy, index_fill, index_put, put, select_scatter, slice_scatter, take
from .pooling import adaptive_avg_pool1d, avg_pool1d, max_pool1d, pixel_shuffle, pixel_unshuffle
from .probability import log_softmax, softmax, softmin
from .products import bmm, matmul, mm, mv
from .properties import (
    get_device,
    is_complex,
    is_floating_point,
    is_inference,
    is_nonzero,
    is_same_size,
    is_signed,
    is_tensor,
    numel,
    result_type,
)
from .quantile import nanquantile, quantile
from .rearrange import flip, fliplr, flipud, repeat, repeat_interleave, roll, rot90, tile
from .reduce import count_nonzero, logsumexp, mean, norm, sum, trace
from .rounding import ceil, floor, frac, round, trunc
from .sampling import bernoulli, multinomial, normal, poisson
from .scan import cummax, cummin, cumsum, logcumsumexp, prod
from .scatter import index_reduce, scatter, scatter_add, scatter_reduce
from .search import bucketize, searchsorted
from .shape import broadcast_to, expand, expand_as, flatten, ravel, reshape, squeeze, sum_to, unflatten, unsqueeze
from .similarity import cosine_similarity, normalize, pairwise_distance
from .singular import pinverse
from .slicing import narrow, narrow_copy, select
from .sorting import argsort, argwhere, isin, msort, nonzero, sort, topk
from .split import (
    chunk,
    dsplit,
    hsplit,
    split,
    split_with_sizes,
    tensor_split,
    unbind,
    unsafe_chunk,
    unsafe_split,
    unsafe_split_with_sizes,
    vsplit,
)
from .statistics import corrcoef, cov, std_mean, var_mean
from .strided import empty_strided
from .triangular import cholesky, cholesky_inverse, cholesky_solve
from .trigonometric import acos, acosh, asin, asinh, atan, atanh, cos, cosh, deg2rad, rad2deg, sin, sinc, sinh, tan
from .unique import unique, unique_consecutive
from .variance import std, var
from .vectors import cross, dot, ger, outer, vdot
from .view import as_strided

__all__ = [
    "abs", "abs_", "absolute", "acos", "acos_", "acosh", "acosh_", "adaptive_avg_pool1d", "add", "addbmm", "addcdiv",
    "addcmul", "addmm", "addmv", "addmv_", "addr", "adjoint", "all", "allclose", "alpha_dropout", "alpha_dropout_",
    "amax", "amin", "aminmax", "any", "arange", "arccos", "arccos_", "arccosh", "arccosh_", "arcsin", "arcsin_",
    "arcsinh", "arcsinh_", "arctan", "arctan2", "arctan_", "arctanh", "arctanh_", "argmax", "argmin", "argsort",
    "argwhere", "as_strided", "as_strided_", "as_tensor", "asarray", "asin", "asin_", "asinh", "asinh_", "atan",
    "atan2", "atan_", "atanh", "atanh_", "atleast_1d", "atleast_2d", "atleast_3d", "avg_pool1d", "baddbmm",
    "batch_norm", "bernoulli", "bilinear", "binary_cross_entropy", "binary_cross_entropy_with_logits", "bincount",
    "bitwise_and", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
    "block_diag", "bmm", "broadcast_shapes", "broadcast_tensors", "broadcast_to", "bucketize", "cartesian_prod", "cat",
    "cdist", "ceil", "ceil_", "celu", "celu_", "chain_matmul", "cholesky", "cholesky_inverse", "cholesky_solve",
    "chunk", "clamp", "clamp_", "clamp_max", "clamp_max_", "clamp_min", "clamp_min_", "clip", "clip_", "clone",
    "column_stack", "combinations", "concat", "concatenate", "conj", "contiguous", "copysign", "corrcoef", "cos",
    "cos_", "cosh", "cosh_", "cosine_embedding_loss", "cosine_similarity", "count_nonzero", "cov", "cross",
    "cross_entropy", "cummax", "cummin", "cumprod", "cumsum", "cumulative_trapezoid", "deg2rad", "deg2rad_", "det",
    "detach", "detach_", "diag", "diag_embed", "diagflat", "diagonal", "diagonal_scatter", "diff", "digamma", "dist",
    "div", "divide", "dot", "dropout", "dropout1d", "dropout2d", "dropout3d", "dropout_", "dsplit", "dstack", "einsum",
    "elu", "elu_", "embedding", "embedding_bag", "empty", "empty_like", "empty_strided", "eq", "equal", "erf", "erf_",
    "erfc", "erfc_", "erfinv", "exp", "exp2", "exp2_", "exp_", "expand", "expand_as", "expm1", "expm1_", "eye",
    "feature_alpha_dropout", "feature_alpha_dropout_", "feature_dropout", "feature_dropout_", "fill_", "fix", "fix_",
    "flatten", "flip", "fliplr", "flipud", "float_power", "floor", "floor_", "floor_divide", "fmax", "fmin", "fmod",
    "frac", "frac_", "frexp", "from_dlpack", "from_numpy", "full", "full_like", "gather", "gaussian_nll_loss", "gcd",
    "gcd_", "ge", "gelu", "ger", "get_device", "glu", "gradient", "greater", "greater_equal", "group_norm", "gt",
    "gumbel_softmax", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "hardtanh_", "heaviside",
    "hinge_embedding_loss", "histc", "histogram", "hsplit", "hstack", "huber_loss", "hypot", "i0", "i0_", "igamma",
    "igammac", "index_add", "index_copy", "index_fill", "index_put", "index_put_", "index_reduce", "index_select",
    "inner", "instance_norm", "inverse", "is_complex", "is_floating_point", "is_inference", "is_nonzero",
    "is_same_size", "is_signed", "is_tensor", "isclose", "isfinite", "isin", "isinf", "isnan", "isneginf", "isposinf",
    "isreal", "kl_div", "kron", "kthvalue", "l1_loss", "layer_norm", "lcm", "lcm_", "ldexp", "ldexp_", "le",
    "leaky_relu", "leaky_relu_", "lerp", "less", "less_equal", "lgamma", "linear", "linspace", "log", "log1p", "log1p_",
    "log2", "log2_", "log10", "log10_", "log_", "log_softmax", "logaddexp", "logaddexp2", "logcumsumexp", "logdet",
    "logical_and", "logical_not", "logical_or", "logical_xor", "logit", "logit_", "logsigmoid", "logspace", "logsumexp",
    "lt", "lu_unpack", "margin_ranking_loss", "masked_fill", "masked_scatter", "masked_select", "matmul", "matrix_exp",
    "matrix_power", "max", "max_pool1d", "maximum", "mean", "median", "meshgrid", "min", "minimum", "mish", "mm",
    "mode", "moveaxis", "movedim", "mse_loss", "msort", "mul", "multi_margin_loss", "multilabel_margin_loss",
    "multilabel_soft_margin_loss", "multinomial", "multiply", "mv", "mvlgamma", "nan_to_num", "nan_to_num_", "nanmean",
    "nanmedian", "nanquantile", "nansum", "narrow", "narrow_copy", "ne", "neg", "neg_", "negative", "negative_",
    "nextafter", "nll_loss", "nonzero", "norm", "normal", "normalize", "not_equal", "numel", "one_hot", "ones",
    "ones_like", "outer", "pad", "pairwise_distance", "pdist", "permute", "pinverse", "pixel_shuffle",
    "pixel_unshuffle", "poisson", "poisson_nll_loss", "polygamma", "positive", "pow", "prelu", "prod", "put",
    "quantile", "rad2deg", "rad2deg_", "ravel", "reciprocal", "reciprocal_", "relu", "relu6", "relu_", "remainder",
    "renorm", "repeat", "repeat_interleave", "reshape", "result_type", "rms_norm", "roll", "rot90", "round", "round_",
    "row_stack", "rrelu", "rrelu_", "rsqrt", "rsqrt_", "rsub", "scaled_dot_product_attention", "scatter", "scatter_add",
    "scatter_reduce", "searchsorted", "select", "select_scatter", "selu", "selu_", "sgn", "sigmoid", "sigmoid_", "sign",
    "signbit", "silu", "sin", "sin_", "sinc", "sinc_", "sinh", "sinh_", "slice_scatter", "slogdet", "smooth_l1_loss",
    "soft_margin_loss", "softmax", "softmin", "softplus", "softshrink", "softsign", "sort", "split", "split_with_sizes",
    "sqrt", "sqrt_", "square", "square_", "squeeze", "stack", "std", "std_mean", "sub", "subtract", "sum", "sum_to",
    "swapaxes", "swapdims", "t", "take", "take_along_dim", "tan", "tan_", "tanh", "tanh_", "tanhshrink", "tensor",
    "tensor_split", "tensordot", "threshold", "threshold_", "tile", "to", "topk", "trace", "transpose", "trapezoid",
    "trapz", "tril", "tril_indices", "triplet_margin_loss", "triplet_margin_with_distance_loss", "triu", "triu_indices",
    "true_divide", "trunc", "trunc_", "unbind", "unflatten", "unique", "unique_consecutive", "unravel_index",
    "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes", "unsqueeze", "vander", "var", "var_mean", "vdot",
    "vsplit", "vstack", "where", "xlogy", "xlogy_", "zero_", "zeros", "zeros_like",
]  # fmt: skip

out_.take_out(globals(), out_.OPS)
