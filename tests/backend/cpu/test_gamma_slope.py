"""gamma_slope against 40 digits, and where its formulas meet."""

import numpy as np
import pytest

from autograd_gpu.backend.cpu.gamma_slope import gamma_slope

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


def test_it_is_accurate():
    alpha, z, slope = KNOWN.T
    np.testing.assert_allclose(gamma_slope(alpha, np.log(z), logs=True), slope, rtol=1e-11)
    np.testing.assert_allclose(gamma_slope(alpha, z), z * slope, rtol=1e-11)


def test_formulas_meet():
    """On both sides of the borders between them."""
    for alpha, z in ((100.0, 134.98), (100.0, 74.09), (0.7, 1.5), (40.0, 40.0), (1e6, 1.3498e6), (1e6, 0.7409e6)):
        beside = z * (1 + np.array([-2e-4, -1e-4, 1e-4, 2e-4]))
        slope = gamma_slope(np.full(4, alpha), np.log(beside), logs=True)
        second = slope[0] - slope[1], slope[2] - slope[3]
        assert abs(slope[1] - slope[2] - second[0] - second[1]) < 1e-6 * slope[0]
