"""cupyx.scipy.linalg: SciPy's functions under the names that CuPy has, and `expm` as CuPy composes it."""

from cupy._solvers import scipy_linalg as _make
from cupy._table import offer as _offer

from ._expm import expm as _expm

__getattr__ = _offer("cupyx.scipy.linalg", {"expm": _expm}, _make)
