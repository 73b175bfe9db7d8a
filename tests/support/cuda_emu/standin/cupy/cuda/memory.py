"""cupy.cuda.memory."""

from .. import _errors, _pointers, _pool
from .._table import offer as _offer

__getattr__ = _offer("cupy.cuda.memory", vars(_pointers) | vars(_pool) | vars(_errors))
