"""Finds what a call depends on besides its arguments: globals, cells and attributes that its code names.

While a call is traced, `sys.setprofile` tells of each function that begins. What the code of functions outside of the
package reads or sets by name is taken down when the function begins. If it has changed at the end, the call has changed
Python state, which a replay would not do; if it changes later, the call is traced anew.
"""

from __future__ import annotations

import dis
import functools
import gc
import inspect
import sys
import sysconfig
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..core.graph.tensor_base import TensorBase
from ..core.interpret.tracing import MODULE_CALLS, MODULE_CLASSES, Reader
from .items import CONTAINERS, LONGEST, MISSING, PLAIN, AttributeItem, CellItem, Item, NoHooks, SlotItem

_PACKAGE = __name__.partition(".")[0]
_HERE = __file__.rpartition("/compilation/")[0]
_STDLIB, _SITE = sysconfig.get_path("stdlib"), ("site-packages", "dist-packages")
# The top packages whose code is none of the user's: this one, and what it calls.
LIBRARIES = {_PACKAGE, "numpy", "scipy", "cupy", "cupyx", "threadpoolctl", "opt_einsum", "ml_dtypes", "llvmlite"}
_LOADS = frozenset(("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_LOAD_FAST", "LOAD_FAST_BORROW", "STORE_FAST_LOAD_FAST",
                    "LOAD_FAST_BORROW_LOAD_FAST_BORROW"))
_GLOBALS = frozenset(("LOAD_GLOBAL", "STORE_GLOBAL", "LOAD_NAME"))
_CELLS = frozenset(("LOAD_DEREF", "STORE_DEREF", "LOAD_FROM_DICT_OR_DEREF"))
_ATTRIBUTES = frozenset(("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR"))
_NOTHING = frozenset(("PRECALL", "CACHE", "PUSH_NULL", "EXTENDED_ARG"))
_IMPORTS = frozenset(("_find_and_load", "_find_spec"))
DEEPEST = 4  # containers and attributes, one in another, in which names of attributes are looked for


def _is_library(fn: types.FunctionType) -> bool:
    return (fn.__module__ or "").partition(".")[0] in LIBRARIES or is_ours(fn.__code__.co_filename)


def is_ours(filename: str) -> bool:
    """Whether the code of a file is of this package or of Python."""
    if filename.startswith((_HERE, "<generated", "<op", "<formula", "<frozen", "<compiled")):
        return True
    return filename.startswith(_STDLIB) and not any(word in filename for word in _SITE)


@functools.lru_cache(10_000)
def chains_of(code: types.CodeType) -> tuple[tuple[tuple[str, tuple[str, ...]], ...], tuple[str, ...]]:
    """What code names: ("global x", ("a", "b")) for the global x.a.b; "cell x" and "local x" in the same way.

    The second part has the names of the attributes of anything else: variables, elements, results of calls.
    """
    found: dict[tuple[str, tuple[str, ...]], None] = {}
    loose: dict[str, None] = {}
    arguments = _arguments_of(code)
    root: str = ""
    path: tuple[str, ...] = ()
    for instruction in dis.get_instructions(code):
        name, value = instruction.opname, instruction.argval
        if name in _NOTHING:
            continue
        if name in _ATTRIBUTES:
            path = (*path, value)
            if not root:
                loose[value] = None
            continue
        if root:
            found[root, path] = None
        root, path = "", ()
        if name in _GLOBALS:
            root = f"global {value}"
        elif name in _CELLS and value in code.co_freevars:
            root = f"cell {value}"
        elif name in _CELLS or name in _LOADS:
            variables = value if isinstance(value, tuple) else (value,)
            known = [f"local {variable}" for variable in variables if variable in arguments]
            found.update(((local, ()), None) for local in known[:-1])
            root = known[-1] if variables[-1] in arguments else ""
    return tuple(found), tuple(loose)


def _imports(code: types.CodeType) -> bool:
    """Whether a module is imported while the function runs."""
    return code.co_name in _IMPORTS and code.co_filename == "<frozen importlib._bootstrap>"


def _arguments_of(code: types.CodeType) -> tuple[str, ...]:
    flags = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + flags]


class Watch:
    """Takes down, while it is entered, what the functions that run depend on."""

    def __init__(self, refuse: Callable[[str, str], None]) -> None:
        self.items: dict[tuple[int, Any], Item] = {}
        self._refuse = refuse
        self._functions: dict[int, Any] = {}
        self._made: dict[int, Any] = {}  # by id: the attributes of objects that the call itself has made
        self._ours: dict[types.CodeType, bool] = {}
        self._before: Any = None
        self._listener: Any = None
        self._imports = 0  # that are running, one inside of another

    def __enter__(self) -> Watch:
        self._before = sys.getprofile()
        self._listener = self._listening()
        sys.setprofile(self._listener)
        return self

    def __exit__(self, *exc: object) -> None:
        sys.setprofile(self._before)
        self._listener = None  # which refers to this object

    @contextmanager
    def paused(self) -> Iterator[None]:
        """While only the library's code runs, which is of no interest, nobody is told of its functions.

        Half of the time of a record would go into telling. A profiler that was set before hears of all.
        """
        pauses = self._before is None and sys.getprofile() is self._listener is not None
        if pauses:
            sys.setprofile(None)
        try:
            yield
        finally:
            if pauses:
                sys.setprofile(self._listener)

    def changed(self) -> list[str]:
        """The names of what is not what it was."""
        return [item.name for item in self.items.values() if not item.holds()]

    def function(self, fn: Any) -> None:
        """Takes down the cells of a function, and what a bound method or a partial holds."""
        given: list[Any] = []
        while isinstance(fn, functools.partial):
            given += [*fn.args, *fn.keywords.values()]
            fn = fn.func
        for part in given:
            self.function(part)
        fn = getattr(fn, "__func__", fn)
        if not isinstance(fn, types.FunctionType) or _is_library(fn):
            return
        self._content(given, f"an argument of {fn.__name__}")
        if id(fn) in self._functions:
            return
        self._functions[id(fn)] = fn
        self._content([*(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values()], f"a default of {fn.__name__}")
        for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
            self.function(self._kept(CellItem(cell, None, name)))

    def _content(self, parts: list[Any], name: str) -> None:
        """Takes down what is in the containers among some values that stay the same objects."""
        for part in parts:
            if isinstance(part, CONTAINERS):
                self._kept(Item({name: part}, name, name))

    def _listening(self) -> Callable[[types.FrameType, str, Any], None]:
        """The function that hears of events; most are none of its business, so it is short."""
        ours, before = self._ours, self._before

        def event(frame: types.FrameType, event: str, argument: Any) -> None:
            if before is not None:
                before(frame, event, argument)
            if event == "call":
                if not ours.get(frame.f_code):
                    self._begins(frame)
            elif event == "return" and self._imports and _imports(frame.f_code):
                self._imports -= 1

        return event

    def _begins(self, frame: types.FrameType) -> None:
        """A function begins of which is not known that its code is none of the user's."""
        code = frame.f_code
        self._imports += _imports(code)
        if self._imports:  # later calls do not import what this one does
            return
        if code not in self._ours:
            package = frame.f_globals.get("__name__", "").partition(".")[0]  # also of a dataclass's __init__
            ours = package in LIBRARIES or is_ours(code.co_filename)
            ours = ours or any(getattr(hook, "__code__", None) is code for hook in gc.callbacks)
            self._ours[code] = ours and code not in MODULE_CALLS
        if self._ours[code]:
            return
        if code in MODULE_CALLS:
            module = frame.f_locals["self"]
            if self.module(module, MODULE_CALLS[code]):
                self._refuse(f"{type(module).__name__} has hooks", "remove them, or do their work in forward")
        else:
            self._frame(frame, code)

    def module(self, module: Any, read: Reader) -> bool:
        """Takes down the attributes of a module; returns whether it has hooks."""
        name, attributes, hooks = read(module)
        for key in (*attributes, "forward"):
            self._kept(AttributeItem(attributes, key, f"{name}.{key}"))
        for holder in hooks:
            self._kept(NoHooks(holder, None, f"the hooks of {name}"))
        return any(hooks)

    def _frame(self, frame: types.FrameType, code: types.CodeType) -> None:
        variables = frame.f_locals
        if code.co_name == "__init__" and code.co_argcount:
            attributes = _instance_dict(variables.get(code.co_varnames[0]))
            if attributes == {}:
                self._made[id(attributes)] = attributes
        chains, loose = chains_of(code)
        seen: set[int] = set()
        for root, path in chains:
            kind, _, name = root.partition(" ")
            if kind == "global":
                if name in frame.f_globals or name not in frame.f_builtins:
                    self._follow(self._kept(Item(frame.f_globals, name, name)), path, name, loose, seen)
            elif name in variables:
                self._follow(variables[name], path, name, loose, seen)

    def _follow(self, value: Any, path: tuple[str, ...], name: str, loose: tuple[str, ...], seen: set[int]) -> None:
        """Takes down the attributes along a path, and those of what is at its end with names of `loose`."""
        self.function(value)
        for attribute in path:
            name = f"{name}.{attribute}"
            value = self._attribute(value, attribute, name)
            if value is MISSING:
                return
        self._within(value, loose, name, seen, DEEPEST)

    def _attribute(self, value: Any, attribute: str, name: str) -> Any:
        """Takes down an attribute of an object; MISSING if there is none, or nothing to take down."""
        if not _has_state(value):
            return MISSING
        items = _attribute(value, attribute, name)
        values = [item.expected if id(item.container) in self._made else self._kept(item) for item in items]
        if not values or items[-1].expected is MISSING:
            return MISSING
        self.function(values[-1])
        return values[-1]

    def _within(self, value: Any, names: tuple[str, ...], name: str, seen: set[int], depth: int) -> None:
        """Takes down attributes of an object, and of those that it holds, which code can reach by a variable."""
        if not depth or id(value) in seen or not _has_state(value):
            return
        seen.add(id(value))
        for cls, reader in MODULE_CLASSES.items():
            if isinstance(value, cls):  # its children may be called in turn, as those of a ModuleList
                self.module(value, reader)
        for part in _parts(value):
            self._within(part, names, name, seen, depth - 1)
        if not isinstance(value, (*CONTAINERS, types.FunctionType, types.BuiltinFunctionType)):
            for attribute in names:
                items = _attribute(value, attribute, name)
                if items and items[-1].expected is not MISSING:
                    held = self._attribute(value, attribute, f"{name}.{attribute}")
                    self._within(held, names, f"{name}.{attribute}", seen, depth - 1)

    def _kept(self, item: Item) -> Any:
        """The value at the first time."""
        return self.items.setdefault((id(item.container), item.key), item).expected


def _has_state(value: Any) -> bool:
    """Whether the attributes of a value can tell calls apart: it is no plain value, no tensor, and not the library."""
    if value is MISSING or isinstance(value, (TensorBase, *PLAIN, np.ndarray)):
        return False
    return not isinstance(value, types.ModuleType) or not (
        value.__name__.partition(".")[0] in LIBRARIES or is_ours(getattr(value, "__file__", None) or "<frozen")
    )


def _parts(value: Any) -> list[Any]:
    """The elements of a container; of a module of nn its children."""
    if isinstance(value, CONTAINERS):
        return list(value.values() if isinstance(value, dict) else value) if len(value) <= LONGEST else []
    children = [cls for cls in MODULE_CLASSES if isinstance(value, cls)]
    held = (_instance_dict(value) or {}).values() if children else ()
    return [part for part in held if isinstance(part, (*children, *CONTAINERS))]


def _attribute(owner: Any, attribute: str, name: str) -> list[Item]:
    """The items of an attribute of an object: that it is not in the instance, if it is not, and what the class has.

    Nothing for methods and properties of the class, whose code is seen when it runs.
    """
    attributes = _instance_dict(owner)
    kind = AttributeItem if any(isinstance(owner, cls) for cls in MODULE_CLASSES) else Item
    items = [] if attributes is None else [kind(attributes, attribute, name)]
    if attributes is not None and attribute in attributes:
        return items
    for cls in owner.__mro__ if isinstance(owner, type) else type(owner).__mro__:
        if attribute in vars(cls):
            held = vars(cls)[attribute]
            if isinstance(held, types.MemberDescriptorType):
                return [*items, SlotItem(owner, held, name)]
            return items if hasattr(held, "__get__") else [*items, Item(vars(cls), attribute, name)]
    return items


def _instance_dict(owner: Any) -> dict[str, Any] | None:
    """The attributes of an object; those of a module of nn as they are."""
    for cls, reader in MODULE_CLASSES.items():
        if isinstance(owner, cls):
            return reader(owner)[1]
    attributes = getattr(owner, "__dict__", None)
    return attributes if isinstance(attributes, dict) else None
