"""What the summary says of a stage, by how its process ended and by the lines that it left for its parts."""

from __future__ import annotations

import io
import re
import tarfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .outdir import ARCHIVE, OUTCOMES, json_lines
from .process import NOT_EXECUTABLE, NOT_FOUND, TIMEOUT, Ended
from .stages import SUITES

IMPORT = re.compile(r"(?:\S+: )?(?:ModuleNotFoundError|ImportError|No module named)\b.*")
WELL = ("passed", "xfailed")  # outcomes of tests that need not run again


def row(ended: Ended, asked: bool, printed: Iterable[str], parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The row of a stage: `printed` are its last lines, `parts` its JSON lines; `asked` says that the run had to end.

    The last line of a test counts. A line with "session" says why tests were not run.
    """
    last = next((line for line in reversed(list(printed)) if line.strip()), "")
    by_name = {part.get("test", number): part for number, part in enumerate(parts)}
    unrun = next((part["session"] for part in by_name.values() if "session" in part), "")
    counts = Counter(_outcome(part) for part in by_name.values() if "session" not in part)
    word, note = _verdict(ended, asked, last, unrun)
    facts = {"exit_code": ended.code, "outcome": word, "seconds": round(ended.seconds, 1), "counts": counts}
    return facts | ({"note": note} if note else {})


def _verdict(ended: Ended, asked: bool, last: str, unrun: str) -> tuple[str, str]:
    """The outcome in a word or two, and what else there is to say."""
    if asked:
        return "interrupted", ended.note
    if ended.code == TIMEOUT:
        return "timeout", ended.note
    if ended.code in (NOT_FOUND, NOT_EXECUTABLE) or (ended.code and IMPORT.fullmatch(last)):
        return "did not start", ended.note or last
    if ended.code > 128:
        return "crashed", ended.note
    if unrun:
        return "cut short", unrun
    return ("failed", last) if ended.code else ("passed", "")


def _outcome(part: dict[str, Any]) -> str:
    if part.get("earlier"):
        return "passed earlier"
    return part.get("outcome") or ("ok" if part.get("ok") else "not ok")


def passed_in(folder: Path) -> dict[str, dict[str, Any]]:
    """By stage and test: the lines of tests that passed in an earlier OUTDIR."""
    path, passed = folder / ARCHIVE, {}
    if not path.exists():
        return {}
    with tarfile.open(fileobj=io.BytesIO(path.read_bytes())) as tar:
        for name in SUITES:
            if f"{name}{OUTCOMES}" in tar.getnames():
                data = tar.extractfile(f"{name}{OUTCOMES}").read()
                lines = {line["test"]: line for line in json_lines(data) if "test" in line}
                passed[name] = {test: line for test, line in lines.items() if line["outcome"] in WELL}
    return passed
