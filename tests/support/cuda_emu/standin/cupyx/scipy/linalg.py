"""cupyx.scipy.linalg: SciPy's functions under the names that CuPy has."""

from cupy._solvers import scipy_linalg as _make
from cupy._table import offer as _offer

__getattr__ = _offer("cupyx.scipy.linalg", {}, _make)
