"""Calls of functions that are made of several ops, in both libraries."""

from __future__ import annotations

import numpy as np

RNG = np.random.default_rng(0)
X, Y = RNG.uniform(0.3, 3.0, (2, 3)), RNG.normal(size=(2, 3))
HOLES = np.where(RNG.integers(0, 4, (4, 5)) == 0, np.nan, RNG.normal(size=(4, 5)))
WHOLE = RNG.integers(1, 5, (2, 3))


class Case:
    """name(*args, **kwargs) of ag and of torch; arrays become tensors, floating ones that require grad."""

    def __init__(self, name, *args, **kwargs):
        self.name, self.args, self.kwargs = name, args, kwargs

    def __repr__(self):
        shown = [f"{a.dtype}{list(a.shape)}" if isinstance(a, np.ndarray) else str(a) for a in self.args]
        return f"{self.name}({', '.join([*shown, *(f'{k}={v}' for k, v in self.kwargs.items())])})"

    def call(self, module, dtype="float64", requires_grad=False):
        """The floating tensors among the arguments, and the outputs as a list."""
        inputs = []

        def convert(value):
            if isinstance(value, (list, tuple)):
                return type(value)(map(convert, value))
            if not isinstance(value, np.ndarray):
                return value
            if value.dtype != np.float64:
                return module.tensor(value)
            inputs.append(module.tensor(value, dtype=getattr(module, dtype), requires_grad=requires_grad))
            return inputs[-1]

        function = module
        for part in self.name.split("."):
            function = getattr(function, part)
        args, kwargs = convert(self.args), {k: convert(v) for k, v in self.kwargs.items()}
        out = function(*args, **kwargs)
        return inputs, list(out) if isinstance(out, (list, tuple)) else [out]


ELEMENTWISE = [
    Case("ldexp", X, WHOLE), Case("ldexp", WHOLE, WHOLE), Case("float_power", X, 2), Case("float_power", 2.0, Y),
    Case("float_power", X, Y), Case("float_power", WHOLE, WHOLE), Case("div", X, Y), Case("div", WHOLE, WHOLE),
    Case("div", WHOLE, 2, rounding_mode="floor"), Case("div", -WHOLE, WHOLE, rounding_mode="trunc"),
    Case("divide", Y, X, rounding_mode="trunc"), Case("divide", Y, X, rounding_mode="floor"),
    Case("clip", Y, -0.5, 0.5), Case("clamp_min", Y, 0.1), Case("clamp_max", Y, X), Case("polygamma", 2, X),
    Case("mvlgamma", X + 2, 3),
    Case("special.multigammaln", WHOLE + 1, 2), Case("special.psi", X), Case("special.gammaln", X),
    Case("special.expit", Y), Case("special.softmax", Y, 1), Case("special.logsumexp", Y, 1), Case("fix", Y),
    Case("nanmean", HOLES), Case("nanmean", HOLES, 0), Case("nanmean", HOLES, (0, 1), True), Case("sgn", Y),
    Case("isclose", X, Y, equal_nan=True), Case("arctan2", Y, X), Case("subtract", Y, X, alpha=2),
    Case("greater_equal", Y, X),
]  # fmt: skip
GRID = np.cumsum(RNG.uniform(0.5, 1.5, 6))
CURVE, SURFACE = RNG.normal(size=6), RNG.normal(size=(6, 4))
DIFFERENCES = [
    Case("diff", CURVE), Case("diff", SURFACE, 2, 0), Case("diff", SURFACE, 9), Case("diff", SURFACE, 0),
    Case("diff", SURFACE, 1, -1, SURFACE[:, :1], SURFACE[:, 1:3]), Case("diff", WHOLE, append=WHOLE),
    Case("diff", WHOLE > 2), Case("gradient", CURVE), Case("gradient", CURVE, edge_order=2), Case("gradient", WHOLE),
    Case("gradient", CURVE[:2]), Case("gradient", SURFACE, spacing=0.5), Case("gradient", SURFACE, spacing=[2.0, 0.5]),
    Case("gradient", SURFACE, dim=0, spacing=[GRID]), Case("gradient", CURVE, spacing=[GRID], edge_order=2),
    Case("gradient", SURFACE, spacing=[GRID, GRID[:4]], edge_order=2), Case("gradient", SURFACE, dim=(1, 0)),
    Case("trapezoid", CURVE), Case("trapezoid", SURFACE, dx=0.5, dim=0), Case("trapezoid", CURVE, GRID),
    Case("trapezoid", SURFACE, GRID, dim=0), Case("trapezoid", SURFACE, SURFACE + 1), Case("trapezoid", WHOLE),
    Case("trapezoid", SURFACE[:, :1]), Case("trapz", CURVE, GRID),
    Case("cumulative_trapezoid", CURVE), Case("cumulative_trapezoid", SURFACE, GRID, dim=0),
    Case("cumulative_trapezoid", SURFACE, dx=2.0), Case("cumulative_trapezoid", CURVE[:1]),
]  # fmt: skip
FREQUENT, IMPORTANT = np.array([1, 2, 3, 1, 1, 2]), RNG.uniform(0.5, 2.0, 6)
STATISTICS = [
    Case("var_mean", SURFACE), Case("var_mean", SURFACE, (0, 1), correction=0, keepdim=True),
    Case("var_mean", SURFACE, 0), Case("var_mean", SURFACE, False),
    Case("std_mean", SURFACE, 1, keepdim=True), Case("std_mean", SURFACE, True),
    Case("var", SURFACE, False), Case("std", SURFACE, False), Case("var", SURFACE, 0, False),
    Case("cov", SURFACE), Case("cov", SURFACE.T, correction=0), Case("cov", SURFACE.T, fweights=FREQUENT),
    Case("cov", SURFACE.T, aweights=IMPORTANT), Case("cov", SURFACE.T, fweights=FREQUENT, aweights=IMPORTANT),
    Case("cov", CURVE), Case("cov", WHOLE), Case("corrcoef", SURFACE.T), Case("corrcoef", CURVE),
    Case("aminmax", SURFACE), Case("aminmax", SURFACE, dim=1, keepdim=True), Case("trace", SURFACE),
    Case("trace", WHOLE),
    Case("median", SURFACE), Case("median", CURVE, 0), Case("nanmedian", HOLES), Case("nanmedian", HOLES, 1, True),
    *(Case("quantile", SURFACE, q, dim, keep) for q in (0.3, np.array([0.0, 0.4, 1.0])) for dim in (None, 0, 1)
      for keep in (False, True)),
    *(Case("quantile", SURFACE, 0.37, 0, interpolation=mode) for mode in ("lower", "higher", "midpoint", "nearest")),
    Case("nanquantile", HOLES, 0.6), Case("nanquantile", HOLES, np.array([0.1, 0.8]), 1),
    Case("quantile", CURVE[0], 0.5),
]  # fmt: skip
POINTS, OTHERS, MANY = RNG.normal(size=(4, 3)), RNG.normal(size=(5, 3)), RNG.normal(size=(2, 30, 3))
DISTANCES = [
    *(Case("dist", POINTS, OTHERS[:4], p) for p in (0, 1, 2, 3, float("inf"))), Case("dist", POINTS, OTHERS[0]),
    *(Case("cdist", POINTS, OTHERS, p) for p in (0.0, 1.0, 2.0, 2.5, float("inf"))), Case("cdist", POINTS, POINTS),
    Case("cdist", MANY, MANY[:1, :28] + 0.5), Case("cdist", MANY[0], MANY - 0.5),
    Case("cdist", POINTS[:, :0], OTHERS[:, :0]),
    Case("cdist", POINTS[:0], OTHERS), Case("cdist", MANY, MANY + 1, compute_mode="donot_use_mm_for_euclid_dist"),
    *(Case("pdist", POINTS, p) for p in (1, 2, 3, float("inf"))), Case("pdist", POINTS[:1]),
    *(Case("renorm", POINTS, p, dim, 1.0) for p in (1, 2, 3) for dim in (0, -1)),
]  # fmt: skip
FEW = np.round(SURFACE)
SORTED = np.sort(SURFACE, -1)
COUNTS = [
    *(Case("unique", x, True, inverse, counts) for x in (FEW, WHOLE, WHOLE > 2, FEW[:0]) for inverse in (False, True)
      for counts in (False, True)),
    *(Case("unique", FEW, return_inverse=True, return_counts=True, dim=dim) for dim in (0, 1, -1)),
    *(Case("unique_consecutive", x, **{flag: True}) for x in (FEW, WHOLE)
      for flag in ("return_inverse", "return_counts")),
    Case("unique_consecutive", FEW, True, True, 0), Case("unique", np.array([1.0, np.nan, 2.0, np.nan])),
    Case("searchsorted", GRID, CURVE * 3), Case("searchsorted", GRID, 2.5),
    Case("searchsorted", SORTED, SURFACE, right=True),
    Case("searchsorted", GRID[::-1].copy(), CURVE, sorter=np.arange(6)[::-1].copy(), side="right", out_int32=True),
    Case("bucketize", SURFACE, GRID - 3), Case("bucketize", 3, GRID), Case("bucketize", WHOLE, GRID, right=True),
    Case("bincount", WHOLE[0]), Case("bincount", WHOLE[0], minlength=9), Case("histc", SURFACE, 5),
    Case("histc", SURFACE, 4, -1, 1), Case("histogram", SURFACE, 5), Case("histogram", SURFACE, 5, density=True),
    Case("histogram", SURFACE, 4, range=(-1.0, 0.5), weight=np.abs(SURFACE)), Case("histogram", CURVE, GRID - 3),
    Case("histogram", CURVE, GRID - 3, weight=np.abs(CURVE), density=True), Case("count_nonzero", FEW, 0),
    Case("count_nonzero", WHOLE > 2), Case("histogram", np.ones(3), 3),
]  # fmt: skip
UNKNOWN = np.array([[np.nan, 1.0, np.nan, 1.0], [0.0, np.nan, np.nan, np.nan], [1.0, 2.0, -3.0, 1.5]])
VALUES = [  # of which the gradients differ
    Case("median", UNKNOWN, 1),
    Case("nanmean", np.full((2, 2), np.nan), 1), Case("trapezoid", SURFACE[:, :0]),
    Case("median", CURVE[:0]), Case("nanmedian", CURVE[:0]),
]  # fmt: skip
CASES = [*ELEMENTWISE, *DIFFERENCES, *STATISTICS, *DISTANCES]
