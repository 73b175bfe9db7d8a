"""The arrays of random numbers against NumPy, on emulated threads; and whether they are random."""

import emulated
import kernel_references as references
import numpy as np
import pytest
from emulated import ORDERS, Placed, assert_close, assert_same, unset
from scipy import stats

from autograd_gpu.backend import kernels
from autograd_gpu.backend.arrays.dtypes import DIGITS
from autograd_gpu.backend.kernels.constants import COUNTERS_PER_THREAD

pytestmark = pytest.mark.cpu
SIZES = [0, 1, 2, 3, 4, 5, 1023, 1024, 2500]
FLOATS = [np.dtype("float32"), np.dtype("float64")]
KINDS = [(name, dtype) for name in kernels.DISTRIBUTIONS for dtype in emulated.DTYPES]
ROUNDING = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 2e-6, "float64": 2e-6}
SEED, START = 2**64 - 5, 2**64 - 100  # the counters pass 2^64


def run(name, dtype, size, *arguments, read=(), **how):
    """`name` on as many threads as backend/kernels/random.py gives it."""
    out = Placed(np.zeros((size,), dtype)) if dtype.kind in "bi" else unset((size,), dtype)
    threads = size if read else -(-kernels.counters_for(size, dtype) // COUNTERS_PER_THREAD)
    shape = (-(-threads // kernels.THREADS), 1), (kernels.THREADS, 1)
    emulated.launch(name, shape, *read, out, SEED, START, None, *arguments, size, **how)
    return out.result()


def numbers(kind, size, scale=1, shift=0, **how):
    return run(f"random_numbers<{kind[0]}, {kernels.C_NAMES[kind[1]]}>", kind[1], size, scale, shift, **how)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_numbers(kind, size, order):
    for scale, shift in ((1, 0), (4, -1)):
        result = numbers(kind, size, scale, shift, order=order)
        expected = references.random_numbers(kind[0], (size,), kind[1], SEED, START, scale, shift)
        if kind[0] == "Uniform":
            assert_same(result, expected)
        else:
            assert_close(result, expected, rtol=ROUNDING[str(kind[1])], atol=2e-6)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("size", SIZES)
def test_bits(size, order):
    for keep in (0.0, 0.3, 1.0):
        result = run("random_bits", np.dtype(bool), size, round(keep * 2**32), order=order)
        assert result.tolist() == references.mask_bits(kernels.Mask(SEED, START, keep, size)).tolist()


END = 2**63
BOUNDS = [(0, 1), (-END, END), (-3, 4), (0, 2**31), (-END, END - 1), (-(2**62) - 5, END - 1), (END - 2, END - 1)]


def integers(size, low, high, **how):
    span = high - low
    return run("random_integers", np.dtype("int64"), size, low, span % 2**64, 2**64 % span, **how)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("low", "high"), BOUNDS)
def test_integers(low, high, order):
    """The sixth bounds refuse a quarter of the words, and draw again."""
    for size in (0, 1, 5, 600):
        expected = references.random_integers((size,), low, high, SEED, START)
        assert_same(integers(size, low, high, order=order), expected)


def test_no_race_and_no_undefined_behaviour():
    for size in (1, 5, 1100):
        for kind in KINDS:
            assert_same(numbers(kind, size, check="races"), numbers(kind, size))
        for low, high in BOUNDS:
            assert_same(integers(size, low, high, check="races"), integers(size, low, high))
        run("random_bits", np.dtype(bool), size, 7, check="races")
    rates = np.array([0, 0.5, 9.9, 10, 1e3, 1e12, np.nan, np.inf, -1.0])
    assert_same(events(rates, check="races"), events(rates))
    assert_same(gammas(rates, check="races"), gammas(rates))
    probabilities = np.array([0.5, 0.1, 1, 0.7, 0.3, 1e-9, 0.5, 0.5, np.nan])
    assert_same(successes(rates, probabilities, check="races"), successes(rates, probabilities))


# ---- distributions: of fixed counters, so that what passes once passes always --------------------------

MANY = 40_000
LIMIT = 1e-3  # a p-value above it is no surprise: some thirty are looked at here


def test_uniform_numbers_are_uniform_and_independent():
    for dtype in emulated.DTYPES:
        drawn = numbers(("Uniform", dtype), MANY).astype(np.float64)
        steps = 2.0 ** DIGITS[dtype]
        assert (drawn * steps % 1 == 0).all()
        assert 0 <= drawn.min() < drawn.max() < 1
        drawn += np.random.default_rng(0).random(MANY) / steps  # the test would see those of a half type
        assert stats.kstest(drawn, "uniform").pvalue > LIMIT
        pairs = np.histogram2d(drawn[::2], drawn[1::2], bins=16, range=[[0, 1]] * 2)[0]
        assert stats.chisquare(pairs.ravel()).pvalue > LIMIT


def test_normal_and_exponential_numbers():
    for dtype in FLOATS:
        normal = numbers(("Normal", dtype), MANY).astype(np.float64)
        assert stats.kstest(normal, "norm").pvalue > LIMIT
        assert stats.pearsonr(normal[::2], normal[1::2]).pvalue > LIMIT
        assert stats.pearsonr(normal[::2] ** 2, normal[1::2] ** 2).pvalue > LIMIT
        assert stats.kstest(numbers(("Exponential", dtype), MANY).astype(np.float64), "expon").pvalue > LIMIT


@pytest.mark.parametrize(("low", "high", "bins"), [(-3, 8, 11), (-(2**62) - 5, 2**63 - 1, 12)])
def test_integers_are_as_likely_as_each_other(low, high, bins):
    drawn = integers(MANY, low, high)
    assert low <= drawn.min() <= drawn.max() < high
    result = np.histogram(drawn.astype(np.float64), bins, (low, high))[0]
    assert stats.chisquare(result).pvalue > LIMIT


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9])
def test_bits_have_their_share_and_are_independent(keep):
    words = 16  # bits in a row, counted
    bits = references.mask_bits(kernels.Mask(3, 0, keep, MANY * words))
    assert stats.binomtest(int(bits.sum()), bits.size, keep).pvalue > LIMIT
    counts = np.bincount(bits.reshape(MANY, words).sum(axis=1), minlength=words + 1)
    expected = stats.binom.pmf(np.arange(words + 1), words, keep) * MANY
    usual = expected > 5
    result, expected = counts[usual], expected[usual]
    assert stats.chisquare(result, expected * result.sum() / expected.sum()).pvalue > LIMIT
    for seed, start in ((3, MANY * words // 4), (4, 0)):  # the next call, and another seed
        other = references.mask_bits(kernels.Mask(seed, start, keep, MANY * words))
        assert stats.pearsonr(bits, other).pvalue > LIMIT


def events(rates, **how):
    return run("random_events<double>", np.dtype("float64"), len(rates), read=(Placed(rates),), **how)


@pytest.mark.parametrize("rate", [0.3, 5.0, 9.99, 10.0, 37.5, 1e4])
def test_events_have_their_distribution(rate):
    drawn = events(np.full(MANY, rate))
    assert (drawn == np.floor(drawn)).all()
    edges = np.unique(stats.poisson.ppf(np.linspace(0, 1, 30)[1:-1], rate))
    cdf = np.r_[0, stats.poisson.cdf(edges, rate), 1]
    result = np.histogram(drawn, np.r_[-np.inf, edges + 0.5, np.inf])[0]
    assert stats.chisquare(result, np.diff(cdf) * MANY).pvalue > LIMIT


def test_events_of_rates_that_are_none():
    """Each takes an end; so does a very large rate."""
    result = events(np.array([0.0, -3.0, np.nan, np.inf, 1e16]))
    np.testing.assert_array_equal(result[:4], [0, 0, np.nan, np.inf])
    assert abs(result[4] / 1e16 - 1) < 1e-6


def gammas(alphas, **how):
    return run("random_gammas<double>", np.dtype("float64"), len(alphas), read=(Placed(alphas),), **how)


@pytest.mark.parametrize("alpha", [0.05, 0.7, 1.0, 3.5, 400.0])
def test_gamma_distributed_numbers(alpha):
    drawn = gammas(np.full(MANY // 2, alpha))
    assert stats.kstest(drawn, stats.gamma(alpha).cdf).pvalue > LIMIT
    assert stats.spearmanr(drawn[::2], drawn[1::2]).pvalue > LIMIT


def test_gammas_of_parameters_that_are_none():
    np.testing.assert_array_equal(gammas(np.array([0.0, -3.0, np.nan, np.inf])), [0, np.nan, np.nan, np.inf])


def successes(counts, probabilities, **how):
    read = Placed(counts), Placed(probabilities)
    return run("random_successes<double>", np.dtype("float64"), len(counts), read=read, **how)


TRIALS = [(1, 0.3), (12, 0.5), (12, 0.95), (40, 0.24), (40, 0.26), (300, 0.8), (1e7, 0.4)]


@pytest.mark.parametrize(("count", "p"), TRIALS)
def test_successes_have_their_distribution(count, p):
    drawn = successes(np.full(MANY, count, np.float64), np.full(MANY, p))
    assert (drawn == np.floor(drawn)).all()
    edges = np.unique(stats.binom.ppf(np.linspace(0, 1, 30)[1:-1], count, p))
    cdf = np.unique(np.r_[0, stats.binom.cdf(edges, count, p), 1])
    result = np.histogram(drawn, np.r_[-np.inf, edges + 0.5, np.inf])[0][: len(cdf) - 1]
    assert stats.chisquare(result, np.diff(cdf) * MANY).pvalue > LIMIT


def test_successes_of_parameters_that_are_none():
    """Probabilities beyond the ends count as these; counts are rounded down."""
    counts = np.array([5.0, 5.0, 5.0, 5.0, 0.0, -2.0, np.nan, np.inf, 5.0, 7.9])
    result = successes(counts, np.array([0.0, 1.0, -1.0, 2.0, 0.5, 1.0, 0.5, 0.5, np.nan, 1.0]))
    np.testing.assert_array_equal(result, [0, 5, 0, 5, 0, 0, np.nan, np.nan, np.nan, 7])
