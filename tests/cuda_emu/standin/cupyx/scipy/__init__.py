"""cupyx.scipy, as far as the stand-in has it."""

from . import special as special
