"""Checks the built site: every link leads to a file and a heading of it, every public name stands on a page."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """What an HTML page links to, and the ids that it has."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.ids: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name in ("href", "src") and value:
                self.targets.append(value)
            elif name == "id" and value:
                self.ids.add(value)


def dead_links(site: Path) -> list[str]:
    """"page: link" for each link inside the site that leads nowhere."""
    pages = {path: Page(path) for path in sorted(site.rglob("*.html"))}
    dead = []
    for path, page in pages.items():
        for target in dict.fromkeys(page.targets):
            url = urlsplit(target)
            if url.scheme or url.netloc:
                continue
            file = (path.parent / unquote(url.path)).resolve() if url.path else path
            if not file.exists() or (url.fragment and file in pages and unquote(url.fragment) not in pages[file].ids):
                dead.append(f"{path.relative_to(site)}: {target}")
    return dead


def missing_names(site: Path, names: list[str]) -> list[str]:
    """The public names that no page of the reference describes."""
    pages = [Page(path) for path in sorted((site / "reference").glob("*.html"))]
    ids = set[str]().union(*[page.ids for page in pages])
    return [name for name in names if name not in ids]
