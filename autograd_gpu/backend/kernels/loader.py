"""The sources of our kernels: found, read and compiled."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..cuda import runtime
from . import constants
from .instances import INSTANCES, Parameter, instances_of
from .scalars import SCALARS, Scalars

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


class Loaded(NamedTuple):
    """An instance on one device."""

    name: str  # of the template
    call: Any  # CuPy's Function; the RawKernel around it would ask for the device at each launch
    parameters: tuple[tuple[Parameter, np.dtype, Scalars | None], ...]  # with the scalars of those passed by value


_LOCK = threading.Lock()
_MODULES: dict[tuple[str, str], Any] = {}  # by file and unit: cupy.RawModule
_LOADED: dict[tuple[str, int], Loaded] = {}  # by instance and device


def load(name: str, device: int) -> Loaded:
    """The instance `name`, compiled for `device`, which is the current one."""
    try:
        return _LOADED[name, device]
    except KeyError:
        with _LOCK:
            if (name, device) not in _LOADED:
                _LOADED[name, device] = _compiled(name)
        return _LOADED[name, device]


def _compiled(name: str) -> Loaded:
    xp, (file, kernel, parameters, unit) = runtime.cupy(), INSTANCES[name]
    key = (file, unit)
    if key not in _MODULES:
        _MODULES[key] = xp.RawModule(code=source(file), options=OPTIONS, name_expressions=instances_of(file, unit))
    try:
        call = _MODULES[key].get_function(name).kernel
    except xp.cuda.compiler.CompileException as error:
        arch = f"sm_{xp.cuda.Device().compute_capability}"
        raise RuntimeError(f"{folder() / file} does not compile for {arch}:\n{error}") from error
    read = [(each, each.dtype, SCALARS[each.dtype] if each.kind == "scalar" else None) for each in parameters]
    return Loaded(kernel, call, tuple(read))
