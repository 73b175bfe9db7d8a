"""cupy.cuda.pinned_memory."""

from .. import _pinned as _names
from .._table import offer as _offer

__getattr__ = _offer("cupy.cuda.pinned_memory", vars(_names))
