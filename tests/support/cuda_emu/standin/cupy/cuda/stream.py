"""cupy.cuda.stream."""

from .. import _stream as _names
from .._table import offer as _offer

__getattr__ = _offer("cupy.cuda.stream", vars(_names))
