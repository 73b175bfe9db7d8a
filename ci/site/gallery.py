"""The examples of benchmarks/examples, run at small size: a page for each, with its picture, output and source."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from .docstrings import markdown
from .pages import ROOT

FOLDER = ROOT / "benchmarks/examples"
LIMIT = 300  # seconds that an example may take beside the others
MISSING = re.compile(r"needs? [\w.-]+: (.*pip install .*)")  # how an example says that a package is missing


@dataclass
class Example:
    """A program with its docstring, the arguments of a small run, and where it draws."""

    name: str
    doc: str
    arguments: list[str]
    out: Path
    process: subprocess.Popen[str]

    @property
    def title(self) -> str:
        return self.doc.partition("\n")[0].partition(":")[0].rstrip(".")


def start(folder: Path) -> list[Example]:
    """Starts every example: a module with a `main`. Its constant GALLERY has the arguments of a small run."""
    examples = []
    for path in sorted(FOLDER.glob("*.py")):
        source = path.read_text()
        if "def main(" in source:
            doc = re.match(r'"""(.*?)"""', source, re.DOTALL)[1]
            arguments = re.search(r'^GALLERY = "(.*?)"', source, re.MULTILINE)
            words = arguments[1].split() if arguments else []
            out = folder / path.stem
            out.mkdir(parents=True, exist_ok=True)
            command = [sys.executable, "-W", "error", "-m", f"benchmarks.examples.{path.stem}", *words, "--out", out]
            process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            examples.append(Example(path.stem, doc, words, out, process))
    return examples


def finish(examples: list[Example]) -> None:
    """Writes the pages. An example that fails stops the build, except for want of a package, which its page says."""
    folder = examples[0].out.parent
    for example in examples:
        (folder / f"{example.name}.md").write_text(page(example))
    (folder / "index.md").write_text(index(examples))


def page(example: Example) -> str:
    """The page of an example, which waits for it."""
    result = outcome(example)
    pictures = [f"![{example.title}]({picture.relative_to(example.out.parent)})" for picture in pictures_of(example)]
    command = " ".join([f"python -m benchmarks.examples.{example.name}", *example.arguments])
    source = f"../../../{FOLDER.relative_to(ROOT)}/{example.name}.py"
    code = example.doc.count("\n") + 3  # the first line below the docstring
    listing = f"```{{literalinclude}} {source}\n:language: python\n:lines: {code}-\n```"
    return "\n\n".join([
        f"# {example.title}", *pictures, f"```sh\n{command}\n```", result, markdown(example.doc), "## The program",
        listing,
    ]) + "\n"  # fmt: skip


def outcome(example: Example) -> str:
    """What the run printed, or why there was none."""
    try:
        printed, errors = example.process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        example.process.kill()
        example.process.communicate()
        return f"The picture is missing: this run took longer than {LIMIT} seconds where the site was built."
    if example.process.returncode == 0:
        printed = printed.replace(f"{example.out}/", "out/")
        return f"The picture above comes from this small run, which printed:\n\n```text\n{printed}```"
    missing = MISSING.search(errors)
    if missing is None:
        raise RuntimeError(f"benchmarks/examples/{example.name}.py failed:\n{errors}")
    return f"The picture is missing where this site was built: {missing[0]}."


def pictures_of(example: Example) -> list[Path]:
    return sorted([*example.out.glob("*.png"), *example.out.glob("*.svg")])


def index(examples: list[Example]) -> str:
    """The gallery: a picture and a sentence for each example."""
    parts = ["# Examples", "Programs of `benchmarks/examples`, run at small size when this site was built. They need "
             "the extra `[demo]` of a checkout: `pip install '.[demo]'`."]
    for example in examples:
        picture = "".join(f"\n\n[![{example.title}]({path.relative_to(example.out.parent)})]({example.name}.md)"
                          for path in pictures_of(example)[:1])
        summary = markdown(example.doc.partition("\n")[0])
        parts.append(f"## {example.title}\n\n{summary} [Program and output]({example.name}.md){picture}")
    names = "\n".join(example.name for example in examples)
    return "\n\n".join([*parts, f"```{{toctree}}\n:hidden:\n\n{names}\n```"]) + "\n"
