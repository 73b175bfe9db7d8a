"""The guides as sources of the site: docs/*.md and what they link to, with links that hold there.

docs/index.md is the site's first page, and its lists are the contents of the sidebar. A page that no list names is
added to the section OTHERS, so that a new guide needs no entry anywhere.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INDEX = "docs/index.md"
OTHERS = "Guides"
BUILT = """
## Examples and reference

* [Examples](gallery/index.md): programs with pictures
* [API reference](reference/index.md): every public name, by task
"""  # a section of the site alone, below OTHERS
LINK = re.compile(r"(?<=\]\()(?!\w+:)([^)#\s]+)((?:#[^)\s]*)?)(?=\))")
CODE = re.compile(r"(^ *```.*?^ *```$|`[^`\n]+`)", re.DOTALL | re.MULTILINE)


def sources() -> list[str]:
    """The guides and all Markdown files that they link to, by their paths in the repository."""
    pages = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").rglob("*.md"))]
    for page in pages:
        pages += [path for path in links(page) if path.endswith(".md") and path not in pages and path != "README.md"]
    return pages


def links(page: str) -> list[str]:
    """The files of the repository that a page links to."""
    parts = CODE.split((ROOT / page).read_text())
    return [resolve(page, match[1]) for part in parts[::2] for match in LINK.finditer(part)]


def resolve(page: str, link: str) -> str:
    return os.path.normpath(Path(page).parent / link)


def place(path: str) -> str:
    """Where a file of the repository stands in the site."""
    return INDEX.removeprefix("docs/") if path == "README.md" else path.removeprefix("docs/")


def write(folder: Path) -> None:
    """Copies the pages into a folder, with the files that they link to."""
    pages = sources()
    for page in pages:
        target = folder / place(page)
        target.parent.mkdir(parents=True, exist_ok=True)
        text = with_links(page, (ROOT / page).read_text(), lambda path: copied(path, folder))
        target.write_text(with_contents(text, pages) if page == INDEX else text)


def copied(path: str, folder: Path) -> bool:
    """Copies a file that is no page; False for a folder, which a site cannot show."""
    source, target = ROOT / path, folder / place(path)
    if source.is_file() and not path.endswith(".md"):
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
    return source.is_file()


def with_links(page: str, text: str, is_shown: Callable[[str], bool]) -> str:
    """The text with links from the page's place in the site; what it cannot show loses its link."""

    def replaced(match: re.Match[str]) -> str:
        path = resolve(page, match[1])
        target = place(path) if is_shown(path) else ""
        return (os.path.relpath(target, Path(place(page)).parent) if target else "") + match[2]

    parts = CODE.split(text)
    parts[::2] = [re.sub(r"\[([^\]]*)\]\(\)", r"\1", LINK.sub(replaced, part)) for part in parts[::2]]
    return "".join(parts)


def sections(text: str) -> dict[str, dict[str, str]]:
    """The lists of the first page: below each heading the pages, with their titles."""
    parts = re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    return {heading: {page: title for title, page in re.findall(r"^\* \[(.*?)\]\((.*?)\)", body, re.MULTILINE)}
            for heading, body in parts}


def unlisted(text: str, pages: list[str]) -> list[str]:
    """The pages that no list of the first page names, apart from that page."""
    named = {"index.md", *[page for group in sections(text).values() for page in group]}
    return [place(page) for page in pages if place(page) not in named]


def with_contents(text: str, pages: list[str]) -> str:
    """The first page with the unlisted pages and the built ones, and its lists as the contents of the sidebar."""
    lines = "".join(f"* [{title_of(page, pages)}]({page})\n" for page in unlisted(text, pages))
    head, guides, tail = re.split(rf"(^## {OTHERS}\n.*?\n)(?=\n## )", text, maxsplit=1, flags=re.DOTALL | re.MULTILINE)
    text = head + guides + lines + BUILT + tail
    trees = [tree(heading, group) for heading, group in sections(text).items()]
    return "\n\n".join([text, *trees]) + "\n"


def title_of(page: str, pages: list[str]) -> str:
    """The heading of a page, given by its place in the site."""
    source = next(path for path in pages if place(path) == page)
    return (ROOT / source).read_text().partition("\n")[0].removeprefix("# ")


def tree(heading: str, pages: dict[str, str]) -> str:
    names = "\n".join(f"{title} <{page.removesuffix('.md')}>" for page, title in pages.items())
    return f"```{{toctree}}\n:hidden:\n:caption: {heading}\n\n{names}\n```"
