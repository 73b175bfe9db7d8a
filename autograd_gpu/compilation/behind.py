"""Products behind a run by blocks of rows (row_runs.py), which need all rows: gradients of weights, on all cores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..backend import counters
from ..backend.cpu import large_products, rows
from ..backend.cpu.blas import on_one_thread
from ..core.declare.op import RAW
from .emitters import product_of
from .graph import Call

Program = Any


class Product(NamedTuple):
    """The product that a line makes, as text."""

    name: str  # of the result
    function: str
    operands: str
    work: int  # multiply-adds times the size of an element


def of_gradients(program: Program, name: str, a: str, b: str, work: int) -> Product:
    """The product of the matrix a, transposed, with b."""
    return Product(name, program.bind(RAW.gemm, "gemm"), f"{a}, {b}, True, False", work)


def of_instruction(program: Program, i: int) -> Product | None:
    """The product of instruction i; None if it is none of a transposed matrix with another one."""
    node = program.nodes[i]
    if not isinstance(node, Call) or node.op.name != "gemm" or not node.attributes["ta"] or node.attributes["tb"]:
        return None
    (a, b), (out,) = node.args, node.outs
    if len(a.shape) != 2 or len(b.shape) != 2 or not a.array.size:
        return None
    work = a.array.size * b.array.nbytes // len(a.array)
    if program.emitters[i] is None:
        return of_gradients(program, program.make(out), program.argument(a), program.argument(b), work)
    product = product_of(a, b, True, False, out)
    if product is None or product.turned:
        return None
    operands = [program.transposed(a), program.argument(b), *filter(None, [program.out(out)])]
    return Product(program.make(out), program.bind(np.dot, "dot"), ", ".join(operands), work)


def write(program: Program, products: Sequence[Product]) -> None:
    """Writes lines for products that do not read each other: those that cores share, then the others at once."""
    small = [p for p in products if p.work // large_products.PER_BLOCK < 2]
    if len(small) < 2 or sum([p.work for p in small]) // large_products.PER_BLOCK < 2:
        small = []
    for p in products:
        if p not in small:
            program.line(f"{p.name} = {p.function}({p.operands})")
    if small:
        names, calls = "".join(f"{p.name}, " for p in small), ", ".join(f"({p.function}, {p.operands})" for p in small)
        program.line(f"{names}= {program.bind(_at_once, 'at_once')}({calls})")


def _at_once(*calls: tuple[Callable[..., Any], ...]) -> list[Any]:
    """What function(*arguments) gives for each call, on all cores."""
    results: list[Any] = [None] * len(calls)

    def work(i: int, j: int) -> None:
        for k in range(i, j):
            function, *arguments = calls[k]
            results[k] = function(*arguments)

    if counters.ACTIVE or not large_products.are_shared():  # observers belong to the calling thread
        work(0, len(calls))
    else:
        on_one_thread(rows.in_blocks, len(calls), 1, work)
    return results
