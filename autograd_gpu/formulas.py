"""Prints an op's formula, its derivatives and the code made of them: `python -m autograd_gpu.formulas silu --order 2`.

`--numpy` adds the NumPy code, `--llvm` the LLVM IR of native code, `--cuda` the functor of the CUDA kernel, `--program`
the instructions that every generator of code reads (docs/formulas.md).
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from .backend.formulas.cuda_code import Functor, elementwise
from .backend.formulas.derivative import times
from .backend.formulas.expression import ZERO, Expression, element, inputs_of, listing
from .backend.formulas.lowering import lowered, written_out
from .backend.formulas.native.switch import ir_or_reason
from .backend.formulas.numpy_source import source
from .core.declare.op import RECORD, REGISTRY
from .core.declare.pointwise import Family
from .core.declare.pointwise_several import Several


def families() -> dict[str, Family]:
    """The formulas of one element by the names of their ops.

    >>> from autograd_gpu.formulas import families
    >>> [*families()]  # doctest: +ELLIPSIS
    ['relu', 'sigmoid', 'tanh', 'silu', 'sine', 'softsign', ...]
    """
    return {name: family for name, family in _all().items() if isinstance(family, Family)}


def several() -> dict[str, Several]:
    """The formulas of several elements by the names of their ops.

    >>> from autograd_gpu.formulas import several
    >>> [*several()]
    ['lerp', 'addcmul', 'addcdiv']
    """
    return {name: family for name, family in _all().items() if isinstance(family, Several)}


def losses() -> dict[str, Several]:
    """The formulas of losses by the names of their ops, without inputs that may be None.

    >>> from autograd_gpu.formulas import losses
    >>> "huber_loss" in losses()
    True
    """
    made = {name: getattr(getattr(RECORD, name), "loss", None) for name in REGISTRY}
    return {name: loss.family(tuple(loss.optional)) for name, loss in made.items() if loss is not None}


def _all() -> dict[str, Any]:
    made = {name: getattr(getattr(RECORD, name), "family", None) for name in REGISTRY}
    return {name: family for name, family in made.items() if family is not None and family.name == name}


class Part(NamedTuple):
    """The value of a formula, or a derivative, and the code for it times a gradient."""

    title: str
    expression: Expression
    factor: str
    outputs: list[Expression]
    inputs: list[str]
    functor: Functor


def _parts(family: Family, order: int) -> Iterator[Part]:
    options = family.formula.chosen({})
    for n in range(order + 1):
        outputs, inputs = family.traced(((("h",) if n else (), n),), options)
        title = family.name + "'" * n + f"({family.saved if n else 'x'})"
        yield Part(title, family.derived(n), "h", outputs, inputs, family.cuda.functor(n, False, options))


def _parts_of_several(family: Several, order: int) -> Iterator[Part]:
    elements = family.formula.inputs
    for n in range(order + 1):
        for by in itertools.combinations_with_replacement(elements, n):
            derived = family.formula.derived(tuple([by.count(name) for name in elements]))
            if derived is ZERO:
                continue
            outputs = [times(element("g"), derived) if by else derived]
            inputs = [name for name in (*elements, "g") if name in inputs_of(outputs)]
            name = "".join([word.capitalize() for word in (family.name, *by)])
            title = f"{family.name}({', '.join(elements)}){''.join([f' by {b}' for b in by])}"
            yield Part(title, derived, "g", outputs, inputs, elementwise(name, outputs, inputs))


def lines(
    family: Family | Several, order: int, numpy: bool = False, program: bool = False, double: bool = False,
    llvm: bool = False, cuda: bool = False,
) -> Iterator[str]:
    """The formula and its derivatives up to `order`, and what was asked for beside them."""
    dtype = np.dtype(np.float64 if double else np.float32)
    for part in _parts(family, order) if isinstance(family, Family) else _parts_of_several(family, order):
        yield f"# {part.title}"
        yield listing({"out": written_out(part.expression)})
        code = lowered(part.outputs, part.inputs, double)
        title = f"# {f'{part.factor} * ' * (part.factor in part.inputs)}{part.title} in {dtype}"
        if program:
            yield f"\n{title}\n{code.text}"
        if numpy:
            yield f"\n{title}\n{source(code)}"
        if llvm:
            yield f"\n{title}\n{ir_or_reason(code, dtype)}"
        if cuda:
            yield f"\n{part.functor.text.rstrip()}"
        yield ""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    known: dict[str, Family | Several] = {**families(), **several(), **losses()}
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
