"""Builds and compiles generated source, and generates deferred functions at their first call.

The generated text contains the mode bits as literals: a global name would cost 2 ns per test.
"""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from ...backend import is_array, namespace
from ...backend.arrays.dtypes import FLOATS, FULL_FLOATS, INTEGERS
from ...backend.arrays.memory_format import row_major
from ...errors import check_bool, no_derivative
from ...modes import GRAD_OFF, INFERENCE, MODES
from ..declare.op import ALWAYS, RAW, RECORD, OpDef
from ..graph.bitmask import bits_of, mask_of
from ..graph.node import next_sequence_nr
from ..graph.storage import INFERENCE_STORAGE, OF_SUCH_A_VIEW, ONE_OF_SEVERAL, shares_memory, storage_of
from ..history.rebase import refresh
from ..saved.saved_tensor import FREED, NOTHING, SavedTensor, plain, save_output, save_value
from ..tensor import Parameter, Tensor, wrap

SCOPE: dict[str, Any] = {
    "FLOATS": FLOATS, "FREED": FREED, "FULL_FLOATS": FULL_FLOATS, "INFERENCE_STORAGE": INFERENCE_STORAGE,
    "INTEGERS": INTEGERS, "MODES": MODES, "NOTHING": NOTHING,
    "OF_SUCH_A_VIEW": OF_SUCH_A_VIEW, "ONE_OF_SEVERAL": ONE_OF_SEVERAL,
    "ORDINARY": frozenset((Tensor, Parameter)), "Parameter": Parameter, "RAW": RAW,
    "RECORD": RECORD, "SavedTensor": SavedTensor, "Tensor": Tensor, "asarray": np.asarray, "bits_of": bits_of,
    "check_bool": check_bool, "generic": np.generic, "is_array": is_array, "mask_of": mask_of, "namespace": namespace,
    "ndarray": np.ndarray, "new": object.__new__, "new_tuple": tuple.__new__, "next_sequence_nr": next_sequence_nr,
    "no_derivative": no_derivative, "numpy": np, "plain": plain, "refresh": refresh, "row_major": row_major,
    "save_output": save_output,
    "save_value": save_value, "shares_memory": shares_memory, "storage_of": storage_of, "wrap": wrap,
}  # fmt: skip
_serial = itertools.count()


class Source:
    """The lines of a function under construction; `depth` is the current indentation."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 0

    def __call__(self, line: str, indent: int = 0) -> None:
        self.lines.append("    " * (self.depth + indent) + line)

    def compile(self, name: str, extra: dict[str, Any]) -> Any:
        """Executes the text in SCOPE and `extra`, and returns its function `name`; tracebacks show the lines."""
        return self.define(name, {**SCOPE, **extra})

    def define(self, name: str, scope: dict[str, Any]) -> Any:
        """Executes the text with the globals `scope`, and returns its function `name`."""
        return self.define_as(name, scope, f"<generated {name} {next(_serial)}>")

    def define_as(self, name: str, scope: dict[str, Any], filename: str) -> Any:
        """Does the same; `filename` is what tracebacks show."""
        text = "\n".join(self.lines) + "\n"
        linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
        defined: dict[str, Any] = {}
        exec(compile(text, filename, "exec"), scope, defined)
        return defined[name]


def _first_call(*args: Any, **kwargs: Any) -> Any:
    return WRITE()(*args, **kwargs)  # type: ignore[name-defined]  # noqa: F821  a global of each deferred function


def deferred(name: str, write: Callable[[Source], dict[str, Any]]) -> Any:
    """Returns a function that is generated at its first call: `write` writes its text and returns its globals.

    A program calls few of the library's functions, and generating all of them would double the import time.
    The function object stays the same. Until the first call it has the code of `_first_call`; then it gets the defaults
    and the code of the generated function. Threads that make the first call at the same time generate equal texts.
    """
    scope: dict[str, Any] = {}
    function: Any = FunctionType(_first_call.__code__, scope, name)
    function.__qualname__ = name

    def written() -> Any:
        w = Source()
        scope.update({**SCOPE, **write(w)})
        made = w.define(name, scope)
        function.__defaults__, function.__kwdefaults__ = made.__defaults__, made.__kwdefaults__  # before the code
        function.__code__ = made.__code__
        return function

    scope["WRITE"] = written
    return function


def materialize(function: Any) -> Any:
    """Returns `function`, and generates it first if it is deferred and was not called yet."""
    return function.__globals__["WRITE"]() if getattr(function, "__code__", None) is _first_call.__code__ else function


def chosen_forward(op: OpDef) -> str:
    """The expression for the function that computes on arrays of the module `xp`."""
    return "forward" if op.cuda is None else "(forward if xp is numpy else cuda)"


def write_refresh(w: Source, name: str) -> None:
    """Writes the refresh of a stale view, before its `_fn` is read: Note [Stale views] in core/history/rebase.py."""
    w(f"if {name}._base is not None and mode == 0 and {name}._seen != {name}._storage.version: refresh({name})")


def write_result(w: Source, op: OpDef, first: str) -> None:
    """Writes the creation of the tensor `t` from `_out`. A view shares storage and version with the first input."""
    w("if type(_out) is not ndarray and isinstance(_out, generic): _out = asarray(_out)")
    if op.contiguous:
        w("elif not _out.flags.c_contiguous: _out = row_major(_out)")
    w("t = new(Tensor)")
    w("t._array = _out")
    w("t._nr = 0")
    w("t._fn = t._grad = t._base = t._storage = None")
    if not op.view:
        w(f"if mode >= {INFERENCE}: t._storage = INFERENCE_STORAGE")
    elif op.view == ALWAYS:
        _write_view(w, op, first)
    else:
        w(f"if shares_memory(_out, {first}._array):")
        w.depth += 1
        _write_view(w, op, first)
        w.depth -= 1
        w(f"elif mode >= {INFERENCE}: t._storage = INFERENCE_STORAGE")


def write_outputs(w: Source, op: OpDef, first: str) -> None:
    """Writes the creation of the tuple `ts` of tensors from the list of arrays `outs`."""
    w("ts = []")
    w("for _out in outs:")
    w.depth += 1
    write_result(w, op, first)
    w("ts.append(t)")
    w.depth -= 1
    w("ts = tuple(ts)")


def _write_view(w: Source, op: OpDef, first: str) -> None:
    made = "mode" if op.single else "mode or ONE_OF_SEVERAL"
    of_view = f"mode or ({first}._made and {first}._made | OF_SUCH_A_VIEW)" if op.single else made
    w(f"t._storage = storage = {first}._storage or storage_of({first})")
    w("if storage is not INFERENCE_STORAGE:")
    w(f"if {first}._base is None: t._base, t._made = {first}, {made}", 1)
    w(f"else: t._base, t._made = {first}._base, {of_view}", 1)
    w("t._seen = storage.version", 1)
    w(f"else: mode = mode or {GRAD_OFF}  # a view of a tensor of inference mode is not recorded")
