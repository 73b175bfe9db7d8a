"""First and second derivatives of special functions where their usual formulas cancel, overflow or divide 0 by 0.

The exact values are mpmath's.
"""

from __future__ import annotations

import numpy as np
import pytest
from op_db import values

import autograd_gpu as ag

EXACT = {  # name -> (x, first derivative, second derivative)
    "log_ndtr": [
        (-10000.0, 10000.0001, -0.9999999900000006),
        (-1000, 1000.000999998, -0.999999000006),
        (-30, 30.03325966743368, -0.9988962284881099),
        (-5, 5.186503967125842, -0.9673035653828878),
        (-3, 3.283098654930437, -0.9294408132147319),
        (0, 0.7978845608028654, -0.6366197723675813),
        (1, 0.2875999709391784, -0.3703137142233946),
        (3, 0.004437839042125664, -0.01333321154174081),
        (8, 5.052271083536895e-15, -4.041816866829519e-14),
        (12, 2.14638373566306e-32, -2.575660482795672e-31),
        (20, 5.520948362159763e-88, -1.104189672431953e-86),
        (40, 1.463270250838303e-348, -5.853081003353213e-347),
    ],
    "erfcx": [
        (-8, -1.995247705859717e+29, 3.217336925698794e+30),
        (-1, -11.14633932862008, 32.31063881876473),
        (0, -1.128379167095513, 2.0),
        (1, -0.2732120147838986, 0.3087431227438169),
        (1.875, -0.1180167227279984, 0.09629726009934698),
        (2.125, -0.09703011749173075, 0.0729627298854534),
        (5, -0.02133278976482631, 0.008081377817874151),
        (100, -5.641049762599318e-5, 1.128040780228834e-6),
        (10000, -5.641895750849127e-9, 1.128379133244139e-12),
    ],
    "i0": [
        (-3, -3.953370217402609, 3.563002513397488),
        (1e-05, 5.0000000000625e-6, 0.50000000001875),
        (0.25, 0.1259791089454679, 0.5117697054417362),
        (7.5, 249.5843654226881, 234.8833961254976),
        (9, 1030.914722516956, 979.0422742317129),
        (30, 768532038938.957, 756054563192.6789),
    ],
    "i1": [
        (-3, 3.563002513397488, -3.204966070425959),
        (-1e-05, 0.50000000001875, -3.750000000052084e-6),
        (1e-08, 0.5, 3.75e-9),
        (1e-05, 0.50000000001875, 3.750000000052084e-6),
        (0.25, 0.5117697054417362, 0.09456603030600986),
        (1, 0.7009067737595233, 0.4294114342254467),
        (7.5, 234.8833961254976, 222.703634657914),
        (9, 979.0422742317129, 934.8595898556174),
        (30, 756054563192.6789, 744184144653.5777),
    ],
    "i0e": [
        (-3, 0.04617364086452454, 0.02673837729661547),
        (1e-05, -0.9999850001249993, 1.499975000218749),
        (0.25, -0.6929045334423511, 0.9933585520952292),
        (7.5, -0.0102746185288413, 0.00214374218454204),
        (9, -0.007734540645831808, 0.001332971965453481),
    ],
    "i1e": [
        (-3, -0.01943526356790907, -0.001609678703498758),
        (-1e-05, 0.4999900000937494, 0.9999812501749989),
        (1e-08, 0.4999999900000001, -0.9999999812500002),
        (1e-05, 0.4999900000937494, -0.9999812501749989),
        (0.25, 0.3004540186528781, -0.6253725675488498),
        (1, 0.04993877689422354, -0.1498163306826706),
        (7.5, -0.00813087634429926, 0.001394440644449936),
        (9, -0.006401568680378326, 0.0009489922575007919),
    ],
    "sinc": [
        (-2.25, -0.2698096155319418, -1.227138088952474),
        (-1e-05, 3.289868133371756e-5, -3.289868132722362),
        (1e-08, -3.289868133696453e-8, -3.289868133696452),
        (1e-05, -3.289868133371756e-5, -3.289868132722362),
        (0.001, -0.003289864886727896, -3.289858392793072),
        (0.25, -0.7728381398822342, -2.703060757258859),
        (0.75, -1.342949626540777, 0.619277045336495),
        (3.125, -0.283167909816035, 0.565942809408244),
    ],
}
TOLERANCES = {"float32": 2e-5, "float64": 2e-13}  # relative


def function(name):
    return getattr(ag, name, None) or getattr(ag.special, name)


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("name", EXACT)
def test_exact_values(name, dtype, device):
    """Of each number by itself, and of all in one tensor; what the dtype cannot hold is 0."""
    points, *exact = np.array(EXACT[name]).T
    for picked in [slice(None), *range(len(points))]:
        x = ag.tensor(points[picked], dtype=getattr(ag, dtype), device=device, requires_grad=True)
        with np.errstate(over="ignore", under="ignore"):
            (first,) = ag.autograd.grad(function(name)(x).sum(), x, create_graph=True)
            (second,) = ag.autograd.grad(first.sum(), x)
        for actual, expected in zip((first, second), exact, strict=True):
            tiny = 1e3 * np.finfo(dtype).tiny
            np.testing.assert_allclose(values(actual), expected[picked], rtol=TOLERANCES[dtype], atol=tiny)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_at_zero(dtype, device):
    """i1e'' jumps there from 1 to -1: the mean."""
    for name, expected in {"sinc": (0, -np.pi**2 / 3), "i0": (0, 0.5), "i1": (0.5, 0), "i1e": (0.5, 0)}.items():
        for shape in ((), (3,)):
            x = ag.zeros(shape, dtype=getattr(ag, dtype), device=device, requires_grad=True)
            (first,) = ag.autograd.grad(function(name)(x).sum(), x, create_graph=True)
            (second,) = ag.autograd.grad(first.sum(), x)
            np.testing.assert_allclose(values(first), np.full(shape, expected[0]), atol=1e-15)
            np.testing.assert_allclose(values(second), np.full(shape, expected[1]), rtol=1e-6, atol=1e-15)


def test_ends(device):
    """Of what has a limit at infinity, and NaN."""
    x = ag.tensor([-np.inf, np.inf, np.nan], dtype=ag.float64, device=device, requires_grad=True)
    with np.errstate(all="ignore"):
        for name, expected in {"log_ndtr": [np.inf, 0], "erfcx": [-np.inf, 0]}.items():
            (first,) = ag.autograd.grad(function(name)(x).sum(), x, retain_graph=True)
            assert values(first)[:2].tolist() == expected, name
            assert np.isnan(values(first)[2])


@pytest.mark.same_on_cpu
def test_third_derivatives_of_log_ndtr_and_erfcx(device):
    x = ag.tensor(np.linspace(-4, 5, 19), device=device, requires_grad=True)
    for name in ("log_ndtr", "erfcx", "sinc", "i1"):
        def curve(x, name=name):
            (first,) = ag.autograd.grad(function(name)(x).sum(), x, create_graph=True)
            return first
        assert ag.autograd.gradgradcheck(curve, (x,), rtol=1e-4)
