"""cupy._core._scalar."""

from .. import _scalar as _names
from .._table import offer as _offer

__getattr__ = _offer("cupy._core._scalar", vars(_names))
