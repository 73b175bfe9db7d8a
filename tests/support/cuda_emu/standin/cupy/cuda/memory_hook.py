"""cupy.cuda.memory_hook."""

from .. import _hooks as _names
from .._table import offer as _offer

__getattr__ = _offer("cupy.cuda.memory_hook", vars(_names))
