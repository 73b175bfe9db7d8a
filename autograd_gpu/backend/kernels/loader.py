"""The sources of our kernels: found, read and compiled."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .. import cuda
from . import constants
from .instances import INSTANCES, instances_of

# CuPy appends -ftz=true and NVRTC obeys the last word, so float32 and bfloat16 numbers below 1.2e-38 count as zeros
# here, as they do in all of CuPy's own kernels. Float16 keeps its subnormal numbers, being computed with in float32.
OPTIONS = ("-std=c++17",)


def folder() -> Path:
    """Where the .cu files are: inside an installed package, beside it in a checkout."""
    package = Path(__file__).resolve().parents[2]
    for found in (package / "_kernels", package.parent / "kernels"):
        if found.is_dir():
            return found
    raise FileNotFoundError(
        f"the CUDA sources are missing: neither {package / '_kernels'} nor {package.parent / 'kernels'} exists; "
        "install autograd_gpu again, or use a full checkout"
    )


def source(file: str) -> str:
    """The text of `file` after our constants, with our own headers in place of the lines that include them.

    CuPy keys its cache of compiled kernels by the text: a changed header has to change it.
    """
    return "\n".join([constants.definitions(), *_lines(folder() / file, set())]) + "\n"


def _lines(path: Path, seen: set[Path]) -> Iterator[str]:
    seen.add(path)
    yield f'#line 1 "{path.name}"'
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        include = re.match(r'#include "(.+)"', line)
        if include is None:
            yield "" if line == "#pragma once" else line
            continue
        header = (path.parent / include[1]).resolve()
        if header not in seen:
            yield from _lines(header, seen)
            yield f'#line {number + 1} "{path.name}"'


_LOCK = threading.Lock()
_MODULES: dict[tuple[str, str], Any] = {}  # by file and unit: cupy.RawModule
_FUNCTIONS: dict[tuple[str, int], Any] = {}  # by instance and device: cupy.RawKernel


def function(name: str, device: int) -> Any:
    """The instance `name`, compiled for `device`, which is the current one."""
    key = (name, device)
    if key not in _FUNCTIONS:
        with _LOCK:
            if key not in _FUNCTIONS:
                _FUNCTIONS[key] = _compiled(name)
    return _FUNCTIONS[key]


def _compiled(name: str) -> Any:
    xp, file, unit = cuda.cupy(), INSTANCES[name].file, INSTANCES[name].unit
    key = (file, unit)
    if key not in _MODULES:
        _MODULES[key] = xp.RawModule(code=source(file), options=OPTIONS, name_expressions=instances_of(file, unit))
    try:
        return _MODULES[key].get_function(name)
    except xp.cuda.compiler.CompileException as error:
        arch = f"sm_{xp.cuda.Device().compute_capability}"
        raise RuntimeError(f"{folder() / file} does not compile for {arch}:\n{error}") from error
