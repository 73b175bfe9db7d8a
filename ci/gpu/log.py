"""log.txt: what the stages print, of each only so much that the file stays small."""

from __future__ import annotations

from collections import deque
from typing import BinaryIO

from .outdir import LOG, MIB, OutDir

FORMER = 4 * MIB  # bytes that are kept of the log of earlier runs
HEAD, TAIL = MIB, MIB // 4  # bytes that are kept of what a stage prints
SHOWN = 25  # lines at the end of a stage, on the terminal


class Log:
    """Appends to the log. `begin` and `end` stand around what a stage prints."""

    def __init__(self, out: OutDir) -> None:
        former = out.read(LOG)
        if len(former) > FORMER:
            out.write(LOG, b"... (the beginning was dropped)\n" + former[-FORMER:])
        self._file: BinaryIO = (out.folder / LOG).open("ab", buffering=0)
        self.begin()

    def begin(self) -> None:
        """From here on the bytes of a stage are counted."""
        self._written = self._dropped = 0
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self._last = b""

    def write(self, data: bytes) -> None:
        """What a stage prints."""
        self._last = (self._last + data)[-16 * 1024 :]
        room = max(HEAD - self._written, 0)
        self._file.write(data[:room])
        self._written += len(data[:room])
        if rest := data[room:]:
            self._tail.append(rest)
            self._tail_bytes += len(rest)
        while self._tail_bytes > TAIL:
            oldest = self._tail.popleft()
            self._tail_bytes -= len(oldest)
            self._dropped += len(oldest)

    def end(self) -> list[str]:
        """Writes what was held back; the last lines of the stage."""
        if self._dropped:
            self._file.write(f"\n... ({self._dropped} bytes are left out)\n".encode())
        for data in self._tail:
            self._file.write(data)
        lines = self._last.decode(errors="replace").splitlines()
        self.begin()
        return lines[-SHOWN:]

    def close(self) -> None:
        """Nothing more is written."""
        self._file.close()

    def say(self, text: str) -> None:
        """A line of the script's own, on the terminal too."""
        print(f"== {text}", flush=True)
        self._file.write(f"== {text}\n".encode())
