"""The pages of the API reference: one per public module, those of the top module by the folders of its ops."""

from __future__ import annotations

import inspect
import itertools
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import autograd_gpu as ag
from autograd_gpu.ops import binding

from .docstrings import markdown, signature, summary
from .modules import TOP, Module, home_of, is_described, public_modules

OPS = f"{TOP}.ops."
FOLDERS = {  # and files of autograd_gpu/ops, and the titles of their pages
    "creation": "Making tensors", "elementwise": "Elementwise operations", "reduction": "Reductions",
    "shape": "Shapes and views", "indexing": "Indexing", "linalg": "Products and decompositions",
    "sorting": "Sorting and searching", "nn": "Layers as functions", "random": "Random samples",
    "inplace": "Writing in place", "properties": "Questions about tensors",
}  # fmt: skip
TASKS = {  # pages by task: modules by prefix, "ops" for the folders above; what none of them takes comes last
    "Tensors and operations": ("Tensor", "ops", f"{TOP}.linalg", f"{TOP}.special", f"{TOP}.foreach"),
    "Derivatives": (f"{TOP}.autograd", f"{TOP}.func"),
    "Networks and training": (f"{TOP}.nn", f"{TOP}.optim", f"{TOP}.amp", f"{TOP}.utils.data"),
    "Memory": (f"{TOP}.hooks", f"{TOP}.utils.checkpoint"),
    "Random numbers and distributions": (f"{TOP}.random", f"{TOP}.distributions"),
    "CUDA": (f"{TOP}.cuda",),
    "Everything else": ("",),
}
FEW = 12  # names that a page shows without headings
MANY = 150  # links that would fill a phone's screen more than once


@dataclass
class Page:
    """A page of the reference: what it is about, and its names with their full names."""

    name: str
    title: str
    intro: str
    entries: dict[str, Any] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)  # names that are described elsewhere, and where


def write(folder: Path) -> list[str]:
    """Writes reference/*.md into a folder; returns the full names of what the pages must describe."""
    modules = public_modules()
    homes = home_of(modules)
    pages = [tensor_page(), *op_pages(modules[TOP]), *[module_page(module, homes) for module in modules.values()]]
    pages = [page for page in pages if page.entries or page.links]
    folder.mkdir(parents=True, exist_ok=True)
    for page in pages:
        (folder / f"{page.name}.md").write_text(render(page, homes))
    (folder / "index.md").write_text(index(pages))
    return [f"{path}.{name}" for path, module in modules.items() for name, value in module.names.items()
            if not inspect.ismodule(value) and homes.get(id(value), f"{path}.{name}") == f"{path}.{name}"]


# ---- pages ----------------------------------------------------------------------------------


def tensor_page() -> Page:
    """Tensor with its methods."""
    return Page("Tensor", "Tensor", "", {f"{TOP}.Tensor": ag.Tensor})


def op_pages(top: Module) -> list[Page]:
    """The ops of the top module, by the folder of their source."""
    pages = {folder: Page(f"ops.{folder}", title, module_intro(f"{OPS}{folder}")) for folder, title in FOLDERS.items()}
    for name, value in top.own.items():
        if is_op(value):
            pages[source_of(top, name, value).removeprefix(OPS).split(".")[0]].entries[f"{TOP}.{name}"] = value
    return list(pages.values())


def module_page(module: Module, homes: dict[int, str]) -> Page:
    """The names of a module, except for the ops of the top module and Tensor, which have pages of their own."""
    page = Page(module.path, f"`{module.path}`", markdown(module.module.__doc__))
    is_top = module.path == TOP
    for name, value in module.names.items():
        if name in module.own and not (is_top and (is_op(value) or value is ag.Tensor)):
            page.entries[f"{module.path}.{name}"] = value
        elif name not in module.own and not inspect.ismodule(value):
            page.links[name] = homes[id(value)]
    return page


def is_op(value: Any) -> bool:
    """Whether the value comes from a folder of autograd_gpu/ops. The old types are classes that are made there."""
    return is_described(value) and value.__module__.startswith(OPS) and not inspect.isclass(value)


def source_of(top: Module, name: str, value: Any) -> str:
    """The module in which an op is written; an in-place one stands with the op that it is derived from."""
    base = top.names.get(name.removesuffix("_"))
    return (base if is_op(base) else value).__module__


def module_intro(name: str) -> str:
    return markdown(sys.modules[name].__doc__)


# ---- Markdown -------------------------------------------------------------------------------


def index(pages: list[Page]) -> str:
    """The contents of the reference: a list of pages for each task."""
    rest = {page.name: page for page in pages}
    parts = ["# API reference\n\nBy task; the search box finds every name. `ag` is `autograd_gpu` everywhere."]
    for task, prefixes in TASKS.items():
        taken = [name for prefix in prefixes for name in rest if f"{name}.".startswith(f"{prefix}." if prefix else "")]
        lines = "\n".join(dict.fromkeys(taken))
        parts.append(f"## {task}\n\n```{{toctree}}\n:maxdepth: 1\n\n{lines}\n```")
        for name in dict.fromkeys(taken):
            del rest[name]
    return "\n\n".join(parts) + "\n"


def render(page: Page, homes: dict[int, str]) -> str:
    """A page as Markdown."""
    parts = [f"# {page.title}", page.intro]
    files = sorted({file_of(name, value) for name, value in page.entries.items()})
    grouped = len(page.entries) > FEW and len(page.entries) > 2 * len(files)
    for file in files if grouped else [None]:
        entries = {name: value for name, value in page.entries.items() if file in (None, file_of(name, value))}
        if grouped:
            parts += heading(file)
        if len(entries) > 1:
            parts.append(jumps(entries))
        parts += [entry(name, value, homes) for name, value in entries.items()]
    if page.links:
        parts.append("## Described elsewhere" if page.entries else "All of these names are described elsewhere:")
        parts.append("\n".join(f"* `{name}`: {{py:obj}}`{home}`" for name, home in page.links.items()))
    return "\n\n".join(part for part in parts if part) + "\n"


def jumps(names: Iterable[str], prefix: str = "") -> str:
    """Links to names on the same page, which the sidebar does not have. An in-place function stands below its own."""
    listed = list(names)
    shown = [name for name in listed if name.removesuffix("_") == name or name.removesuffix("_") not in listed]
    links = [f'<a href="#{prefix}{name}">{name.rpartition(".")[2]}</a>' for name in shown]
    line = f'<p class="names">{" ".join(links)}</p>'
    return line if len(links) < MANY else f"<details><summary>{len(links)} names</summary>{line}</details>"


def file_of(name: str, value: Any) -> str:
    """The module in which an entry is written, "" for a constant. An in-place op stands with the op that it writes."""
    if not is_described(value):
        return ""
    base = getattr(ag, name.rpartition(".")[2].removesuffix("_"), value)
    return (base if value.__module__.startswith(OPS) and is_described(base) else value).__module__


def heading(file: str) -> list[str]:
    """The heading of what a module has, and what its docstring says first."""
    if file in ("", TOP, f"{TOP}.cuda"):
        return ["## Old types of tensors" if file else "## Constants and types"]
    return [f"## {file.rpartition('.')[2].replace('_', ' ').capitalize()}", summary(sys.modules[file].__doc__)]


def entry(name: str, value: Any, homes: dict[int, str]) -> str:
    """The directive of one name."""
    if not is_described(value):
        return directive("data", name, f"`{value!r}`")
    if not inspect.isclass(value):
        return directive("function", f"{name}{signature(value)}", markdown(value.__doc__))
    members = dict(members_of(value, homes))
    parts = [markdown(value.__doc__), *([jumps(members, f"{name}.")] if len(members) > FEW else [])]
    parts += [method(key, part, homes) for key, part in members.items()]
    return directive("class", f"{name}{signature(value)}", "\n\n".join(parts), 5)


def directive(kind: str, head: str, body: str, fence: int = 4, option: str = "") -> str:
    ticks = "`" * fence  # more than the parts of the body have
    return f"{ticks}{{py:{kind}}} {head}\n{option}\n{body.strip()}\n{ticks}"


def members_of(cls: type, homes: dict[int, str]) -> Iterator[tuple[str, Any]]:
    """Public members with docstrings, up to the first base that is described itself."""
    bases = itertools.takewhile(lambda base: base is cls or id(base) not in homes, cls.__mro__)
    parts: dict[str, Any] = {}
    for base in bases:
        if base.__module__.startswith(TOP):
            for key, part in vars(base).items():
                parts.setdefault(key, part)
    for key, part in sorted(parts.items()):
        if not key.startswith("_") and is_member(part) and function_of(part).__doc__:
            yield key, part


def is_member(part: Any) -> bool:
    return isinstance(part, (property, staticmethod, classmethod)) or inspect.isfunction(part)


def function_of(part: Any) -> Any:
    return part.__func__ if isinstance(part, (staticmethod, classmethod)) else part


def method(name: str, part: Any, homes: dict[int, str]) -> str:
    """The directive of a member of a class. A method that is also a function shows the first paragraph of it."""
    value = function_of(part)
    if isinstance(part, property):
        return directive("property", name, markdown(value.__doc__))
    home = homes.get(id(value)) or homes.get(id(getattr(ag, name, None)) if name in binding.METHODS else 0)
    body = f"{summary(value.__doc__)} See {{py:obj}}`{home}`." if home else markdown(value.__doc__)
    option = f":{type(part).__name__}:\n" if isinstance(part, (staticmethod, classmethod)) else ""
    return directive("method", f"{name}{signature(value, not isinstance(part, staticmethod))}", body, option=option)
