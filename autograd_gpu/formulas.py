"""Prints an op's formula, its derivatives and the code made of them: `python -m autograd_gpu.formulas silu --order 2`.

`--numpy` adds the NumPy code, `--llvm` the LLVM IR of native code, `--cuda` the functor of the CUDA kernel, `--program`
the instructions that every generator of code reads (docs/formulas.md).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .backend.formulas.expression import listing
from .backend.formulas.lowering import written_out
from .backend.formulas.native.switch import ir_or_reason
from .backend.formulas.numpy_source import source
from .core.declare.op import RECORD, REGISTRY
from .core.declare.pointwise import Family


def families() -> dict[str, Family]:
    """The formulas by the names of their ops.

    >>> from autograd_gpu.formulas import families
    >>> [*families()]  # doctest: +ELLIPSIS
    ['relu', 'sigmoid', 'tanh', 'silu', 'sine', 'softsign', ...]
    """
    made = {name: getattr(getattr(RECORD, name), "family", None) for name in REGISTRY}
    return {name: family for name, family in made.items() if family is not None and family.name == name}


def lines(
    family: Family, order: int, numpy: bool = False, program: bool = False, double: bool = False, llvm: bool = False,
    cuda: bool = False,
) -> Iterator[str]:
    """The formula and its derivatives up to `order`, and what was asked for beside them."""
    options = family.formula.chosen({})
    for n in range(order + 1):
        symbol = family.name + "'" * n + f"({family.saved if n else 'x'})"
        yield f"# {symbol}"
        yield listing({"out": written_out(family.derived(n))})
        lowered = family.program(((("h",) if n else (), n),), options, double)
        dtype = np.dtype(np.float64 if double else np.float32)
        title = f"# {'h * ' * bool(n)}{symbol} in {dtype}"
        if program:
            yield f"\n{title}\n{lowered.text}"
        if numpy:
            yield f"\n{title}\n{source(lowered)}"
        if llvm:
            yield f"\n{title}\n{ir_or_reason(lowered, dtype)}"
        if cuda:
            yield f"\n{family.cuda.functor(n, False, options).text.rstrip()}"
        yield ""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    known = families()
    text = "An op from a formula, its derivatives, and the code made of them."
    parser = argparse.ArgumentParser(prog="python -m autograd_gpu.formulas", description=text)
    parser.add_argument("op", choices=sorted(known), help="the op")
    parser.add_argument("--order", type=int, default=1, help="the highest derivative, 1 by default")
    parser.add_argument("--numpy", action="store_true", help="print the NumPy code, by blocks and for few elements")
    parser.add_argument("--llvm", action="store_true", help="print the LLVM IR of native code")
    parser.add_argument("--program", action="store_true", help="print the lowered programs")
    parser.add_argument("--cuda", action="store_true", help="print the CUDA code, for both types")
    parser.add_argument("--double", action="store_true", help="for float64 instead of float32")
    chosen: Any = parser.parse_args(argv)
    forms = chosen.numpy, chosen.program, chosen.double, chosen.llvm, chosen.cuda
    print("\n".join(lines(known[chosen.op], chosen.order, *forms)).rstrip())
    return 0


if __name__ == "__main__":
    sys.exit(main())
