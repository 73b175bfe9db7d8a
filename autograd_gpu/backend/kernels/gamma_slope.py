"""The derivative of a gamma-distributed number by its shape parameter, at a fixed quantile."""

from __future__ import annotations

from ..cpu import gamma_slope as on_cpu
from ..cuda import runtime
from .instances import C_NAMES, SIZE, Parameter, declare
from .launcher import Array, c_name, check_array, launch
from .tiles import tiles


def _declare() -> None:
    for dtype, name in C_NAMES.items():
        arrays = [Parameter(each, "read", dtype) for each in ("alpha", "z")]
        parameters = (*arrays, Parameter("out", "write", dtype), *SIZE)
        for logs in ("false", "true"):
            unit = f"{logs}, {name}, 1"  # bound by arithmetic, so wide loads would gain nothing
            declare(f"gamma_slope<{unit}>", "gamma_slope.cu", "gamma_slope", parameters, unit=unit)


_declare()


def gamma_slope(alpha: Array, z: Array, logs: bool = False) -> Array:
    """dz/dalpha for arrays of one shape; with `logs`, d log(z) / dalpha, given log(z). NaN unless alpha > 0.

    Computed in float64.
    """
    check_array("gamma_slope", "alpha", alpha)
    check_array("gamma_slope", "z", z, alpha.shape)
    instance = f"gamma_slope<{str(logs).lower()}, {c_name('gamma_slope', alpha.dtype)}, 1>"
    out = runtime.cupy().empty(alpha.shape, alpha.dtype)
    launch(instance, tiles(1, alpha.size, 1, alpha.itemsize), alpha, z, out, 1, alpha.size)
    return out


gamma_slope_reference = on_cpu.gamma_slope
