"""The rows of the op table: for each module of `autograd_gpu/ops/` its namesake, with a list `ROWS`."""

import importlib
from pathlib import Path

_HERE = Path(__file__).parent


def _modules():
    """name below `ops` -> module, of all that have rows; what several share is in `shared`."""
    files = [path for path in _HERE.rglob("*.py") if path.stem not in ("shared", "__init__")]
    paths = sorted(path.relative_to(_HERE).with_suffix("") for path in files)
    return {name: importlib.import_module(f"{__name__}.{name}") for name in (".".join(path.parts) for path in paths)}


BY_MODULE = {name: module.ROWS for name, module in _modules().items()}
ROWS = [row for rows in BY_MODULE.values() for row in rows]
