"""The rows of the op table, one module per family of `autograd_gpu/ops/`; each has a list `ROWS`."""

import importlib
import pkgutil

ROWS = [
    row
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda module: module.name)
    for row in importlib.import_module(f"{__name__}.{module.name}").ROWS
]
