"""Writes the tables of docs/interop.md: NumPy's functions on tensors, the arguments that they take, and the way out.

`python ci/write_interop.py` writes them anew; with --check it fails if they differ. The parameters are those of the
oldest NumPy of pyproject.toml: another NumPy may have more.
"""

import inspect
import re
import sys
import textwrap
from pathlib import Path

import numpy as np
from numpy.testing.overrides import get_overridable_numpy_array_functions

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from autograd_gpu.ops import binding  # noqa: E402
from autograd_gpu.ops.numpy_api import answers, arranging, elements, products, reductions  # noqa: E402
from autograd_gpu.ops.numpy_api.protocol import FUNCTIONS, face  # noqa: E402
from autograd_gpu.ops.numpy_api.refused import NEAREST  # noqa: E402
from ci.written import write  # noqa: E402

PAGE = ROOT / "docs" / "interop.md"
NUMPY = {f"{f.__module__}.{f.__name__}".removeprefix("numpy."): f for f in get_overridable_numpy_array_functions()}
SECTIONS = {
    "Reductions and scans": reductions.REDUCTIONS, "Joining, cutting, rearranging": arranging.ARRANGING,
    "Products and linear algebra": products.PRODUCTS, "Elements, differences, order, selection": elements.ELEMENTS,
    "Answers in Python's values": answers.ANSWERS,
}  # fmt: skip


def recorded() -> str:
    parts = []
    for title, rows in SECTIONS.items():
        lines = [f"### {title}", "", "| NumPy | as | arguments |", "| --- | --- | --- |"]
        for name, row in rows.items():
            taken = face(NUMPY[name], name).taken
            order = [*inspect.signature(row.run).parameters]
            by_name = [p for p in order if p in taken] or [p for p in order if p not in ("args", "operands")]
            arguments = ", ".join([*by_name, *(["out"] if "out" in taken else [])]) or "arrays"
            note = f"; {row.note}" if row.note else ""
            lines.append(f"| `np.{name}` | `ag.{row.use}` | {arguments}{note} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def ufuncs() -> str:
    names = sorted(name for name in binding._UFUNCS if isinstance(getattr(np, name, None), np.ufunc))
    return textwrap.fill(", ".join(f"`{name}`" for name in names), 118)


def refused() -> str:
    lines = [f"| `np.{name}` | {way} |" for name, way in sorted(NEAREST.items())]
    return "\n".join(["| NumPy | in its place |", "| --- | --- |", *lines])


BLOCKS = {"recorded": recorded, "ufuncs": ufuncs, "refused": refused}


def main() -> int:
    text = PAGE.read_text()
    for name, block in BLOCKS.items():
        pattern = re.compile(rf"(<!-- {name}:begin -->\n).*?(<!-- {name}:end -->)", re.DOTALL)
        text = pattern.sub(lambda marks, block=block: f"{marks[1]}{block()}\n{marks[2]}", text)
    return write({PAGE: text}, "ci/write_interop.py")


if __name__ == "__main__":
    assert set(FUNCTIONS) == {name for rows in SECTIONS.values() for name in rows}
    sys.exit(main())
