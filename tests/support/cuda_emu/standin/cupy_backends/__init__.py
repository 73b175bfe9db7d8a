"""The part of cupy_backends that the stand-in has."""
