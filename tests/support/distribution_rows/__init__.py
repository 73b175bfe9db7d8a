"""The distributions that the tests compare with PyTorch's: a row or more for each class, in a module by subject."""

import importlib
from pathlib import Path

from .row import Row, array

_NAMES = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem not in ("__init__", "row"))
ROWS: list[Row] = [row for name in _NAMES for row in importlib.import_module(f"{__name__}.{name}").ROWS]

__all__ = ["ROWS", "Row", "array"]
