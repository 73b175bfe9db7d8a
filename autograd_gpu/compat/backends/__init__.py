"""Settings and questions of PyTorch's backend libraries that programs set and ask."""

from typing import TYPE_CHECKING

from ...missing_names import getattr_of
from . import cuda, cudnn, mkl, mkldnn, mps, openmp

__all__ = ["cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp"]

if not TYPE_CHECKING:  # a type checker would accept any name
    __getattr__ = getattr_of(__name__)
