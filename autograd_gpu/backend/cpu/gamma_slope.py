"""The derivative of a gamma-distributed number by its shape parameter, at a fixed quantile.

With P(a, z) the regularized lower incomplete gamma function and p(z; a) the density, dz/da = -(dP/da) / p, and the
slope of the logarithm is that over z. P and p share the factor z**a exp(-z), which cancels, so that nothing under- or
overflows. Of three formulas each has only terms of one sign, or decreasing ones, where it is used. The relative error
is 1e-11 (measured against 40 digits).
"""

from __future__ import annotations

import functools

import numpy as np

from . import numpy_ops

LARGE, NEAR = 100.0, 0.3  # Temme's expansion serves from this alpha on, and for |log(z / alpha)| below NEAR
LEAST = 1.5  # the series serves for z up to the larger one of this and alpha, the continued fraction beyond
TERMS, STEPS = 200, 50  # of the series, at most; of the continued fraction
CHUNK = 8192  # elements at once, so that the arrays of a step stay in the cache
STIRLING = (1.0, 1 / 12, 1 / 288, -139 / 51840, -571 / 2488320)  # gamma(a) / (sqrt(2 pi / a) (a / e)**a), in 1 / a
LENGTHS = (11, 9, 7, 5, 3)  # of the polynomials in Temme's expansion


def gamma_slope(alpha: np.ndarray, z: np.ndarray, logs: bool = False) -> np.ndarray:
    """dz/dalpha for arrays of one shape; with `logs`, d log(z) / dalpha, given log(z). NaN unless alpha > 0.

    Computed in float64 and returned in the dtype of alpha.
    """
    out = np.empty(alpha.shape, alpha.dtype)
    flat = alpha.reshape(-1), z.reshape(-1), out.reshape(-1)
    with np.errstate(all="ignore"):
        for start in range(0, alpha.size, CHUNK):
            shape, number, result = [array[start : start + CHUNK] for array in flat]
            shape, number = shape.astype(np.float64), number.astype(np.float64)
            if logs:
                result[...] = _slope_of_log(shape, number)
            else:  # 0 times a finite slope is the limit, 0
                result[...] = number * _slope_of_log(shape, np.log(np.maximum(number, np.finfo(np.float64).tiny)))
    return out


def _slope_of_log(alpha: np.ndarray, log_z: np.ndarray) -> np.ndarray:
    alpha = np.where(alpha > 0, alpha, np.nan)
    near = (alpha >= LARGE) & (np.abs(log_z - np.log(alpha)) < NEAR)
    below = ~near & (np.exp(log_z) <= np.maximum(alpha, LEAST))
    out = np.empty_like(alpha)
    for chosen, formula in ((near, _temme), (below, _series), (~(near | below), _continued_fraction)):
        if chosen.any():
            out[chosen] = formula(alpha[chosen], log_z[chosen])
    return out


def _series(a: np.ndarray, log_z: np.ndarray) -> np.ndarray:
    """By P = z**a exp(-z) / gamma(a + 1) * sum of z**n / ((a + 1) ... (a + n)) (DLMF 8.7.1), term by term."""
    z, term, harmonic = np.exp(log_z), np.ones_like(a), np.zeros_like(a)
    total, slopes = np.ones_like(a), np.zeros_like(a)
    for n in range(1, TERMS):
        term *= z / (a + n)
        harmonic += 1 / (a + n)
        total += term
        slope = term * harmonic
        slopes += slope
        if not (slope > 1e-17 * slopes).any():
            break
    return (slopes - (log_z - numpy_ops.special().digamma(a + 1)) * total) / a


def _continued_fraction(a: np.ndarray, log_z: np.ndarray) -> np.ndarray:
    """By 1 - P = z**a exp(-z) / gamma(a) / r, r = b0 + a1 / (b1 + a2 / ...) (DLMF 8.9.2), and dr/da, from the end."""
    z = np.exp(log_z)
    r, slope = z + (2 * STEPS + 1) - a, -np.ones_like(a)
    for n in range(STEPS, 0, -1):
        part = n * (a - n) / r
        slope = (n - part * slope) / r - 1
        r = part + (z + (2 * n - 1) - a)
    return (log_z - numpy_ops.special().digamma(a) - slope / r) / r


@functools.cache
def temme_coefficients() -> tuple[tuple[float, ...], ...]:
    """The coefficients of C_0(eta), C_1(eta), ... from the lowest power (DLMF 8.12.12; Temme 1979)."""
    size = LENGTHS[0] + 2 * len(LENGTHS)
    powers = [0.0, 1.0]  # of z / a - 1 in powers of eta
    for n in range(2, size + 2):
        known = sum(j * powers[j] * powers[n - j + 1] for j in range(2, n))
        powers.append((powers[n - 1] - known) / (n + 1))
    rows = [[-1 / 3, *((n + 2) * powers[n + 2] for n in range(1, size))]]
    for k in range(1, len(LENGTHS)):
        sign = (-1) ** k * STIRLING[k]
        rows.append([sign * rows[0][n] + (n + 2) * rows[-1][n + 2] for n in range(len(rows[-1]) - 2)])
    return tuple([tuple(row[:length]) for row, length in zip(rows, LENGTHS, strict=True)])


def _temme(a: np.ndarray, log_z: np.ndarray) -> np.ndarray:
    """By 1 - P = erfc(eta sqrt(a / 2)) / 2 + exp(-a eta**2 / 2) / sqrt(2 pi a) * sum of C_k(eta) / a**k."""
    gap = log_z - np.log(a)
    excess = np.expm1(gap)  # z / a - 1
    eta = np.copysign(np.sqrt(2 * np.maximum(excess - gap, 0)), gap)
    coefficients = [np.polynomial.polynomial.polyval(eta, row) for row in temme_coefficients()]
    total = np.divide(gap, excess, out=np.ones_like(gap), where=excess != 0) - 1
    for k in range(1, len(coefficients)):
        total += ((gap - excess) * coefficients[k] - (k - 0.5) * coefficients[k - 1]) / a**k
    return (np.polynomial.polynomial.polyval(1 / a, STIRLING) * total + 1) / a
