"""cupy.cuda.function."""

from .. import _function, _scalar
from .._table import offer as _offer

__getattr__ = _offer("cupy.cuda.function", vars(_function) | vars(_scalar))
