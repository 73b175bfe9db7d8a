"""Writes out/demo.json and out/report.html: one file with everything inside, to be opened or sent as it is."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from .charts import bar_axis, line_chart
from .story import Block, Chapter, Figure

TEMPLATE = "report.html.j2"


def write(chapters: list[Chapter], about: dict[str, Any], out: Path) -> None:
    """Both files; each is whole at any time."""
    out.mkdir(parents=True, exist_ok=True)
    whole = {**about, "chapters": {chapter.name: chapter.as_dict() for chapter in chapters}}
    _replace(out / "demo.json", json.dumps(whole, indent=1) + "\n")
    _replace(out / "report.html", html(chapters, about))


def html(chapters: list[Chapter], about: dict[str, Any]) -> str:
    """The report."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.globals.update(kind=kind, shown=shown, line_chart=line_chart, bar_axis=bar_axis)
    return environment.get_template(TEMPLATE).render(chapters=chapters, **about)


def kind(block: Block) -> str:
    """Which of the template's macros shows a block."""
    return type(block).__name__.lower()


def shown(chapter: Chapter, figure: str | Figure) -> Markup | str:
    """A figure with its place in demo.json and its value, or words."""
    if isinstance(figure, str):
        return figure
    path, value = f"{chapter.name}/{figure.path}", json.dumps(chapter.value(figure.path))
    return Markup('<data data-path="{}" value="{}">{}</data>').format(path, value, escape(chapter.text(figure)))


def _replace(path: Path, text: str) -> None:
    part = path.with_name(f"{path.name}.part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)
