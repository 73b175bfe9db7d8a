"""cupy.cuda.runtime."""

from .. import _runtime as _names
from .._table import offer as _offer

__getattr__ = _offer("cupy.cuda.runtime", vars(_names))
