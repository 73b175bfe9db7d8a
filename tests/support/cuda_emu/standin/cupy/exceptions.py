"""cupy.exceptions."""

from numpy.exceptions import AxisError, ComplexWarning, ModuleDeprecationWarning, RankWarning, TooHardError
from numpy.exceptions import VisibleDeprecationWarning as VisibleDeprecationWarning

__all__ = ["AxisError", "ComplexWarning", "ModuleDeprecationWarning", "RankWarning", "TooHardError",
           "VisibleDeprecationWarning"]  # fmt: skip
