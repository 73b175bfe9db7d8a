"""Builds the documentation site in out/site, from docs/, the docstrings and the examples, and checks it.

    python -m ci.site             # what `make docs` runs
    python -m ci.site --out DIR

Exit code 1 if Sphinx warns, a link leads nowhere, a public name stands on no page, or an example fails.
"""

from __future__ import annotations

import argparse
import gc
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

try:
    import furo  # noqa: F401  Sphinx finds the theme and the parser by their names
    import myst_parser  # noqa: F401
    from sphinx.cmd.build import build_main
except ImportError as error:
    sys.exit(f"the documentation site needs {error.name}: pip install -e '.[docs]', or run `make docs`")

from . import check, gallery, pages, reference


def main(argv: Sequence[str] | None = None) -> int:
    """Builds and checks; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m ci.site", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=pages.ROOT / "out/site", help="folder of the site")
    site = parser.parse_args(argv).out.resolve()
    sources = site.with_name(f"{site.name}-sources")
    doctrees = site.with_name(f"{site.name}-doctrees")
    for folder in (site, sources, doctrees):
        shutil.rmtree(folder, ignore_errors=True)
    examples = gallery.start(sources / "gallery")
    pages.write(sources)
    names = reference.write(sources / "reference")
    gallery.finish(examples)
    settings = Path(__file__).parent
    gc.disable()  # Sphinx's trees are looked through for garbage in vain, for a third of its time; it needs 0.8 GB so
    # In one process: with several Sphinx drops the pages of a failed one without a word.
    failed = build_main(["-W", "-q", "-c", str(settings), "-d", str(doctrees), str(sources), str(site)])
    if failed:
        return failed
    faults = [f"dead link: {link}" for link in check.dead_links(site)]
    faults += [f"on no page: {name}" for name in check.missing_names(site, names)]
    print("\n".join([*faults, f"{site / 'index.html'}: {len(names)} public names"]))
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
