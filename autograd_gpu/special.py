"""Special functions, with torch.special's names.

>>> ag.special.expit(ag.tensor([0.0]))
tensor([0.5])
"""

from .missing_names import getattr_of
from .ops.binding import MODULES

globals().update(MODULES["special"])
__all__ = sorted(MODULES["special"])  # noqa: PLE0605
__getattr__ = getattr_of(__name__)
