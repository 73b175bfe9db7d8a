"""cupy_backends.cuda.libs.cublas."""

from cupy import _cublas as _names
from cupy import _libcublas
from cupy._table import offer as _offer

__getattr__ = _offer("cupy_backends.cuda.libs.cublas", vars(_names))
_libcublas.load_from(__file__)
