"""key_averages: sums of the spans of equal name, and their table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .log import LAUNCH, PRODUCT, SKIPPED

SORTS = ("cpu_time_total", "self_cpu_time_total", "cpu_time", "device_time_total", "self_device_time_total",
         "memory_usage", "self_memory_usage", "count", "launches", "products", "skipped")  # fmt: skip
OLD_SORTS = {"cuda_time_total": "device_time_total", "self_cuda_time_total": "self_device_time_total",
             "cpu_memory_usage": "memory_usage", "self_cpu_memory_usage": "self_memory_usage",
             "cuda_memory_usage": "memory_usage", "self_cuda_memory_usage": "self_memory_usage"}  # fmt: skip


class FunctionEventAvg:
    """The sum of the spans of one key. Times are in microseconds, memory in bytes.

    A span inside of one of the same key counts in `count` and in the self times, and not twice in the totals.
    """

    def __init__(self, key: str, input_shapes: Any, stack: list[str]) -> None:
        self.key = self.name = key
        self.input_shapes, self.stack = input_shapes, stack
        self.kind = ""
        self.count = self.launches = self.products = self.skipped = self.memory_usage = self.self_memory_usage = 0
        self.cpu_time_total = self.self_cpu_time_total = self.device_time_total = self.self_device_time_total = 0.0

    def add(self, event: Any, nested: bool) -> None:
        """Adds a span; `nested`: inside of another one of this key."""
        self.kind = event.kind
        self.count += 1
        self.self_cpu_time_total += event.self_cpu_time_total
        self.self_device_time_total += event.self_device_time_total
        self.self_memory_usage += event.self_memory_usage
        if not nested:
            self.cpu_time_total += event.cpu_time_total
            self.device_time_total += event.device_time_total
            self.memory_usage += event.memory_usage
            self.launches += event.counted(LAUNCH)
            self.products += event.counted(PRODUCT)
            self.skipped += event.counted(SKIPPED)

    @property
    def cpu_time(self) -> float:
        """The average time of a call."""
        return self.cpu_time_total / self.count

    @property
    def device_time(self) -> float:
        """The average time of a call on the device."""
        return self.device_time_total / self.count

    cpu_memory_usage = property(lambda self: self.memory_usage)

    def __repr__(self) -> str:
        return f"<{self.key}: {self.count} calls, {self.cpu_time_total:.3f} us, self {self.self_cpu_time_total:.3f} us>"


class EventAverages(list[FunctionEventAvg]):
    """Rows of `key_averages`, in the order in which the keys came first."""

    def table(
        self, sort_by: str | None = None, row_limit: int = 100, max_name_column_width: int = 55,
        header: str | None = None,
    ) -> str:  # fmt: skip
        """The rows as text, the largest `sort_by` first. ValueError if there is no such column.

        sort_by: cpu_time_total, self_cpu_time_total, cpu_time, device_time_total, self_device_time_total, memory_usage,
        self_memory_usage, count, launches, products, skipped, or PyTorch's names of these. row_limit: -1 for all rows.
        """
        rows = list(self)
        if sort_by is not None:
            sort_by = OLD_SORTS.get(sort_by, sort_by)
            if sort_by not in SORTS:
                raise ValueError(f"table: sort_by is one of {', '.join(SORTS)}; got {sort_by!r}")
            rows.sort(key=lambda row: -getattr(row, sort_by))
        total, total_device = (sum([getattr(r, f"self_{d}_time_total") for r in self]) for d in ("cpu", "device"))
        shown = rows if row_limit < 0 else rows[:row_limit]
        lines = _laid_out(_columns(self), shown, max_name_column_width, total, total_device)
        if header is not None:
            lines.insert(0, header)
        lines.append(f"Self CPU time total: {_time(total)}")
        if total_device:
            lines.append(f"Self CUDA time total: {_time(total_device)}")
        if len(shown) < len(rows):
            lines.append(f"{len(rows) - len(shown)} more rows")
        return "\n".join(lines)

    def total(self) -> FunctionEventAvg:
        """The sum of all rows; its totals are the self times, which overlap nowhere."""
        result = FunctionEventAvg("Total", None, [])
        for row in self:
            result.count += row.count
            result.self_cpu_time_total += row.self_cpu_time_total
            result.self_device_time_total += row.self_device_time_total
            result.self_memory_usage += row.self_memory_usage
        result.cpu_time_total, result.device_time_total = result.self_cpu_time_total, result.self_device_time_total
        result.memory_usage = result.self_memory_usage
        return result

    def __str__(self) -> str:
        return self.table()


def averages(spans: Sequence[Any], by_shape: bool, stack_depth: int) -> EventAverages:
    """Sums spans of equal name, and equal input shapes or innermost frames if these are asked for."""

    def key_of(event: Any) -> Any:
        shapes = repr(event.input_shapes) if by_shape else None
        return event.kind, event.name, shapes, tuple(event.stack[:stack_depth]) if stack_depth else ()

    rows: dict[Any, FunctionEventAvg] = {}
    for event in spans:
        key = key_of(event)
        if key not in rows:
            rows[key] = FunctionEventAvg(event.name, event.input_shapes if by_shape else None, list(key[3]))
        around = event.cpu_parent
        while around is not None and key_of(around) != key:
            around = around.cpu_parent
        rows[key].add(event, around is not None)
    return EventAverages(rows.values())


def _columns(rows: Sequence[FunctionEventAvg]) -> list[tuple[str, Any]]:
    """The columns beside the name, as (title, text of a row and the totals); those without a number are left out."""

    def share(part: float, whole: float) -> str:
        return f"{100 * part / whole:.2f}%" if whole else "0.00%"

    columns: list[tuple[str, Any]] = [
        ("Self CPU %", lambda r, t, d: share(r.self_cpu_time_total, t)),
        ("Self CPU", lambda r, t, d: _time(r.self_cpu_time_total)),
        ("CPU total", lambda r, t, d: _time(r.cpu_time_total)),
        ("CPU time avg", lambda r, t, d: _time(r.cpu_time)),
    ]
    if any(r.device_time_total for r in rows):
        columns += [
            ("Self CUDA %", lambda r, t, d: share(r.self_device_time_total, d)),
            ("Self CUDA", lambda r, t, d: _time(r.self_device_time_total)),
            ("CUDA total", lambda r, t, d: _time(r.device_time_total)),
        ]
    if any(r.memory_usage for r in rows):
        columns += [("Mem", lambda r, t, d: _bytes(r.memory_usage)),
                    ("Self Mem", lambda r, t, d: _bytes(r.self_memory_usage))]  # fmt: skip
    columns.append(("# of Calls", lambda r, t, d: str(r.count)))
    for title, name in (("Products", "products"), ("Launches", "launches"), ("Skipped", "skipped")):
        if any(getattr(r, name) for r in rows):
            columns.append((title, lambda r, t, d, name=name: str(getattr(r, name))))
    if any(r.input_shapes for r in rows):
        columns.append(("Input Shapes", lambda r, t, d: str(r.input_shapes or [])))
    return columns


def _laid_out(
    columns: Sequence[tuple[str, Any]], rows: Sequence[FunctionEventAvg], width: int, total: float, device: float
) -> list[str]:
    names = [row.key if len(row.key) <= width else f"{row.key[: width - 3]}..." for row in rows]
    cells = [[text(row, total, device) for _, text in columns] for row in rows]
    titles = [title for title, _ in columns]
    first = max(map(len, ["Name", *names]))
    widths = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]
    rule = "  ".join("-" * n for n in (first, *widths))

    def line(name: str, texts: Sequence[str]) -> str:
        return "  ".join([name.ljust(first), *(text.rjust(n) for text, n in zip(texts, widths, strict=True))])

    return [rule, line("Name", titles), rule, *map(line, names, cells), rule]


def _time(us: float) -> str:
    return f"{us / 1e6:.3f}s" if us >= 1e6 else f"{us / 1e3:.3f}ms" if us >= 1e3 else f"{us:.3f}us"


def _bytes(n: int) -> str:
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if abs(n) >= size:
            return f"{n / size:.2f} {unit}"
    return f"{n} B"
