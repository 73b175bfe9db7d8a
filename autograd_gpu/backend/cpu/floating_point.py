"""Hides NumPy's floating-point warnings (log of 0, overflow) in this package, as CUDA and PyTorch give none.

np.errstate around each operation would cost 15 to 60 percent; a warnings filter costs nothing until there is a warning.
The filter matches our modules only: a user's own NumPy code still warns, and filters set later take precedence.
"""

from __future__ import annotations

import warnings

MESSAGE = "(divide by zero|invalid value|overflow|underflow) encountered in "
MODULES = r"autograd_gpu\."


def hide_warnings() -> None:
    """Installs the filter."""
    warnings.filterwarnings("ignore", MESSAGE, RuntimeWarning, MODULES)
