"""cupy.cuda.graph."""

from .. import _graph as _names
from .._table import offer as _offer

__getattr__ = _offer("cupy.cuda.graph", vars(_names))
