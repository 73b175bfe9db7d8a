"""Functions of a tensor that `ag.compile` refuses to record, by name, and what the warning says.

make() gives the function; or it, what it is called with in the place of a leaf of shape (4, 3), and what is looked at.
"""

from . import differences, histories, python_state, reads_and_hooks
from .common import REFUSED, calls, fault, started

__all__ = ["REFUSED", "calls", "differences", "fault", "histories", "python_state", "reads_and_hooks", "started"]
