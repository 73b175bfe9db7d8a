"""Writes standin/cupy/loops.json: the dtypes that each of CuPy's ufuncs and reductions takes and gives.

    python tests/support/cuda_emu/write_loops.py          # where CuPy is installed; no GPU is needed
    python tests/support/cuda_emu/write_loops.py --check  # exit status 1 if the committed table differs

A ufunc that has a public name stands under it ("cupy.add", "cupyx.scipy.special.erf"), the others and the reductions
under CuPy's own ("cupy_where", "cupy_sum"). A loop is written as `ufunc.types` writes it, "E" being bfloat16; "??->!"
is one that CuPy refuses with an error of its own. Loops given `dtype=` alone follow under the name with " dtype".
"""

from __future__ import annotations

import gc
import importlib
import json
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

TABLE = pathlib.Path(__file__).parent / "standin" / "cupy" / "loops.json"
MODULES = ("cupy", "cupyx", "cupyx.scipy.special")


def written(loops: Any) -> list[str]:
    """The loops of one ufunc or reduction, in the order in which CuPy tries them."""
    return [f"{chars(op.in_types)}->{chars(op.out_types) if op.error_func is None else '!'}" for op in loops.ops]


def chars(types: tuple) -> str:
    return "".join(np.dtype(t).char for t in types)


def public() -> Iterator[tuple[str, Any]]:
    for path in MODULES:
        module = importlib.import_module(path)
        for name in sorted(dir(module)):
            if type(getattr(module, name)).__name__ == "ufunc":
                yield f"{path}.{name}", getattr(module, name)


def private(known: set[int]) -> Iterator[tuple[str, Any]]:
    """Those that have no public name. Cython keeps most of them out of its modules; the garbage collector has them all.

    Where two share a name neither is listed: the stand-in needs none of these.
    """
    kinds = ("ufunc", "_SimpleReductionKernel")
    results = [x for x in gc.get_objects() if type(x).__name__ in kinds and type(x).__module__.startswith("cupy")]
    names = [x.name for x in results if id(x) not in known]
    for x in sorted(results, key=lambda x: x.name):
        if id(x) not in known and names.count(x.name) == 1:
            yield x.name, x


def table() -> dict[str, Any]:
    named = dict(public())
    entries = [*named.items(), *private({id(ufunc) for ufunc in named.values()})]
    result: dict[str, Any] = {"version": importlib.import_module("cupy").__version__}
    for name, owner in entries:
        result[name] = written(owner._ops)
        if getattr(owner, "_out_ops", None) is not None:
            result[f"{name} dtype"] = written(owner._out_ops)
    return result


def text() -> str:
    """The table as JSON, one name a line."""
    lines = [f"{json.dumps(name)}: {json.dumps(loops)}" for name, loops in table().items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    new = text()
    if "--check" in sys.argv:
        sys.exit(TABLE.read_text() != new)
    TABLE.write_text(new)
