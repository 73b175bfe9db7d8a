"""Generated source: text under construction, and the scope that it is compiled in."""

from __future__ import annotations

import itertools
import linecache
from typing import Any

import numpy as np

from ..backend import is_array, namespace
from ..backend.dtypes import FLOATS, FULL_FLOATS, INTEGERS
from ..config import MODES
from ..errors import check_bool
from .node import next_sequence_nr
from .op import RAW, RECORD
from .saved import FREED, SavedTensor, save_output, saved
from .tensor import Parameter, Tensor, wrap
from .views import shares_memory, storage_of

SCOPE: dict[str, Any] = {
    "FLOATS": FLOATS, "FREED": FREED, "FULL_FLOATS": FULL_FLOATS, "INTEGERS": INTEGERS, "MODES": MODES,
    "Parameter": Parameter, "check_bool": check_bool,
    "RAW": RAW, "RECORD": RECORD, "SavedTensor": SavedTensor, "Tensor": Tensor, "asarray": np.asarray,
    "generic": np.generic, "is_array": is_array, "namespace": namespace, "ndarray": np.ndarray, "new": object.__new__,
    "next_sequence_nr": next_sequence_nr, "numpy": np, "save_output": save_output, "saved": saved,
    "shares_memory": shares_memory, "storage_of": storage_of, "wrap": wrap,
}  # fmt: skip
_serial = itertools.count()


class Source:
    """Lines of a function; `depth` is the current indentation."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 0

    def __call__(self, line: str, indent: int = 0) -> None:
        self.lines.append("    " * (self.depth + indent) + line)

    def compile(self, name: str, extra: dict[str, Any]) -> Any:
        """Executes the text and returns its function `name`; tracebacks show the generated lines."""
        text = "\n".join(self.lines) + "\n"
        filename = f"<generated {name} {next(_serial)}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
        scope = {**SCOPE, **extra}
        exec(compile(text, filename, "exec"), scope)
        return scope[name]
