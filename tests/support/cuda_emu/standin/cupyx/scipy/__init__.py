"""cupyx.scipy, as far as the stand-in has it."""

from . import linalg as linalg
from . import special as special
