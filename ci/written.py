"""What the scripts that write files have in common: they write what is not current, or with --check say so."""

import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def write(texts: Mapping[Path, str], script: str) -> int:
    """Writes the texts that differ from their files; with --check names these files, and returns the exit code 1."""
    stale = [path for path, text in texts.items() if not path.exists() or path.read_text() != text]
    if "--check" not in sys.argv:
        for path in stale:
            path.write_text(texts[path])
    elif stale:
        print(f"{', '.join(str(path.relative_to(ROOT)) for path in stale)} not current; run: python {script}")
        return 1
    return 0
