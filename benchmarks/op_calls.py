"""The calls that the workload `ops` times, written as expressions that run in any library with PyTorch's names.

In an expression `{}` is the op: NAME of the library itself, F.NAME of nn.functional, linalg.NAME or special.NAME. Other
names are operands.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# float32 that requires grad, 2x2 where the op allows it; s is symmetric and positive definite, c lower triangular.
LEAVES: dict[str, Any] = {
    "x": [[0.3, 0.7], [0.6, 0.2]], "y": [[0.5, 0.4], [0.1, 0.8]], "big": [[2.3, 2.7], [3.6, 1.2]],
    "s": [[2.0, 0.5], [0.5, 1.0]], "c": [[1.4, 0.0], [0.3, 0.9]], "t": [[[0.3, 0.7], [0.6, 0.2]]],
    "v": [0.3, 0.7], "w": [0.5, 0.4], "rows": [[0.1, 0.2]] * 6, "x3": [[0.3, 0.7, 0.6]], "y3": [[0.2, 0.5, 0.4]],
}  # fmt: skip
# The rest: z is written over; n, k, i, j, pivots are integers, b and e masks.
CONSTANTS: dict[str, Any] = {
    "z": [[0.3, 0.7], [0.6, 0.2]], "one": [[1.0, 1.0], [1.0, 1.0]], "zero": [[0.0, 0.0], [0.0, 0.0]],
    "sign": [1.0, -1.0], "edges": [0.0, 0.5, 1.0], "mean": [0.5, 0.4], "var": [1.0, 1.0],
    "n": [[6, 3], [4, 9]], "k": [[2, 1], [3, 2]], "i": [[1, 0], [0, 1]], "j": [1, 0],
    "pivots": np.array([2, 2], np.int32), "b": [[True, False], [False, True]], "e": [[False, True], [False, True]],
}  # fmt: skip

# Expression -> the ops that are called so.
CALLS: dict[str, str] = {
    "{}(x)": """
        _sample_dirichlet _standard_gamma
        abs acos adjoint all amax amin aminmax any argmax argmin argsort argwhere as_tensor asarray asin asinh atan
        atanh atleast_1d atleast_2d atleast_3d bernoulli ceil clone conj corrcoef cos cosh count_nonzero cov deg2rad
        det diag diag_embed diagflat diagonal diff digamma empty_like erf erfc erfinv exp exp2 expm1 flatten fliplr
        flipud floor frac frexp gradient i0 isfinite isinf isnan isneginf isposinf isreal lgamma log log10 log1p log2
        logit max mean median min mode msort nan_to_num nanmean nanmedian nansum neg nonzero norm ones_like pdist
        pinverse poisson positive prod rad2deg rand_like randn_like ravel reciprocal rot90 round rsqrt sigmoid sign
        signbit sin sinc sinh sort sqrt square squeeze std std_mean sum t tan tanh trace trapezoid trunc unique
        unique_consecutive var var_mean zeros_like
        F.alpha_dropout F.celu F.dropout F.dropout1d F.elu F.feature_alpha_dropout F.gelu F.glu F.hardshrink
        F.hardsigmoid F.hardswish F.hardtanh F.leaky_relu F.logsigmoid F.mish F.normalize F.relu F.relu6 F.rrelu F.selu
        F.silu F.softplus F.softshrink F.softsign F.tanhshrink
        linalg.cond linalg.diagonal linalg.eig linalg.eigvals linalg.inv linalg.inv_ex linalg.lu linalg.lu_factor
        linalg.lu_factor_ex linalg.matrix_exp linalg.matrix_norm linalg.matrix_rank linalg.norm linalg.pinv linalg.qr
        linalg.slogdet linalg.svd linalg.svdvals linalg.vander linalg.vector_norm
        special.entr special.erfcx special.i0e special.i1 special.i1e special.log_ndtr special.ndtr special.ndtri""",
    "{}(x, y)": """
        _standard_gamma_grad binomial
        add allclose atan2 block_diag broadcast_tensors cdist chain_matmul copysign div dist eq equal float_power
        floor_divide fmax fmin fmod ge gt heaviside hypot igamma igammac inner isclose isin kron ldexp le logaddexp
        logaddexp2 lt matmul maximum minimum mm mul ne nextafter pow remainder rsub sub tensordot true_divide xlogy
        F.binary_cross_entropy F.binary_cross_entropy_with_logits F.cosine_similarity F.huber_loss F.kl_div F.l1_loss
        F.linear F.mse_loss F.pairwise_distance F.poisson_nll_loss F.smooth_l1_loss
        linalg.solve linalg.solve_ex linalg.vecdot
        special.xlog1py""",
    "{}(x, 0)": """
        cummax cummin cumprod cumsum logcumsumexp logsumexp unbind unsqueeze F.log_softmax F.softmax F.softmin""",
    "{}(x, 1)": """
        chunk hsplit kthvalue roll split tensor_split topk tril triu vsplit
        F.adaptive_avg_pool1d F.avg_pool1d F.max_pool1d""",
    "{}(x, 2)": "repeat_interleave linalg.matrix_power",
    "{}(x, 0.5)": "clamp_max clamp_min F.gumbel_softmax quantile nanquantile",
    "{}(x, 0.3, 0.6)": "clamp",
    "{}(x, 0.5, 0.1)": "F.threshold",
    "{}(x, y, z)": "addcdiv addcmul F.gaussian_nll_loss F.triplet_margin_loss F.triplet_margin_with_distance_loss",
    "{}(x, y, 0.3)": "lerp",
    "{}(x, (2, 2))": "broadcast_to tile",
    "{}(x, (4,))": "reshape",
    "{}(x, (1, 0))": "permute",
    "{}(x, (0,))": "flip",
    "{}(x, (1, 1))": "F.pad",
    "{}(x, (1, 1), 1)": "split_with_sizes",
    "{}(x, 0, 1)": "movedim swapaxes transpose",
    "{}(x, 0, (1, 2))": "unflatten",
    "{}(x, 0, 0, 1)": "narrow narrow_copy",
    "{}(x, 1, 0)": "select",
    "{}(x, 0, j)": "index_select",
    "{}(j, (2, 2))": "unravel_index",
    "{}(x, 0, j, y)": "index_add index_copy",
    "{}(x, 0, j, 0.5)": "index_fill",
    "{}(x, 0, j, y, 'prod')": "index_reduce",
    "{}(x, (j,), v)": "index_put",
    "{}(x, i)": "take F.multilabel_margin_loss",
    "{}(x, i, y)": "put",
    "{}(x, 0, i)": "gather",
    "{}(x, i, 0)": "take_along_dim",
    "{}(x, 0, i, y)": "scatter scatter_add",
    "{}(x, 0, i, y, 'sum')": "scatter_reduce",
    "{}(x, v, 0, 0)": "select_scatter",
    "{}(x, v)": "F.prelu diagonal_scatter mv",
    "{}(x, t[0], 0)": "slice_scatter",
    "{}(x, b)": "masked_select",
    "{}(x, b, 0.5)": "masked_fill",
    "{}(x, b, y)": "masked_scatter",
    "{}(b, x, y)": "where",
    "{}(x, (2, 2), (2, 1))": "as_strided",
    "{}(x, 2, 0, 1.0)": "renorm",
    "{}(x, 4, 0.0, 1.0)": "histc",
    "{}(z, 4)": "histogram",
    "{}(edges, x)": "searchsorted",
    "{}(x, edges)": "bucketize",
    "{}(x, 1.0)": "full_like",
    "{}(x, 4)": "randint_like",
    "{}(x, y, dim=0)": "cumulative_trapezoid",
    "{}(x.detach())": "from_dlpack",
    "{}(big)": "acosh",
    "{}(big, 2)": "mvlgamma",
    "{}(big, y)": "special.zeta",
    "{}(1, x)": "polygamma",
    "{}(s)": "linalg.cholesky linalg.cholesky_ex linalg.eigh linalg.eigvalsh logdet",
    "{}(c)": "cholesky_inverse",
    "{}(x, c)": "cholesky_solve",
    "{}(c, x, upper=False)": "linalg.solve_triangular",
    "{}(s, x)": "linalg.lstsq",
    "{}(s, pivots, x)": "linalg.lu_solve",
    "{}(s, pivots)": "lu_unpack",
    "{}(s, v)": "linalg.householder_product linalg.tensorsolve",
    "{}(x.view(2, 2, 1), 1)": "linalg.tensorinv",
    "{}((x, y))": "cat column_stack dstack hstack stack vstack linalg.multi_dot",
    "{}('ij,jk->ik', x, y)": "einsum",
    "{}(s, x, y)": "addmm",
    "{}(v, x, w)": "addmv",
    "{}(x, v, w)": "addr",
    "{}(x, t, t)": "addbmm",
    "{}(t, t)": "bmm",
    "{}(t, t, t)": "baddbmm F.scaled_dot_product_attention",
    "{}(v)": "cartesian_prod combinations vander",
    "{}(v, w)": "dot outer",
    "{}(v, w, indexing='ij')": "meshgrid",
    "{}(x3, y3)": "cross linalg.cross",
    "{}(n)": "bitwise_not",
    "{}(n, k)": "bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor gcd lcm",
    "{}(b)": "logical_not",
    "{}(b, e)": "logical_and logical_or logical_xor",
    "{}(j)": "bincount F.one_hot",
    "{}(i, x)": "F.embedding F.embedding_bag",
    "{}(t, 2)": "dsplit",
    "{}(t, 1)": "F.pixel_shuffle F.pixel_unshuffle",
    "{}(t)": "F.dropout2d F.dropout3d F.instance_norm",
    "{}(x, mean, var, v, w, True)": "F.batch_norm",
    "{}(x, 1, v, w)": "F.group_norm",
    "{}(x, (2,), v, w)": "F.layer_norm",
    "{}(x, (2,), v)": "F.rms_norm",
    "{}(x, y, t)": "F.bilinear",
    "{}(x, j)": "F.cross_entropy F.multi_margin_loss F.nll_loss",
    "{}(x, one)": "F.hinge_embedding_loss F.multilabel_soft_margin_loss F.soft_margin_loss",
    "{}(x, y, sign)": "F.cosine_embedding_loss",
    "{}(v, w, sign)": "F.margin_ranking_loss",
    "{}(t, t, t, 2, 1, rows, None, None, None, False, 0.0, x, None)": "F.multi_head_attention_forward",
    "{}(x, 2, True)": "multinomial",
    "{}(z)": "F.celu_ F.elu_ F.hardtanh_ F.leaky_relu_ F.relu_ F.rrelu_ F.selu_ sigmoid_ tanh_",
    "{}(z, 0.5, True)": "alpha_dropout_ feature_alpha_dropout_ feature_dropout_ dropout_",
    "{}(x, 0.5, True)": "feature_dropout",
    "{}(z, 0.5, 0.1)": "F.threshold_",
    "{}((2, 2))": "empty ones rand randn zeros",
    "{}((2, 2), 1.0)": "full",
    "{}([[0.3, 0.7], [0.6, 0.2]])": "tensor",
    "{}(4)": "arange randperm",
    "{}(2)": "eye",
    "{}(2, 2)": "tril_indices triu_indices",
    "{}(9, (2, 2))": "randint",
    "{}(0.0, 1.0, 4)": "linspace logspace",
    "{}(0.0, 1.0, (2, 2))": "normal",
}
# Operators and methods, named by the whole expression.
EXPRESSIONS = (
    "x + y", "x - y", "x * y", "x / y", "x @ y", "x ** 2", "x**3", "x**-1", "x**5",
    "x + 1.0", "1.0 - x", "-x", "x > y", "x[0]", "x[0, 1]",
    "x[:, 0]", "x[None]", "x[j]", "x[b]", "x.T", "x.mT", "x.view(4)", "x.expand(2, 2)", "x.expand_as(y)",
    "x.repeat(1, 2)", "x.contiguous()", "x.detach()", "x.double()", "x.to(lib.float64)", "x.type_as(n)", "x.tolist()",
    "v[0].item()", "z.add_(zero)", "z.sub_(zero)", "z.mul_(one)", "z.div_(one)", "z.zero_()", "z.fill_(0.5)",
    "z.copy_(one)", "z.clamp_(0.0, 1.0)", "z.tril_()", "z.masked_fill_(b, 0.5)", "z.__setitem__(0, 0.5)",
    "z.__setitem__(b, 0.5)", "z.index_add_(0, j, zero)", "z.scatter_(0, i, one)", "z.uniform_()", "z.normal_()",
    "z.bernoulli_()", "z.exponential_()", "z.random_()",
)  # fmt: skip

# Public names without a row: classes, settings, queries, functions that PyTorch does not have or has as methods only.
NO_OPS = """
    are_deterministic_algorithms_enabled as_torch autocast BFloat16Tensor BoolTensor broadcast_shapes ByteTensor
    can_cast
    CharTensor compile conj_physical device DoubleTensor dtype empty_strided enable_grad finfo FloatTensor
    from_numpy Generator get_default_device get_default_dtype get_deterministic_debug_mode get_device
    get_float32_matmul_precision get_num_interop_threads get_num_threads get_printoptions get_rng_state GradScaler
    HalfTensor iinfo inference_mode initial_seed IntTensor is_anomaly_check_nan_enabled is_anomaly_enabled
    is_autocast_enabled is_complex is_deterministic_algorithms_warn_only_enabled is_floating_point is_grad_enabled
    is_inference is_inference_mode_enabled is_nonzero is_same_size is_signed is_tensor LinAlgError linear_activation
    load LongTensor manual_seed memory_format no_grad numel promote_types real repeat result_type row_stack save
    seed set_anomaly_enabled set_default_device set_default_dtype set_default_tensor_type
    set_deterministic_debug_mode set_float32_matmul_precision set_grad_enabled set_num_interop_threads
    set_num_threads set_printoptions set_rng_state ShortTensor Size sum_to Tensor to typename unsafe_chunk
    unsafe_split unsafe_split_with_sizes use_deterministic_algorithms vmap
    frombuffer layout scalar_tensor triangular_solve TypedStorage UntypedStorage
"""

# The forty commonest ops, and what a NumPy user writes for each on arrays in place of the operands.
NUMPY: dict[str, str] = {
    "add": "x + y", "sub": "x - y", "mul": "x * y", "div": "x / y", "neg": "-x", "pow": "x**y", "matmul": "x @ y",
    "mm": "x @ y", "F.linear": "x @ y.T", "exp": "np.exp(x)", "log": "np.log(x)", "sqrt": "np.sqrt(x)",
    "sin": "np.sin(x)", "cos": "np.cos(x)", "tanh": "np.tanh(x)", "sigmoid": "special.expit(x)",
    "F.relu": "np.maximum(x, 0)", "F.gelu": "x * special.ndtr(x)",
    "F.softmax": "(e := np.exp(x - x.max(0))) / e.sum(0)",
    "F.log_softmax": "(d := x - x.max(0)) - np.log(np.exp(d).sum(0))",
    "sum": "x.sum()", "mean": "x.mean()", "max": "x.max()", "min": "x.min()", "argmax": "x.argmax()",
    "var": "x.var(ddof=1)", "std": "x.std(ddof=1)", "norm": "np.linalg.norm(x)", "clamp": "x.clip(0.3, 0.6)",
    "where": "np.where(b, x, y)", "reshape": "x.reshape(4)", "transpose": "x.T", "permute": "x.transpose(1, 0)",
    "cat": "np.concatenate((x, y))", "stack": "np.stack((x, y))", "x[0]": "x[0]", "squeeze": "x.squeeze()",
    "unsqueeze": "x[None]", "x.expand(2, 2)": "np.broadcast_to(x, (2, 2))", "cumsum": "x.cumsum(0)",
}  # fmt: skip

# Elementwise ops and reductions on a million elements: what a NumPy user writes -> the ops that do the same.
LARGE: dict[str, str] = {
    "np.{}(x)": """
        abs acos all amax amin any argmax argmin asin asinh atan atanh ceil cos cosh count_nonzero deg2rad exp exp2
        expm1 floor isfinite isinf isnan isneginf isposinf log log10 log1p log2 max mean min nan_to_num nanmean nansum
        prod rad2deg reciprocal round sign signbit sin sinc sinh sqrt square sum tan tanh trunc""",
    "np.{}(x, y)": """
        atan2 copysign fmax fmin fmod hypot isclose logaddexp logaddexp2 maximum minimum nextafter pow remainder""",
    "special.{}(x)": """
        digamma erf erfc erfinv i0 logit special.entr special.erfcx special.i0e special.i1 special.i1e special.log_ndtr
        special.ndtr special.ndtri""",
    "special.{}(x, y)": "xlogy special.xlog1py",
    "special.gammaln(x)": "lgamma", "special.expit(x)": "sigmoid", "special.gammainc(x, y)": "igamma",
    "x + y": "add", "x - y": "sub", "x * y": "mul", "x / y": "div", "-x": "neg", "x // y": "floor_divide",
    "x > y": "gt", "x == y": "eq", "1 / np.sqrt(x)": "rsqrt", "x + y / z": "addcdiv", "x + y * z": "addcmul",
    "x + 0.3 * (y - x)": "lerp", "np.clip(x, 0.3, 0.6)": "clamp", "np.where(b, x, y)": "where",
    "x - np.trunc(x)": "frac",
    "np.maximum(x, 0)": "F.relu", "x * special.ndtr(x)": "F.gelu", "x * special.expit(x)": "F.silu",
    "np.log1p(np.exp(x))": "F.softplus", "x / (1 + np.abs(x))": "F.softsign",
    "np.where(x > 0, x, 0.01 * x)": "F.leaky_relu",
    "np.var(x, ddof=1)": "var", "np.std(x, ddof=1)": "std", "np.linalg.norm(x)": "norm",
    "np.partition(x, x.size // 2 - 1, None)[x.size // 2 - 1]": "median",
    "np.square(x - y).mean()": "F.mse_loss", "special.logsumexp(x, 0)": "logsumexp",
    "special.softmax(x, 0)": "F.softmax",
    "special.log_softmax(x, 0)": "F.log_softmax", "np.cumsum(x, 0)": "cumsum", "np.cumprod(x, 0)": "cumprod",
    "x**3": "x**3", "x**-1": "x**-1", "x**5": "x**5",
    "x.sum(0)": "x.sum(0)", "x.sum(1)": "x.sum(1)", "x.mean(0)": "x.mean(0)", "x.max(1)": "x.amax(1)",
}  # fmt: skip
# Those that are called on magnitudes: of negative numbers they are NaN or infinite.
POSITIVE = (
    "log", "log10", "log2", "rsqrt", "sqrt", "pow", "igamma", "logit", "special.entr", "special.ndtri",
    "special.xlog1py", "xlogy",
)  # fmt: skip


def calls() -> dict[str, str]:
    """Op -> its call on tensors."""
    named = {name: call.format(qualified(name)) for call, names in CALLS.items() for name in names.split()}
    return named | {expression: expression for expression in EXPRESSIONS}


def large() -> dict[str, tuple[str, str]]:
    """Op -> its call on tensors, and what a NumPy user writes."""
    tensors = calls()
    return {
        name: (tensors.get(name, name), call.format(name.rpartition(".")[2]))
        for call, names in LARGE.items()
        for name in names.split()
    }


def qualified(name: str) -> str:
    return name if name.startswith(("F.", "linalg.", "special.")) else f"lib.{name}"
