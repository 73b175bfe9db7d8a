"""What a chapter tells: figures, which become JSON, and blocks that show them in the report and in the terminal.

A block names its figures by their paths, so that both show what the JSON holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..report import three_digits

KIB, MIB = 1 << 10, 1 << 20
Advance = Callable[[float, str], None]  # the share of the chapter that is done, and what to say beside the bar


class Settings(NamedTuple):
    """The command line, as chapters need it."""

    device: str
    full: bool = False  # sizes for a GPU
    tiny: bool = False  # a tenth of the work: a smoke test
    seed: int = 0
    epochs: int | None = None  # of the digits; None: as the size says
    sobolev: bool = True  # the terrain's gradient is learned, too

    def size(self, usual: Any, full: Any, tiny: Any) -> Any:
        """One of three sizes."""
        return full if self.full else tiny if self.tiny else usual


# ---- figures --------------------------------------------------------------------------------


class Figure(NamedTuple):
    """A figure of the chapter: its path, such as "classes/3/recall", and how it is written."""

    path: str
    write: Callable[[Any], str] = str


def percent(value: float) -> str:
    return f"{value:.1%}".replace("%", " %")


def seconds(value: float) -> str:
    return f"{three_digits(value)} s"


def milliseconds(value: float) -> str:
    return f"{three_digits(value * 1e3)} ms"


def binary(value: float) -> str:
    return f"{three_digits(value / MIB)} MiB" if value >= MIB else f"{three_digits(value / KIB)} KiB"


def metres(value: float) -> str:
    return f"{value:.1f} m"


def error(value: float) -> str:
    return "0" if value == 0 else f"{value:.1e}"


# ---- blocks ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    words: str


@dataclass(frozen=True)
class Cards:
    """Large figures, each with what it says."""

    items: Sequence[tuple[Figure, str]]


@dataclass(frozen=True)
class Table:
    """Rows of words and figures. The shares, one for each row, colour its cells (0: not at all)."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str | Figure]]
    shades: Sequence[Sequence[float]] | None = None
    note: str = ""


class Bar(NamedTuple):
    """A bar as long as the sum of its parts. A colour is the name of a variable of the page's style."""

    label: str
    total: Figure
    colour: str
    parts: str | None = None  # the path of a list that is drawn as alternating segments


@dataclass(frozen=True)
class Bars:
    """Bars from zero on one axis, in groups."""

    title: str
    groups: Sequence[tuple[str, Sequence[Bar]]]
    unit: float = 1.0  # of the axis' ticks
    note: str = ""
    committed: bool = False  # figures of another day: set apart


class Line(NamedTuple):
    """A curve: the path of a list of numbers."""

    label: str
    path: str
    colour: str
    dashed: bool = False


@dataclass(frozen=True)
class Lines:
    """Curves over steps; a curve has a number for each, or for `every` few of them."""

    title: str
    across: str  # what is counted along the axis
    lines: Sequence[Line]
    log: bool = False
    percent: bool = False
    every: int = 1
    target: float | None = None


class Scale(NamedTuple):
    """The colours of a map, from the lowest value to the highest."""

    colours: Sequence[str]
    low: str
    high: str


class Picture(NamedTuple):
    """An image inside the page, and the words and figures below it."""

    uri: str
    alt: str
    caption: Sequence[str | Figure]
    scale: Scale | None = None


@dataclass(frozen=True)
class Pictures:
    """Images side by side."""

    title: str
    items: Sequence[Picture]
    small: bool = False  # pixels that are enlarged as squares
    note: str = ""


Block = Text | Cards | Table | Bars | Lines | Pictures


@dataclass
class Story:
    """What a chapter found."""

    figures: dict[str, Any]
    blocks: list[Block]
    missed: str = ""  # what it should have reached, if it did not


@dataclass
class Chapter:
    """A chapter of the report: its state, and its story once it has one."""

    name: str
    title: str
    state: str = "not run"  # then running, done, failed or interrupted
    seconds: float = 0.0
    error: str = ""
    trace: str = ""
    figures: dict[str, Any] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)

    def value(self, path: str) -> Any:
        """The figure at a path."""
        value: Any = self.figures
        for key in path.split("/"):
            value = value[int(key)] if isinstance(value, list) else value[key]
        return value

    def text(self, shown: str | Figure) -> str:
        """A word, or a figure as it is written."""
        return shown if isinstance(shown, str) else shown.write(self.value(shown.path))

    def as_dict(self) -> dict[str, Any]:
        """For the JSON file."""
        return {"title": self.title, "state": self.state, "seconds": self.seconds, "error": self.error,
                "figures": self.figures}
