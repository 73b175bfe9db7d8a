"""Docstrings and signatures as Markdown: what the pages of the API reference show of an object."""

from __future__ import annotations

import inspect
import re
from typing import Any

from autograd_gpu import foreach, linalg, ops, special
from autograd_gpu.nn import functional

from .. import write_stubs

STUBBED = {id(getattr(module, name)) for module in (ops, foreach, linalg, special, functional)
           for name in module.__all__}
SIGNS = re.compile(r"(?!^ *[*-] )[\\*_<>\[\]{}|~$]", re.MULTILINE)  # but for the bullets of a list
CODE = re.compile(r"(`+[^`]+`+)")


def markdown(doc: str | None) -> str:
    """A docstring as Markdown: `code`, lists and indented blocks as they are, examples fenced, other signs literal."""
    blocks = re.split(r"\n\s*\n", inspect.cleandoc(doc or ""))
    return "\n\n".join(example(block) if is_example(block) else text(block) for block in blocks)


def summary(doc: str | None) -> str:
    """The first paragraph of a docstring."""
    return markdown(re.split(r"\n\s*\n", inspect.cleandoc(doc or ""))[0])


def is_example(block: str) -> bool:
    return block.lstrip().startswith(">>>")


def example(block: str) -> str:
    return f"```pycon\n{inspect.cleandoc(block)}\n```"


def text(block: str) -> str:
    """Stars, underlines and brackets are arithmetic, names and shapes: no docstring has emphasis or links."""
    if all(line.startswith("    ") for line in block.splitlines()):
        return block  # code
    parts = CODE.split(block)
    parts[::2] = [SIGNS.sub(r"\\\g<0>", part) for part in parts[::2]]
    return "".join(parts)


def signature(value: Any, method: bool = False) -> str:
    """(parameters) -> result: of an op that of the stubs, of anything else its own; "(...)" if Python cannot tell."""
    if not inspect.isclass(value) and (id(value) in STUBBED or value.__module__.startswith(ops.__name__)):
        line = write_stubs.signature_of(value, method)
        return re.sub(r"^\(self(, /)?(, )?", "(", line)
    try:
        own = inspect.signature(value)
    except ValueError:
        return "(...)"
    parameters = [p.replace(annotation=bare(p.annotation), default=named(p.default)) for p in own.parameters.values()]
    if method and parameters and parameters[0].name in ("self", "cls"):
        del parameters[0]
    result = inspect.Signature.empty if inspect.isclass(value) else bare(own.return_annotation)
    return str(own.replace(parameters=parameters, return_annotation=result))


def bare(annotation: Any) -> Any:
    """An annotation without the quotes that inspect would put around its text."""
    return write_stubs.Raw(annotation) if isinstance(annotation, str) else annotation


def named(default: Any) -> Any:
    """A default as its name, where its repr is no Python: a function, a class, a marker."""
    if not repr(default).startswith("<") or default is inspect.Parameter.empty:
        return default
    name = getattr(default, "__name__", "...")
    return write_stubs.Raw(name if name.isidentifier() else "...")
