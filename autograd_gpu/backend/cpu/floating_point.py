"""NumPy's floating-point warnings (log of 0, overflow): operations here do not show them, as on CUDA and in PyTorch.

np.errstate around each operation would cost it 15 to 60 percent. A filter costs nothing until there is a warning. It
matches what NumPy raises at our lines only: a user's own NumPy code warns as ever, and filters that are set later win.
"""

from __future__ import annotations

import warnings

MESSAGE = "(divide by zero|invalid value|overflow|underflow) encountered in "
MODULES = r"autograd_gpu\."


def hide_warnings() -> None:
    warnings.filterwarnings("ignore", MESSAGE, RuntimeWarning, MODULES)
