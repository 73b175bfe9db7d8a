"""Elements to compute formulas of, special ones among them, and the comparison of results bit by bit."""

import numpy as np

SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3e38, -3e38, 88.8, -88.8, 104.0, -104.0, 20.0, 1.0, -1.0]


def values(count, dtype=np.float32, seed=0):
    drawn = np.random.default_rng(seed).standard_normal(count) * 8
    drawn[:: max(count // 40, 1)][: len(SPECIAL)] = SPECIAL[: len(drawn[:: max(count // 40, 1)])]
    with np.errstate(over="ignore"):
        return drawn.astype(dtype)


def same_bits(a, b):
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    bits = f"u{a.itemsize}"
    nan = np.isnan(a)  # the payload of NaN depends on the order of operands, and vector code may swap them
    np.testing.assert_array_equal(nan, np.isnan(b))
    np.testing.assert_array_equal(a[~nan].view(bits), b[~nan].view(bits))
