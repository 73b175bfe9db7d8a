"""What lies in OUTDIR: few files, each whole at any time, since the script may be cut short at any time.

Files are written beside and renamed. Lines are appended by one write each. Results of stages that do not run are kept.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

MIB = 1 << 20
FILE_BYTES = 16 * MIB  # of each file, at most
ARCHIVE, SUMMARY, LOG, PROBE, FAILURES, DEVICE = (
    "results.tar", "summary.json", "log.txt", "probe.jsonl", "failures.jsonl", "device.json",
)  # fmt: skip
OUTCOMES = ".outcomes.jsonl"  # behind the name of a stage, in the archive: a line for each test


class OutDir:
    """The folder with the results. `scratch` is a folder that nobody else uses."""

    def __init__(self, folder: Path, scratch: Path) -> None:
        self.folder, self.parts = folder, scratch  # a part that lies there cannot be a ninth file

    def write(self, name: str, data: bytes) -> None:
        """A whole file, in place of the one of that name."""
        part = self.parts / "part"
        part.write_bytes(data)
        try:
            os.replace(part, self.folder / name)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            self.parts = self.folder  # files cannot be renamed from another file system
            self.write(name, data)

    def read(self, name: str) -> bytes:
        """A file's bytes, none if it is not there."""
        path = self.folder / name
        return path.read_bytes() if path.exists() else b""

    def seed(self, earlier: Path) -> None:
        """Takes the files of an earlier OUTDIR over that have no counterpart here."""
        for path in sorted(earlier.iterdir()):
            if path.is_file() and path.stat().st_size < FILE_BYTES and not (self.folder / path.name).exists():
                self.write(path.name, path.read_bytes())

    def drop_lines(self, name: str, unwanted: Callable[[Any], bool]) -> None:
        """Rewrites a file of JSON lines without those that are `unwanted`."""
        kept = [line for line in json_lines(self.read(name)) if not unwanted(line)]
        if kept:
            self.write(name, b"".join(json.dumps(line).encode() + b"\n" for line in kept))
        else:
            (self.folder / name).unlink(missing_ok=True)


def json_lines(data: bytes) -> Iterator[Any]:
    """The values of JSON lines; a last line that was cut short has none."""
    for line in data.splitlines():
        with contextlib.suppress(ValueError):
            yield json.loads(line)


class Summary:
    """A row for each stage, by name; written anew at each change. Rows that are there already stay."""

    def __init__(self, out: OutDir) -> None:
        self.out = out
        text = out.read(SUMMARY)
        self.rows: dict[str, dict[str, Any]] = json.loads(text) if text else {}

    def set(self, stage: str, **facts: Any) -> None:
        """The row of `stage`, which becomes the last one."""
        self.rows.pop(stage, None)
        self.rows[stage] = facts
        rows = [f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in self.rows.items()]
        self.out.write(SUMMARY, ("{\n" + ",\n".join(rows) + "\n}\n").encode())


class Archive:
    """A folder of small files that is packed into one, the smallest first until it is full."""

    def __init__(self, out: OutDir, folder: Path, say: Callable[[str], Any]) -> None:
        self.out, self.folder, self.say = out, folder, say
        folder.mkdir()
        self._packed: dict[str, int] = {}
        self._left_out: set[str] = set()
        data = out.read(ARCHIVE)
        if data:
            with tarfile.open(fileobj=io.BytesIO(data)) as tar:
                tar.extractall(folder, filter="data")
            self._packed = self._stamps()

    def pack(self) -> None:
        """Packs the folder if it has changed."""
        stamps = self._stamps()
        if stamps == self._packed:
            return
        whole = io.BytesIO()
        with tarfile.open(fileobj=whole, mode="w") as tar:
            for path in sorted(self._files(), key=lambda path: path.stat().st_size):
                data, info = path.read_bytes(), tarfile.TarInfo(path.name)
                info.size, info.mtime = len(data), int(path.stat().st_mtime)
                if whole.tell() + info.size + 64 * 1024 < FILE_BYTES:
                    tar.addfile(info, io.BytesIO(data))
                elif path.name not in self._left_out:
                    self._left_out.add(path.name)
                    self.say(f"{path.name} is left out of {ARCHIVE}, which it would make too large")
        self.out.write(ARCHIVE, whole.getvalue())
        self._packed = stamps

    def _stamps(self) -> dict[str, int]:
        return {path.name: path.stat().st_mtime_ns for path in self._files()}

    def _files(self) -> list[Path]:
        """Without those that are being written beside."""
        return [path for path in self.folder.iterdir() if path.suffix != ".part"]
