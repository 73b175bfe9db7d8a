"""Plants a fault: for the time of a test one piece of a function's source is another one."""

from __future__ import annotations
import __future__

import inspect
import textwrap
from functools import cached_property
from importlib import import_module


def plant(monkeypatch, where, old, new):
    """Replaces `old`, which occurs once in the source of `where`, such as "package.module:Class.method", by `new`.

    Of a class or module attribute that is no function, such as a flag, `old` is the value.
    """
    owner, name, held = _located(where)
    function = _function(held)
    if function is None:
        assert held == old, where
        monkeypatch.setattr(owner, name, new)
        return
    monkeypatch.setattr(function, "__code__", edited(function, old, new))


def edited(function, old, new):
    """The code of a function with `new` in the place of `old`."""
    lines = textwrap.dedent(inspect.getsource(function)).splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith("def "))
    source = "\n".join(lines[begin:])
    assert source.count(old) == 1, f"{function.__qualname__} has {source.count(old)} times: {old}"
    code = function.__code__
    inner = textwrap.indent(source.replace(old, new), " ")
    text = f"def around({', '.join(code.co_freevars)}):\n{inner}\n return {function.__name__}\n"
    scope = dict(function.__globals__)
    exec(compile(text, code.co_filename, "exec", __future__.annotations.compiler_flag), scope)
    made = scope["around"](*[None] * len(code.co_freevars)).__code__
    assert made.co_freevars == code.co_freevars, f"{old!r} holds the only use of a variable of an outer function"
    return made


def _located(where):
    module, _, path = where.partition(":")
    owner = import_module(module)
    *parts, name = path.split(".")
    for part in parts:
        owner = getattr(owner, part)
    return owner, name, inspect.getattr_static(owner, name)


def _function(held):
    """The function behind a property, a method of a class, or a context manager; None for a value."""
    if isinstance(held, (staticmethod, classmethod)):
        held = held.__func__
    elif isinstance(held, property):
        held = held.fget
    elif isinstance(held, cached_property):
        held = held.func
    return inspect.unwrap(held) if inspect.isfunction(inspect.unwrap(held)) else None
