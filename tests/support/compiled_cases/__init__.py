"""Small programs with `ag.compile`, each for what a seam or a guard is there for; tests plant faults beside them.

A case is a function of `wrap`, which is `ag.compile` or leaves functions as they are. It returns a log as plain data,
which has to be the same with either.
"""

from . import arguments, derivatives, named, outside, training, writes
from .common import CASES, fault

__all__ = ["CASES", "arguments", "derivatives", "fault", "named", "outside", "training", "writes"]
