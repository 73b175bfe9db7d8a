"""cupy.random."""

from . import _random as _names
from ._table import offer as _offer

__getattr__ = _offer("cupy.random", vars(_names))
