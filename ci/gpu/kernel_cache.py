"""CuPy's cache of compiled kernels, packed into pieces that can be brought to the next machine."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from .outdir import FILE_BYTES, OutDir

PIECES = ("kernels-1.zip", "kernels-2.zip")
LONG_AGO = 946_684_800  # the year 2000
DIRECTORY, END = 46, 22  # bytes of a zip file's directory for each name, and of its end
LOCAL = 30  # bytes in front of a file in a zip file


def unpack(earlier: Path, cache: Path, say: Callable[[str], Any]) -> int:
    """Fills the cache from the pieces in a folder; answers the number of kernels.

    They look unused for long, so that packing finds those that were read since: file systems note the first
    reading after a long time, if not each.
    """
    count = 0
    for piece in PIECES:
        if not (earlier / piece).exists():
            continue
        try:
            with zipfile.ZipFile(earlier / piece) as file:
                for name in file.namelist():
                    path = cache / Path(name).name
                    path.write_bytes(file.read(name))
                    os.utime(path, (LONG_AGO, LONG_AGO))
                    count += 1
        except zipfile.BadZipFile as error:
            say(f"{earlier / piece} brings no kernels: {error}")
    return count


def stamp(cache: Path) -> tuple[int, float]:
    """What changes when a kernel comes in."""
    files = _kernels(cache)
    return len(files), max([path.stat().st_mtime for path in files], default=0.0)


def pack(cache: Path, out: OutDir, say: Callable[[str], Any], piece_bytes: int = FILE_BYTES) -> None:
    """Packs the cache into OUTDIR: those used last go first, until the pieces are full."""
    kernels = sorted(_kernels(cache), key=_last_use, reverse=True)
    left, made = kernels, 0
    for piece in PIECES:
        if not left:
            (out.folder / piece).unlink(missing_ok=True)
            continue
        data, left, count = _piece(left, piece_bytes)
        out.write(piece, data)
        made += count
    if left:
        say(f"{made} of {len(kernels)} compiled kernels are packed, those used last: the others do not fit in "
            f"{len(PIECES)} files of {piece_bytes / 2**20:g} MiB")  # fmt: skip


def _piece(kernels: Iterable[Path], most: int) -> tuple[bytes, list[Path], int]:
    """A zip file below `most` bytes, the kernels that did not fit, and how many did."""
    whole, left, directory, count = io.BytesIO(), [], END, 0
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for path in kernels:
            data, name = _read(path), path.name
            # Deflate makes nothing larger than this; how small it makes it is known only afterwards.
            largest = len(data) + len(data) // 1000 + 64 + LOCAL + len(name)
            if whole.tell() + largest + directory + DIRECTORY + len(name) >= most:
                left.append(path)
                continue
            file.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
            directory += DIRECTORY + len(name)
            count += 1
    return whole.getvalue(), left, count


def _kernels(cache: Path) -> list[Path]:
    """Whole files: CuPy writes into one called tmp... and renames it."""
    return [path for path in cache.iterdir() if path.is_file() and not path.name.startswith("tmp")]


def _read(path: Path) -> bytes:
    """A file's bytes; that we read it is no use of it."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOATIME)) as file:
        return file.read()


def _last_use(path: Path) -> float:
    stat = path.stat()
    return max(stat.st_atime, stat.st_mtime)
