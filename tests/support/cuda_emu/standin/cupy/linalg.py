"""cupy.linalg: NumPy's, after waiting for the arguments, as CuPy's calls of cuSOLVER mostly do."""

from numpy.linalg import LinAlgError as LinAlgError

from ._solvers import linalg as _make
from ._table import offer as _offer

__getattr__ = _offer("cupy.linalg", {}, _make)
