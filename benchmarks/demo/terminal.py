"""The chapters in the terminal: a bar for each while they run, and then the figures of the report."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable
from rich.text import Text as RichText

from . import story
from .story import Advance, Chapter

BAR = 24  # characters of the longest one
STATES = {"done": "green", "failed": "red", "interrupted": "yellow", "not run": "dim", "running": "cyan"}


class Bars:
    """A progress bar for each chapter."""

    def __init__(self, console: Console, chapters: list[Chapter]) -> None:
        title, words = TextColumn("[bold]{task.description}"), TextColumn("{task.fields[words]}")
        self.progress = Progress(title, BarColumn(20), TimeElapsedColumn(), words, console=console)
        self.tasks: dict[str, TaskID] = {
            chapter.name: self.progress.add_task(chapter.title, total=1.0, start=False, words="")
            for chapter in chapters
        }

    def advance(self, chapter: Chapter) -> Advance:
        """Starts the chapter's bar; answers what moves it."""
        task = self.tasks[chapter.name]
        self.progress.start_task(task)
        return lambda share, words: self.progress.update(task, completed=share, words=words)

    def finish(self, chapter: Chapter) -> None:
        """The chapter's bar stops, full if it is done."""
        task = self.tasks[chapter.name]
        done = {"completed": 1.0} if chapter.state == "done" else {}
        self.progress.update(task, words=chapter.state, **done)
        self.progress.stop_task(task)


def tell(console: Console, chapter: Chapter) -> None:
    """All figures of a chapter."""
    console.rule(f"[bold]{chapter.title}[/]  [{STATES[chapter.state]}]{chapter.state}[/], {chapter.seconds:.1f} s")
    if chapter.error:
        console.print(RichText(chapter.trace or chapter.error, style="red"))
    for block in chapter.blocks:
        if isinstance(block, story.Text):
            console.print(RichText(block.words))
        elif isinstance(block, story.Cards):
            console.print(table("", ["", ""], [[words, chapter.text(figure)] for figure, words in block.items]))
        elif isinstance(block, story.Table):
            rows = [[chapter.text(cell) for cell in row] for row in block.rows]
            console.print(table(block.title, block.header, rows))
        elif isinstance(block, story.Bars):
            console.print(bars(chapter, block))
        elif isinstance(block, story.Pictures) and (listed := captions(chapter, block)):
            console.print(RichText(f"{block.title}: {listed}"))
        if getattr(block, "note", ""):
            console.print(RichText(block.note, style="dim"))


def captions(chapter: Chapter, pictures: story.Pictures) -> str:
    """The captions that have figures: without the pictures mere words say nothing."""
    items = [item.caption for item in pictures.items if not all(isinstance(part, str) for part in item.caption)]
    return "; ".join("".join(map(chapter.text, caption)) for caption in items)


def table(title: str, header: list[str] | tuple[str, ...], rows: list[list[str]]) -> RichTable:
    """A table whose first column holds words and whose others hold figures."""
    result = RichTable(title=RichText(title) if title else None, title_justify="left", title_style="bold",
                       show_header=any(header))  # fmt: skip
    for i, name in enumerate(header):
        result.add_column(name, justify="right" if i else "left")
    for row in rows:
        result.add_row(*map(RichText, row))
    return result


def bars(chapter: Chapter, block: story.Bars) -> RichTable:
    """A bar of blocks for each figure, from zero on one axis."""
    longest = max(chapter.value(bar.total.path) for _, group in block.groups for bar in group) or 1.0
    named = any(group for group, _ in block.groups)
    result = RichTable(title=RichText(block.title), title_justify="left", title_style="bold", show_header=False)
    for group, items in block.groups:
        for i, bar in enumerate(items):
            length = round(BAR * chapter.value(bar.total.path) / longest)
            words = [bar.label, chapter.text(bar.total), "█" * length or "▏"]
            result.add_row(*map(RichText, words if not named else [group if i == 0 else "", *words]))
    return result
