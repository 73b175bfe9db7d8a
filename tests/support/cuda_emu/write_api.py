"""Writes standin/cupy/api.json: the names and parameters of the real CuPy that the stand-in may offer.

    python tests/support/cuda_emu/write_api.py          # where CuPy is installed, with [ctk]; no GPU is needed
    python tests/support/cuda_emu/write_api.py --check  # exit status 1 if the committed table differs

A value is the list of a callable's parameters, the value of an integer constant, "ufunc", or null. It is null for what
is NumPy's own, too, whose parameters are those of the NumPy that is installed.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pathlib
import re
import sys
from typing import Any

TABLE = pathlib.Path(__file__).parent / "standin" / "cupy" / "api.json"

MODULES = (
    "cupy", "cupy._core._scalar", "cupy.cuda", "cupy.cuda.compiler", "cupy.cuda.device", "cupy.cuda.driver",
    "cupy.cuda.function", "cupy.cuda.graph", "cupy.cuda.memory", "cupy.cuda.memory_hook", "cupy.cuda.pinned_memory",
    "cupy.cuda.runtime", "cupy.cuda.stream", "cupy.exceptions", "cupy.fft", "cupy.linalg", "cupy.random", "cupyx",
    "cupyx.scipy.linalg", "cupyx.scipy.special", "cupy_backends.cuda.libs.cublas",
)  # fmt: skip
CLASSES = (
    "cupy.ndarray", "cupy.ufunc", "cupy.RawKernel", "cupy.RawModule", "cupy._core._scalar.CScalar", "cupy.cuda.Device",
    "cupy.cuda.Event", "cupy.cuda.Graph", "cupy.cuda.MemoryHook", "cupy.cuda.MemoryPointer", "cupy.cuda.MemoryPool",
    "cupy.cuda.PinnedMemoryPointer", "cupy.cuda.PinnedMemoryPool", "cupy.cuda.Stream", "cupy.cuda.ExternalStream",
    "cupy.cuda.UnownedMemory", "cupy.cuda.function.Function", "cupy.random.Generator", "cupy.random.Philox4x3210",
    "cupy.random.RandomState", "cupy.random.XORWOW",
)  # fmt: skip
NOT_OFFERED = re.compile(
    r"__(annotations|dict|module|weakref|slots|pyx_\w+|(get|set)state|(reduce|setstate)_cython"
    r"|buffer|release_buffer|firstlineno|static_attributes)__"  # from Python 3.12 and 3.13 on
)
STATUSES = (1, 2, 3, 9, 35, 100, 101, 400, 600, 700, 701, 719, 900, 901, 902, 903, 904, 905, 906, 907, 908)


def parameters(member: Any) -> list[str] | None:
    """Names of a callable's parameters, from its signature or, for compiled functions, from their docstring."""
    try:
        result = inspect.signature(member).parameters.values()
    except (TypeError, ValueError):
        return _from_docstring(member)
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return [stars.get(parameter.kind, "") + parameter.name for parameter in result]


def _from_docstring(member: Any) -> list[str] | None:
    """`name(self, int axis=-1, *, out=None) -> type` on the first line, as Cython writes it."""
    match = re.match(r"[\w.]+\((.*)\)", (member.__doc__ or "").split("\n")[0])
    if match is None:
        return None
    parts = re.sub(r"=\([^)]*\)|='[^']*'", "=", match[1]).split(",")
    names = [part.partition("=")[0].split()[-1] for part in parts if part.strip() not in ("", "*", "/")]
    names = [re.sub(r"[^\w*]", "", name) for name in names]
    return names if len(set(names)) == len(names) else None


def describe(member: Any) -> Any:
    if type(member).__name__ == "ufunc":
        return "ufunc"
    if isinstance(member, int) and not isinstance(member, bool):
        return int(member)
    if (getattr(member, "__module__", None) or "").partition(".")[0] == "numpy":
        return None
    return parameters(member) if callable(member) else None


def names(namespace: Any) -> list[str]:
    """What `namespace` offers: public names that are no modules of others, and a class's special methods."""
    special = set(dir(namespace)) - set(dir(object)) if isinstance(namespace, type) else set()
    result = {name for name in dir(namespace) if not name.startswith("_")}
    result |= {name for name in special if re.fullmatch(r"__\w+__", name) and not NOT_OFFERED.fullmatch(name)}
    return sorted(name for name in result if not _is_foreign(namespace, name))


def _is_foreign(namespace: Any, name: str) -> bool:
    try:
        member = getattr(namespace, name)
    except (AttributeError, NotImplementedError):  # a name of the table that the stand-in only lists
        return False
    return name == "annotations" or (inspect.ismodule(member) and not member.__name__.startswith("cupy"))


def namespace(path: str) -> Any:
    """The module or class `path`; by its parent's attribute, which loads the libraries that the module needs."""
    parent, _, name = path.rpartition(".")
    return getattr(importlib.import_module(parent), name) if parent else importlib.import_module(name)


def table() -> dict[str, Any]:
    cupy = importlib.import_module("cupy")
    result: dict[str, Any] = {"version": cupy.__version__}
    for path in (*MODULES, *CLASSES):
        try:
            owner = namespace(path)
        except ImportError as error:  # CuPy is installed without that library of CUDA's
            result[path] = json.loads(TABLE.read_text())[path]
            print(f"{path} stays as it was: {error}".split("\n")[0], file=sys.stderr)
            continue
        result[path] = {name: describe(getattr(owner, name)) for name in names(owner)}
        parent, _, own_name = path.rpartition(".")
        if parent in result:
            result[parent].setdefault(own_name, describe(owner))  # dir() leaves out what is loaded when it is asked for
    messages = {status: str(cupy.cuda.runtime.CUDARuntimeError(status)) for status in STATUSES}
    result["statuses"] = {str(status): message for status, message in messages.items()}
    return result


def text() -> str:
    """The table as JSON, one name a line."""
    lines = []
    for section, entries in table().items():
        if isinstance(entries, dict):
            body = ",\n".join(f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in entries.items())
            lines.append(f"{json.dumps(section)}: {{\n{body}\n}}")
        else:
            lines.append(f"{json.dumps(section)}: {json.dumps(entries)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    written = text()
    if "--check" in sys.argv:
        sys.exit(TABLE.read_text() != written)
    TABLE.write_text(written)
