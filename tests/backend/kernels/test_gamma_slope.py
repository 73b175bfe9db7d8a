"""gamma_slope against its NumPy reference, on emulated threads, and the reference against 40 digits."""

import emulated
import numpy as np
import pytest
from emulated import ORDERS, Placed, assert_close, unset

from autograd_gpu.backend import kernels

pytestmark = pytest.mark.cpu
# By mpmath: -diff(lambda a: gammainc(a, 0, z, regularized=True), a) / density(a, z), the density times z if logs.
KNOWN = np.array([  # alpha, z, d log(z) / dalpha
    (0.001, 1.5, 449.01114616097885), (0.01, 1e-4, 865.0409375322654), (0.01, 1.0, 60.50556226066109),
    (0.3, 0.15, 6.797583997842731), (0.5, 1.0, 1.8782472817325202), (0.5, 1.5, 1.4930201687228013),
    (1.0, 30.0, 0.13369009284408895), (2.0, 2.5, 0.4849277160321427), (3.0, 0.03, 1.6001688061976167),
    (10.0, 10.0, 0.10168234904310751), (30.0, 15.0, 0.04646299163481506), (100.0, 1.0, 0.04656358878495678),
    (100.0, 74.0, 0.01160022465389271), (100.0, 100.0, 0.010016683237741726), (100.0, 134.0, 0.008622251752081747),
    (100.0, 300.0, 0.005501876084273165), (1000.0, 740.0, 0.0011582889615456185),
    (1000.0, 1001.0, 0.000999666933123976), (1000.0, 1350.0, 0.0008575841882841604),
])  # fmt: skip


def gamma_slope(alpha, z, logs, order="forward", check="none"):
    """What backend/kernels/gamma_slope.py launches."""
    given, out = [Placed(alpha), Placed(z)], unset(alpha.shape, alpha.dtype)
    shape = (-(-alpha.size // kernels.THREADS), 1), (kernels.THREADS, 1)
    name = f"gamma_slope<{str(logs).lower()}, double>"
    emulated.launch(name, shape, *given, out, alpha.size, order=order, check=check)
    return out.result()


def samples(size):
    """Shape parameters of all sizes, and numbers from the middle and from the tails."""
    rng = np.random.default_rng(3)
    alpha = 10 ** rng.uniform(-2, 3, size)
    return alpha, alpha * np.exp(rng.normal(size=size) / np.sqrt(alpha + 0.1))


def test_reference_is_accurate():
    alpha, z, slope = KNOWN.T
    np.testing.assert_allclose(kernels.gamma_slope_reference(alpha, np.log(z), logs=True), slope, rtol=1e-11)
    np.testing.assert_allclose(kernels.gamma_slope_reference(alpha, z), z * slope, rtol=1e-11)


def test_formulas_meet():
    """On both sides of the borders between them."""
    for alpha, z in ((100.0, 134.98), (100.0, 74.09), (0.7, 1.5), (40.0, 40.0), (1e6, 1.3498e6), (1e6, 0.7409e6)):
        beside = z * (1 + np.array([-2e-4, -1e-4, 1e-4, 2e-4]))
        slope = kernels.gamma_slope_reference(np.full(4, alpha), np.log(beside), logs=True)
        second = slope[0] - slope[1], slope[2] - slope[3]
        assert abs(slope[1] - slope[2] - second[0] - second[1]) < 1e-6 * slope[0]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("logs", [False, True])
@pytest.mark.parametrize("size", [0, 1, 7, 2001])
def test_gamma_slope(size, logs, order):
    alpha, z = samples(size)
    z = np.log(z) if logs else z
    assert_close(gamma_slope(alpha, z, logs, order), kernels.gamma_slope_reference(alpha, z, logs), 1e-12)


@pytest.mark.parametrize("check", ["races", "undefined"])
def test_no_race_and_no_undefined_behaviour(check):
    gamma_slope(*samples(517), False, check=check)


def test_ends():
    """0 in both functions where z is 0; NaN for parameters that are none; and NaN ends a loop."""
    alpha, z = np.array([2.0, 0.5, -1.0, 0.0, np.nan, 1.0, 1e8]), np.array([0.0, 1e-300, 1.0, 1.0, 1.0, np.nan, 1e8])
    expected = kernels.gamma_slope_reference(alpha, z)
    np.testing.assert_array_equal(np.isnan(expected), [False, False, True, True, True, True, False])
    np.testing.assert_allclose(expected[[0, 6]], [0, 1], atol=1e-8)
    assert_close(gamma_slope(alpha, z, False), expected, 1e-12)
