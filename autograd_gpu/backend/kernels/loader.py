"""Finds, reads and compiles the kernel sources."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..cuda import runtime
from . import constants
from .instances import INSTANCES, Parameter, instances_of
from .scalars import SCALARS, Scalars, Structs

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


def source(file: str, names: Iterable[str] = ()) -> str:
    """The source of `file` with our constants in front, our own headers inlined, and the functors of the instances.

    CuPy's cache key is the source text, so a changed header or formula must change it.
    """
    functors = [INSTANCES[name].functor for name in names]
    texts = [*dict.fromkeys([functor.text for functor in functors if functor is not None])]
    return "\n".join([constants.definitions(), *_lines(folder() / file, set(), texts)]) + "\n"


def _lines(path: Path, seen: set[Path], functors: Sequence[str]) -> Iterator[str]:
    """The lines of a file; `functors` take the place of an include from formulas/, a folder that does not exist."""
    seen.add(path)
    yield f'#line 1 "{path.name}"'
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        include = re.match(r'#include "(.+)"', line)
        if include is None:
            yield "" if line == "#pragma once" else line
            continue
        header = (path.parent / include[1]).resolve()
        if include[1].startswith("formulas/"):
            yield f'#line 1 "{include[1]}"'
            yield from "\n".join(functors).splitlines()
        elif header in seen:
            continue
        else:
            yield from _lines(header, seen, functors)
        yield f'#line {number + 1} "{path.name}"'


class Loaded(NamedTuple):
    """An instance compiled for one device."""

    name: str  # the template's name
    call: Any  # CuPy's Function; its RawKernel would look up the device at each launch
    parameters: tuple[tuple[Parameter, np.dtype, Scalars | Structs | None], ...]  # and what makes values of arguments


_LOCK = threading.RLock()  # a signal handler may launch kernels, too
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
    xp, (file, kernel, parameters, unit, _) = runtime.cupy(), INSTANCES[name]
    key = (file, unit)
    if key not in _MODULES:
        names = instances_of(file, unit)
        _MODULES[key] = xp.RawModule(code=source(file, names), options=OPTIONS, name_expressions=names)
    try:
        call = _MODULES[key].get_function(name).kernel
    except xp.cuda.compiler.CompileException as error:
        arch = f"sm_{xp.cuda.Device().compute_capability}"
        raise RuntimeError(f"{folder() / file} does not compile for {arch}:\n{error}") from error
    return Loaded(kernel, call, tuple([(p, p.dtype, _by_value(p)) for p in parameters]))


def _by_value(parameter: Parameter) -> Scalars | Structs | None:
    if parameter.kind == "struct":
        return Structs(parameter.dtype)
    return SCALARS[parameter.dtype] if parameter.kind == "scalar" else None
