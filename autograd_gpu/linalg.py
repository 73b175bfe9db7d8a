"""Linear algebra with torch.linalg's names, for batches of float32 and float64 matrices (..., m, n).

Uses LAPACK on the CPU, cuSOLVER and cuBLAS on CUDA.
"""

from .errors import LinAlgError
from .missing_names import getattr_of
from .ops.binding import MODULES

globals().update(MODULES["linalg"])
__all__ = ["LinAlgError", *sorted(MODULES["linalg"])]  # noqa: PLE0604
__getattr__ = getattr_of(__name__)
