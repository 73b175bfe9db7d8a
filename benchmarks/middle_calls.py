"""The calls of op_calls.py on about 10^5 elements: the operands, and the calls whose arguments are sizes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import op_calls

SIDE, TINY = 320, 20
# Calls of op_calls.py with other arguments: of sizes, {n} and {m} = n / 2, or where a matrix would be too large.
CALLS = {
    "broadcast_to": "lib.broadcast_to(x, ({n}, {n}))", "tile": "lib.tile(x, (1, 2))",
    "reshape": "lib.reshape(x, (-1,))", "slice_scatter": "lib.slice_scatter(x, y[:{m}], 0, 0, {m})",
    "x.view(4)": "x.view(-1)", "x.expand(2, 2)": "x.expand({n}, {n})", "unflatten": "lib.unflatten(x, 0, ({m}, 2))",
    "split_with_sizes": "lib.split_with_sizes(x, ({m}, {m}), 1)", "unravel_index": "lib.unravel_index(i, ({n}, {n}))",
    "as_strided": "lib.as_strided(x, ({n}, {n}), ({n}, 1))",
    "diagflat": "lib.diagflat(v)", "kron": "lib.kron(x[:10], y[:20, :20])", "linalg.eig": "linalg.eig(s)",
    "linalg.eigvals": "linalg.eigvals(s)", "linalg.vander": "linalg.vander(v)", "addbmm": "lib.addbmm(t[0], t, t)",
    "linalg.tensorinv": "linalg.tensorinv(s.view({n}, {n}, 1), 1)", "combinations": "lib.combinations(v)",
    "det": "lib.det(q)",
    "F.bilinear": "F.bilinear(t[0], t[0], t)", "F.layer_norm": "F.layer_norm(x, ({n},), v, w)",
    "F.rms_norm": "F.rms_norm(x, ({n},), v)", "tensor": "lib.tensor([[0.5] * {n}] * {n})",
    "arange": "lib.arange({n} * {n})",
    "F.multi_head_attention_forward":
        "F.multi_head_attention_forward(t, t, t, 20, 2, rows, None, None, None, False, 0.0, t[0], None)",
    "randperm": "lib.randperm({n} * {n})", "eye": "lib.eye({n})", "tril_indices": "lib.tril_indices({n}, {n})",
    "triu_indices": "lib.triu_indices({n}, {n})", "randint": "lib.randint(9, ({n}, {n}))",
    "linspace": "lib.linspace(0.0, 1.0, {n} * {n})", "logspace": "lib.logspace(0.0, 1.0, {n} * {n})",
    "normal": "lib.normal(0.0, 1.0, ({n}, {n}))", "full": "lib.full(({n}, {n}), 1.0)",
    "F.max_pool1d": "F.max_pool1d(x, 2)", "F.avg_pool1d": "F.avg_pool1d(x, 2)",
    **{name: f"lib.{name}(({{n}}, {{n}}))" for name in ("empty", "ones", "rand", "randn", "zeros")},
}  # fmt: skip
POSITIVE = (
    *op_calls.POSITIVE, "_sample_dirichlet", "_standard_gamma", "_standard_gamma_grad", "bernoulli", "binomial",
    "float_power", "igammac", "logdet", "multinomial", "poisson", "special.zeta", "F.binary_cross_entropy",
    "F.gaussian_nll_loss", "F.kl_div",
)  # fmt: skip


def calls(tiny: bool) -> dict[str, str]:
    """Op -> its call."""
    n = TINY if tiny else SIDE
    return {case: CALLS.get(case, call).format(n=n, m=n // 2) if case in CALLS else call
            for case, call in op_calls.calls().items()}


def arrays(tiny: bool) -> dict[str, Any]:
    """The operands of all calls: numbers of both signs in x, y and z, symmetric and positive definite s, and so on."""
    rng, n = np.random.default_rng(5), TINY if tiny else SIDE
    def numbers(*shape: int) -> np.ndarray:  # all different, so that libraries sort them alike
        return (0.01 + 0.98 * rng.permutation(math.prod(shape)) / math.prod(shape)).astype(np.float32).reshape(shape)
    def signed(*shape: int) -> np.ndarray: return numbers(*shape) * rng.choice([-1.0, 1.0], shape).astype(np.float32)

    small, one = numbers(n, n) / n, np.ones((n, n), np.float32)
    return {
        "x": signed(n, n), "y": signed(n, n), "z": signed(n, n), "big": numbers(n, n) + np.float32(1.1),
        "s": small + small.T + 2 * np.eye(n, dtype=np.float32), "c": np.tril(small) + np.eye(n, dtype=np.float32),
        "q": small / 2 + np.eye(n, dtype=np.float32), "t": numbers(n * n // 400, 20, 20),
        "v": numbers(n), "w": numbers(n), "rows": numbers(60, 20),
        "x3": numbers(n * n // 3, 3), "y3": numbers(n * n // 3, 3), "one": one, "zero": 0 * one,
        "sign": np.sign(signed(n)), "edges": np.linspace(0, 1, 100, dtype=np.float32), "mean": numbers(n),
        "var": numbers(n), "n": rng.integers(1, 1000, (n, n)), "k": rng.integers(1, 10, (n, n)),
        "i": rng.integers(0, n, (n, n)), "j": rng.permutation(n), "pivots": np.arange(1, n + 1, dtype=np.int32),
        "b": numbers(n, n) > 0.5, "e": numbers(n, n) > 0.5,
    }  # fmt: skip
