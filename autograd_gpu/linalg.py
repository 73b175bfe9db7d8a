"""Linear algebra by torch.linalg's names, for float32 and float64 matrices and batches of them.

On the CPU LAPACK does the work, on CUDA cuSOLVER and cuBLAS. Shapes are (..., m, n); all leading dimensions are batch.
"""

from .errors import LinAlgError
from .ops.binding import MODULES

globals().update(MODULES["linalg"])
__all__ = ["LinAlgError", *sorted(MODULES["linalg"])]  # noqa: PLE0604
