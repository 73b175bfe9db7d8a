"""gamma_slope against what the CPU computes, on emulated threads."""

import emulated
import kernel_references as references
import numpy as np
import pytest
from emulated import ORDERS, Placed, assert_close, unset

from autograd_gpu.backend import kernels

pytestmark = pytest.mark.cpu


def gamma_slope(alpha, z, logs, order="forward", check="none"):
    """What backend/kernels/gamma_slope.py launches."""
    operands, out = [Placed(alpha), Placed(z)], unset(alpha.shape, alpha.dtype)
    shape = (-(-alpha.size // kernels.THREADS), 1), (kernels.THREADS, 1)
    name = f"gamma_slope<{str(logs).lower()}, double>"
    emulated.launch(name, shape, *operands, out, alpha.size, order=order, check=check)
    return out.result()


def samples(size):
    """Shape parameters of all sizes, and numbers from the middle and from the tails."""
    rng = np.random.default_rng(3)
    alpha = 10 ** rng.uniform(-2, 3, size)
    return alpha, alpha * np.exp(rng.normal(size=size) / np.sqrt(alpha + 0.1))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("logs", [False, True])
@pytest.mark.parametrize("size", [0, 1, 7, 2001])
def test_gamma_slope(size, logs, order):
    alpha, z = samples(size)
    z = np.log(z) if logs else z
    assert_close(gamma_slope(alpha, z, logs, order), references.gamma_slope(alpha, z, logs), 1e-12)


def test_no_race_and_no_undefined_behaviour():
    gamma_slope(*samples(517), False, check="races")


def test_ends():
    """0 in both functions where z is 0; NaN for parameters that are none; and NaN ends a loop."""
    alpha, z = np.array([2.0, 0.5, -1.0, 0.0, np.nan, 1.0, 1e8]), np.array([0.0, 1e-300, 1.0, 1.0, 1.0, np.nan, 1e8])
    expected = references.gamma_slope(alpha, z)
    np.testing.assert_array_equal(np.isnan(expected), [False, False, True, True, True, True, False])
    np.testing.assert_allclose(expected[[0, 6]], [0, 1], atol=1e-8)
    assert_close(gamma_slope(alpha, z, False), expected, 1e-12)
