"""Writes docs/generated/op-coverage.md: what the tests compare with PyTorch, and where PyTorch's names live here.

It reads the op table in tests/support/op_rows and the list in tests/support/torch_names.py. `python
ci/write_coverage.py` writes the file anew; with --check it fails if it differs.
"""

from __future__ import annotations

import operator
import pathlib
import sys
import warnings
from typing import Any

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

import op_db  # noqa: E402
from op_rows import ROWS  # noqa: E402
from torch_names import NAMES  # noqa: E402

import autograd_gpu as ag  # noqa: E402
from autograd_gpu.core.declare.op import RECORD  # noqa: E402
from ci.written import write  # noqa: E402

PAGE = ROOT / "docs/generated/op-coverage.md"
DTYPES = (*op_db.FLOATS, "int64", "bool")
ORACLE = {"forward": "oracle_forward", "gradient": "oracle_grad", "second gradient": "oracle_gradgrad"}
MORE = {"dtypes": "oracle_dtypes", "bool": "oracle_bool", "jvp": "jvp", "batch": "batch"}
INTRODUCTION = f"""# What is compared with PyTorch

Written by `ci/write_coverage.py` from the op table (`tests/support/op_rows`); do not edit.

`tests/ops/test_op_oracle.py` calls every op that has one and its counterpart in PyTorch, or what its row makes of
PyTorch's functions, with the same inputs.

* *yes*: results (dtype, shape, values), gradients, second gradients agree within {op_db.AS_PYTORCH} (1 + |value|) in
  float64. *none*: the op has no derivative. *no*: not compared, and the last column says why.
* *inputs*: on how many different inputs, at least {op_db.INPUTS}; empty tensors come on top and do not count.
* *dtypes*: what the op takes, of float16, bfloat16, float32 and float64 (together *floats*), int64 and bool. The dtype
  of its result is PyTorch's where PyTorch takes that dtype, unless the last column says why not.
* *jvp*, *batch*: the words of the op's block, or *function* where it has one of its own; tangents end in an op without
  a derivative. `tests/ops/test_op_words.py` holds both against the gradient rules and against a loop.
"""
SECOND = """# Where PyTorch's names live

The package has each of these names where PyTorch has it (`torch.x` is `ag.x`), functions of tensors as methods, too.
An *op* is one block; in brackets its name, where that is another. A *function* made of ops is compared with PyTorch as
well, in `tests/ops/test_public.py` or the test that it names: on at least six inputs where it takes tensors, with both
derivatives where PyTorch has them. What draws random numbers has tests of its own.
"""


def table(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [head, ["---"] * len(head), *rows]) + "\n"


# ---- ops ----------------------------------------------------------------------------------------------


def takes(row: op_db.Row, dtype: str) -> bool:
    """Whether the op runs on a sample with its float inputs in this dtype."""
    sample = next(s for s in row.draw_in(dtype) if all(a.size for a in s.arrays))
    try:
        with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
            op_db.Call(row, sample, dtype=dtype if dtype in op_db.FLOATS else "float32").run()
    except ag.linalg.LinAlgError:
        return True  # a singular matrix: whether a BLAS notices depends on the processor
    except (RuntimeError, TypeError):
        return False
    return True


def dtypes_of(row: op_db.Row) -> str:
    floating = any(a.dtype.kind == "f" for s in row.draw() for a in s.arrays)
    known = DTYPES if floating else ("int64", "bool") if row.integer_samples is not None else ("int64",)
    return ", ".join(dtype for dtype in known if takes(row, dtype)).replace(", ".join(op_db.FLOATS), "floats")


def word(value: Any) -> str:
    return "-" if value is None else "function" if callable(value) else repr(value)


def why_not(row: op_db.Row) -> str:
    reasons: dict[str, list[str]] = {}  # reason -> what it is the reason of
    for column, check in (ORACLE | MORE).items():
        answer = row.compared(check)
        if answer not in ("yes", "none"):
            reasons.setdefault(answer, []).append(column)
    return "; ".join(f"{', '.join(columns)}: {reason}" for reason, columns in reasons.items())


def cells(row: op_db.Row) -> list[str]:
    op = row.definition
    compared = [row.compared(check) for check in ORACLE.values()]
    inputs = row.draw_different(op_db.INPUTS)
    return [
        f"`{row.op}`", *(answer if answer in ("yes", "none") else "no" for answer in compared), dtypes_of(row),
        str(sum(all(a.size for a in s.arrays) for s in inputs)), word(op.jvp), word(op.batch), why_not(row),
    ]  # fmt: skip


def family(name: str) -> str:
    return getattr(RECORD, name).__module__.rpartition(".")[2]


def ops_tables() -> str:
    head = ["op", *ORACLE, "dtypes", "inputs", "jvp", "batch", "why not"]
    rows = {row.op: cells(row) for row in ROWS}
    families = sorted({family(name) for name in rows})
    yes = [sum(row[i] == "yes" for row in rows.values()) for i in (1, 2, 3)]
    none = sum(row[2] == "none" for row in rows.values())
    summary = (f"{len(rows)} ops. Compared: the results of {yes[0]}; of the {len(rows) - none} that have a derivative "
               f"the gradients of {yes[1]} and the second gradients of {yes[2]}.\n")
    parts = [f"## {f}\n\n{table(head, [rows[n] for n in sorted(rows) if family(n) == f])}" for f in families]
    return "\n".join([summary, *parts])


# ---- names --------------------------------------------------------------------------------------------


def home(name: str) -> tuple[str, str, str]:
    """What a public name is, the file where it stands, and how to write it: an alias with its op."""
    value = operator.attrgetter(name)(ag)
    value = value.fget if isinstance(value, property) else value
    op = getattr(value, "op", None)
    if op is not None:
        alias = "" if name.rpartition(".")[2] == op.name else f" (`{op.name}`)"
        return "op", f"ops/{family(op.name)}.py", f"`{name}`{alias}"
    written = getattr(value, "__wrapped__", value)
    place = "/".join(getattr(written, "__module__", type(value).__module__).split(".")[1:]) + ".py"
    return "class" if isinstance(value, type) else "function", place, f"`{name}`"


def names_tables() -> str:
    parts = []
    for title, names in NAMES.items():
        groups: dict[tuple[str, str], list[str]] = {}
        for name in names:
            kind, place, text = home(name)
            groups.setdefault((kind, place), []).append(text)
        rows = [[kind, place, ", ".join(texts)] for (kind, place), texts in sorted(groups.items())]
        parts.append(f"## {title}\n\n{table(['what', 'where', 'names'], rows)}")
    return "\n".join(parts)


def main() -> int:
    text = f"{INTRODUCTION}\n{ops_tables()}\n{SECOND}\n{names_tables()}"
    return write({PAGE: text}, "ci/write_coverage.py")


if __name__ == "__main__":
    sys.exit(main())
