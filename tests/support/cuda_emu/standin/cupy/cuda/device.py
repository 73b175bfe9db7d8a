"""cupy.cuda.device."""

from .. import _device as _names
from .._table import offer as _offer

__getattr__ = _offer("cupy.cuda.device", vars(_names))
