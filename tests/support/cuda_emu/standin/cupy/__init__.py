"""A stand-in for CuPy that computes with NumPy, for tests on machines without a GPU. See ../README.md."""

from . import _core as _core
from . import _emulation as _emulation
from . import _module
from . import cuda as cuda
from . import exceptions as exceptions
from . import linalg as linalg
from . import random as random
from ._table import API as _API
from ._table import offer as _offer

__version__ = _API["version"]
__getattr__ = _offer("cupy", _module.NAMES, _module.make)
