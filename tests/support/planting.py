"""Plants a fault: for the time of a test a piece of a function's source is another one, or a statement is left out."""

from __future__ import annotations
import __future__

import ast
import inspect
import textwrap
from importlib import import_module


def plant(monkeypatch, where, old, new):
    """Replaces `old`, which occurs once in the source of `where`, such as "package.module:Class.method", by `new`.

    Of an attribute that is no function, such as a flag, `old` is the value.
    """
    owner, name, held = _located(where)
    function = _function(held)
    if function is None:
        assert held == old, where
        monkeypatch.setattr(owner, name, new)
        return
    source = ast.unparse(_tree(function))
    assert source.count(old) == 1, f"{where} has {source.count(old)} times: {old}"
    _replace(monkeypatch, held, function, source.replace(old, new))


def silence(monkeypatch, where, text, which=0):
    """Leaves out the statement, of those with `text` in a literal the one with the number `which`."""
    _, _, held = _located(where)
    function = _function(held)
    tree = _tree(function)
    statement = [node for node, words in sayings(tree) if text in words][which]
    for parent in ast.walk(tree):
        for body in (getattr(parent, field, None) for field in ("body", "orelse")):
            if isinstance(body, list) and statement in body:
                body[body.index(statement)] = ast.Pass()
    _replace(monkeypatch, held, function, ast.unparse(ast.fix_missing_locations(tree)))


def sayings(tree):
    """The statements of a function that refuse, raise or return a text, each with its literals."""
    found = []
    for node in ast.walk(tree):
        refuses = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and (
            ast.unparse(node.value.func).rpartition(".")[2] in ("refuse", "refuse_traced"))
        if refuses or (isinstance(node, (ast.Return, ast.Raise)) and _is_text(node)):
            words = [c.value for c in ast.walk(node) if isinstance(c, ast.Constant) and isinstance(c.value, str)]
            found.append((node, " ".join(words)))
    return sorted(found, key=lambda pair: pair[0].lineno)


def _is_text(node):
    if isinstance(node, ast.Raise):
        return isinstance(node.exc, ast.Call) and ast.unparse(node.exc.func) == "Unfit"
    value = node.value
    return isinstance(value, ast.JoinedStr) or (isinstance(value, ast.Constant) and bool(value.value)
                                                and isinstance(value.value, str))  # fmt: skip


def _tree(function):
    tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    tree.decorator_list = []
    return tree


def _replace(monkeypatch, held, function, source):
    code, name = function.__code__, function.__name__
    outer = f"def around({', '.join(code.co_freevars)}):\n global {name}\n"  # also for itself
    text = f"{outer}{textwrap.indent(source, ' ')}\n return {name}\n"
    scope = dict(function.__globals__)
    exec(compile(text, code.co_filename, "exec", __future__.annotations.compiler_flag), scope)
    made = scope["around"](*[None] * len(code.co_freevars)).__code__
    assert made.co_freevars == code.co_freevars, "what is left out is the only use of a variable of an outer function"
    monkeypatch.setattr(function, "__code__", made)
    if hasattr(held, "cache_clear"):
        held.cache_clear()


def _located(where):
    module, _, path = where.partition(":")
    owner = import_module(module)
    *parts, name = path.split(".")
    for part in parts:
        owner = getattr(owner, part)
    return owner, name, inspect.getattr_static(owner, name)


def _function(held):
    """The function behind a property, a method of a class, or a context manager; None for a value."""
    held = getattr(held, "__func__", getattr(held, "fget", held))
    inner = inspect.unwrap(held) if callable(held) else held
    return inner if inspect.isfunction(inner) else None
