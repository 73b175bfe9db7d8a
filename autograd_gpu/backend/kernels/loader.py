"""Finds, reads and compiles the kernel sources."""

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

# CuPy appends -ftz=true, and NVRTC uses the last such option, so float32 and bfloat16 subnormals (below 1.2e-38) are
# flushed to zero, as in all of CuPy's kernels. Float16 subnormals are preserved, since they are computed in float32.
OPTIONS = ("-std=c++17",)


def folder() -> Path:
    """The folder of the .cu files: in an installed package, next to it in a checkout; else FileNotFoundError."""
    package = Path(__file__).resolve().parents[2]
    for path in (package / "_kernels", package.parent / "kernels"):
        if path.is_dir():
            return path
    raise FileNotFoundError(
        f"the CUDA sources are missing: neither {package / '_kernels'} nor {package.parent / 'kernels'} exists; "
        "install autograd_gpu again, or use a full checkout"
    )


def source(file: str) -> str:
    """The source of `file` with our constants in front and our own headers inlined.

    CuPy's cache key is the source text, so a changed header must change it.
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
    """An instance compiled for one device."""

    name: str  # the template's name
    call: Any  # CuPy's Function; its RawKernel would look up the device at each launch
    parameters: tuple[tuple[Parameter, np.dtype, Scalars | None], ...]  # with the scalars of those passed by value


_LOCK = threading.RLock()  # a finalizer that runs while a kernel compiles may launch another one
_MODULES: dict[tuple[str, str], Any] = {}  # by file and unit: cupy.RawModule
_LOADED: dict[tuple[str, int], Loaded] = {}  # by instance and device


def load(name: str, device: int) -> Loaded:
    """The instance `name` compiled for `device`, the current device. RuntimeError if it does not compile."""
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
    read = [(p, p.dtype, SCALARS[p.dtype] if p.kind == "scalar" else None) for p in parameters]
    return Loaded(kernel, call, tuple(read))
