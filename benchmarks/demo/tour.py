"""Runs the chapters one after the other. One that fails does not keep the others from running."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator
from types import ModuleType

from .story import Advance, Chapter, Settings


def start(modules: dict[str, ModuleType]) -> list[Chapter]:
    """A chapter for each module, not run yet."""
    return [Chapter(name, module.TITLE) for name, module in modules.items()]


def run(
    chapters: list[Chapter],
    modules: dict[str, ModuleType],
    settings: Settings,
    advance: Callable[[Chapter], Advance],
) -> Iterator[Chapter]:
    """Yields each chapter at its end. Ctrl-C marks the chapter that is running, yields it, and ends the tour."""
    for chapter in chapters:
        began, chapter.state = time.perf_counter(), "running"
        try:
            story = modules[chapter.name].run(settings, advance(chapter))
            chapter.figures, chapter.blocks = story.figures, story.blocks
            chapter.state, chapter.error = ("failed", story.missed) if story.missed else ("done", "")
        except KeyboardInterrupt:
            chapter.state, chapter.error = "interrupted", "stopped by Ctrl-C"
        except Exception as error:
            chapter.state, chapter.error = "failed", f"{type(error).__name__}: {error}"
            chapter.trace = traceback.format_exc()
        chapter.seconds = time.perf_counter() - began
        yield chapter
        if chapter.state == "interrupted":
            return
