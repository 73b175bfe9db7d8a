"""cupyx.scipy.special: SciPy's functions under the names that CuPy has."""

from cupy._functions import special as _make
from cupy._table import offer as _offer

__getattr__ = _offer("cupyx.scipy.special", {}, _make)
