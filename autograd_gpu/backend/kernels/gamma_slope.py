"""The derivative of a gamma-distributed number by its shape parameter, at a fixed quantile."""

from __future__ import annotations

from ..arrays.dtypes import float64, int64
from ..cuda import runtime
from .constants import THREADS
from .instances import Parameter, declare
from .launcher import Array, check_array, launch


def _declare() -> None:
    arrays = Parameter("alpha", "read", float64), Parameter("z", "read", float64), Parameter("out", "write", float64)
    for logs in ("false", "true"):
        parameters = (*arrays, Parameter("size", "scalar", int64))
        declare(f"gamma_slope<{logs}, double>", "gamma_slope.cu", "gamma_slope", parameters, unit=logs)


_declare()


def gamma_slope(alpha: Array, z: Array, logs: bool = False) -> Array:
    """dz/dalpha for arrays of one shape; with `logs`, d log(z) / dalpha, given log(z). NaN unless alpha > 0.

    Computed in float64 and returned in the dtype of alpha.
    """
    arrays = [array.astype(float64, order="C", copy=False) for array in (alpha, z)]
    check_array("gamma_slope", "alpha", arrays[0])
    check_array("gamma_slope", "z", arrays[1], alpha.shape)
    out = runtime.cupy().empty(alpha.shape, float64)
    shape = (-(-out.size // THREADS), 1), (THREADS, 1)
    launch(f"gamma_slope<{str(logs).lower()}, double>", shape, *arrays, out, out.size)
    return out.astype(alpha.dtype, copy=False)
