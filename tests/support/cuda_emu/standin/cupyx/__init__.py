"""cupyx."""

from cupy import _cupyx as _names
from cupy._table import offer as _offer

from . import scipy as scipy

__getattr__ = _offer("cupyx", vars(_names))
