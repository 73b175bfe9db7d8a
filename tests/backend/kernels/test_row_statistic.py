"""row_statistic and row_variance against their NumPy references, on emulated threads."""

import emulated
import kernel_references as references
import numpy as np
import pytest
from emulated import ORDERS, Placed, assert_close, quarters, unset

from autograd_gpu.backend import kernels
from autograd_gpu.backend.kernels.row_statistic import STATISTICS

pytestmark = [pytest.mark.cpu, pytest.mark.filterwarnings("ignore::RuntimeWarning")]
CLOSE = {"float64": 1e-13, "float32": 2e-6, "float16": 1e-3, "bfloat16": 8e-3}
SHAPES = [(0, 3), (2, 1), (1, 8), (3, 5), (70, 24), (2, 517), (1, kernels.LONGEST_ROW), (2, kernels.LONGEST_ROW - 1)]


def shape_of(x, width):
    return kernels.row_tiles(*x.shape, width, x.itemsize, 1)


def statistic(name, x, offset=0, **how):
    width = emulated.width_of(x, offset)
    instance = f"row_statistic<{STATISTICS[name]}, {kernels.C_NAMES[x.dtype]}, {width}>"
    out = unset(x.shape[:1], x.dtype)
    emulated.launch(instance, shape_of(x, width), Placed(x, offset), out, *x.shape, **how)
    return out.result()


def variance(x, divisor, root=False, with_mean=True, offset=0, **how):
    width = emulated.width_of(x, offset)
    out, mean = (unset(x.shape[:1], x.dtype) for _ in range(2))
    arguments = Placed(x, offset), out, mean if with_mean else None, divisor, root, *x.shape
    emulated.launch(f"row_variance<{kernels.C_NAMES[x.dtype]}, {width}>", shape_of(x, width), *arguments, **how)
    return out.result(), mean.result() if with_mean else None


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_statistic(dtype, shape, offset, order):
    x, close = quarters(shape, dtype), CLOSE[str(dtype)]
    for name in STATISTICS:
        found = statistic(name, x, offset, order=order)
        assert_close(found, references.row_statistic(name, x), rtol=close, atol=close)
    for root in (False, True):
        for found, expected in zip(
            variance(x, shape[1], root, offset=offset, order=order),
            references.row_variance(x, shape[1], root),
            strict=True,
        ):
            assert_close(found, expected, rtol=close, atol=close)


def test_rows_without_elements(dtype):
    x = np.zeros((2, 0), dtype)
    assert np.isnan(statistic("mean", x).astype(float)).all()
    assert statistic("norm", x).tolist() == statistic("nansum", x).tolist() == [0.0, 0.0]
    out, mean = variance(x, 0)
    assert np.isnan(out.astype(float)).all()
    assert np.isnan(mean.astype(float)).all()


def test_nan_and_infinity(dtype):
    x = np.array([[1.0, np.nan, 2.0], [np.inf, 1.0, 1.0], [np.inf, -np.inf, 1.0]]).astype(dtype)
    for name in STATISTICS:
        assert_close(statistic(name, x), references.row_statistic(name, x), rtol=1e-2)
    assert np.isnan(variance(x, 2)[0].astype(float)).all()


def test_no_freedom():
    """Deviations over a divisor of 0 are infinite, or NaN if there are none."""
    out, _ = variance(np.array([[1.0, 2.0], [3.0, 3.0]], np.float32), 0, with_mean=False)
    assert out[0] == np.inf
    assert np.isnan(out[1])


def test_a_large_mean_does_not_cancel():
    x = np.float32(1e4) + np.random.randn(4, 1000).astype(np.float32)
    assert_close(variance(x, 999)[0], references.row_variance(x, 999)[0], rtol=1e-5)


def test_no_race_and_no_undefined_behaviour(dtype):
    for offset in (0, 1):
        x = quarters((5, 520), dtype)
        variance(x, 519, offset=offset, check="races")
        for name in STATISTICS:
            statistic(name, x, offset, check="races")
