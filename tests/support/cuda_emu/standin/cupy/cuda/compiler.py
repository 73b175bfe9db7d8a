"""cupy.cuda.compiler."""

from .. import _raw as _names
from .._table import offer as _offer

__getattr__ = _offer("cupy.cuda.compiler", vars(_names))
