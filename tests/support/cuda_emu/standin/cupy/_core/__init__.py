"""The part of cupy._core that the stand-in has."""

from . import _scalar as _scalar
