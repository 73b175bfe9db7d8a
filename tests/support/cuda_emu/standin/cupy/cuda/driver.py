"""cupy.cuda.driver."""

from .. import _errors as _names
from .._table import offer as _offer

__getattr__ = _offer("cupy.cuda.driver", vars(_names))
