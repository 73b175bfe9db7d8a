"""einsum: sums of products named by subscripts.

    1. Subscripts: the ellipsis becomes letters, the output is inferred.
    2. Each operand alone: repeated subscripts take the diagonal, a dimension of size 1 that another operand
       broadcasts is dropped, and dimensions that neither the other operands nor the output have are summed.
    3. Pairs, in the order of least work: `contract` multiplies two operands and sums the dimensions not needed later.
    4. The dimensions of the last operand are permuted into the order of the output.

A `contract` is one batched matrix product, and so is each of its gradients: a contraction of the output's gradient with
the other operand.
"""

from __future__ import annotations

import functools
import math
import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import backend
from ...core.extend import MULTILINEAR, PROMOTE, Tensor, defop, public
from ..reduction.sum import sum as sum_over
from ..shape.diagonal import diagonal
from ..shape.permute import permute
from ..shape.reshape import expand, reshape

Operand = tuple[Tensor, str]  # and its subscripts

# ---- two operands ------------------------------------------------------------------------------------


def _parts(equation):
    """(a, b, out, batch, rows, columns, summed): the subscripts of the operands, the output and each kind."""
    inputs, out = equation.split("->")
    a, b = inputs.split(",")
    batch = [s for s in a if s in b and s in out]
    rows = [s for s in a if s not in b]
    columns = [s for s in b if s not in a]
    return a, b, out, batch, rows, columns, [s for s in a if s in b and s not in out]


def _arrangement(subscripts, sizes, *groups):
    """(order, shape) to permute an operand's dimensions into the order of `groups` and fold each group into one."""
    order = [subscripts.index(s) for group in groups for s in group]
    shape = tuple([math.prod([sizes[s] for s in group]) for group in groups])
    return (None if order == sorted(order) else order), shape


@functools.lru_cache(maxsize=512)
def _layout(equation, a_shape, b_shape):
    """How `contract` arranges a and b, whether it sums, and how it arranges the result."""
    a, b, out, batch, rows, columns, summed = _parts(equation)
    sizes = dict(zip(a + b, a_shape + b_shape, strict=True))
    lead = [batch] if batch or not summed else []
    inner = [summed] if summed else [()]  # without a sum: a column times a row
    left = _arrangement(a, sizes, *lead, rows, *inner)
    right = _arrangement(b, sizes, *lead, *inner, columns)
    letters = [*batch, *rows, *columns]
    order = [letters.index(s) for s in out]
    return left, right, bool(summed), tuple([sizes[s] for s in letters]), None if order == sorted(order) else order


def _arranged(x, order, shape):
    x = x if order is None else x.transpose(order)
    return x if x.shape == shape else x.reshape(shape)


def _contract(xp, a, b, *, equation):
    left, right, summed, shape, order = _layout(equation, a.shape, b.shape)
    a, b = _arranged(a, *left), _arranged(b, *right)
    out = backend.matmul(a, b) if summed else a * b
    out = out if out.shape == shape else out.reshape(shape)
    return out if order is None else out.transpose(order)


def _left_equation(equation):
    a, b, out, *_ = _parts(equation)
    return f"{out},{b}->{a}"


def _right_equation(equation):
    a, b, out, *_ = _parts(equation)
    return f"{a},{out}->{b}"


def batch_contract(F, n, batched, a, b, *, equation):
    """The batch dimension gets a subscript of its own."""
    first, second, out, *_ = _parts(equation)
    i = next(s for s in map(chr, range(ord("a"), 0x110000)) if s not in equation)
    return F.contract(a, b, f"{i * batched[0]}{first},{i * batched[1]}{second}->{i * any(batched)}{out}")


@defop
class contract:
    """The einsum of two operands, with each subscript at most once per operand and in two of: first, second, output.

    >>> from autograd_gpu.ops.linalg.einsum import contract
    >>> contract(ag.ones(2, 3), ag.ones(4, 3), equation="ik,jk->ji").shape
    (4, 2)
    """

    forward = _contract
    def grad_a(F, g, b, equation): return F.contract(g, b, _left_equation(equation))
    def grad_b(F, g, a, equation): return F.contract(a, g, _right_equation(equation))
    types = PROMOTE
    jvp, batch = MULTILINEAR, batch_contract


# ---- subscripts --------------------------------------------------------------------------------------


def _check_letters(equation: str) -> None:
    for i, s in enumerate(equation.replace("...", "   ")):
        if s not in string.ascii_letters + ",-> ":
            raise RuntimeError(f"einsum(): invalid subscript given at index {i} in the equation string, "
                               "subscripts must be in [a-zA-Z]")


@functools.lru_cache(maxsize=512)
def _parse(equation: str, shapes: tuple[tuple[int, ...], ...]) -> tuple[list[str], str]:
    """The subscripts of each operand and of the output, with letters for the ellipsis."""
    _check_letters(equation)
    left, arrow, right = equation.replace(" ", "").partition("->")
    inputs = left.split(",")
    if len(inputs) != len(shapes):
        how = "more" if len(shapes) > len(inputs) else "fewer"
        raise RuntimeError(f"einsum(): {how} operands were provided than specified in the equation")
    spare = "".join(s for s in string.ascii_letters if s not in equation)
    hidden = [_ellipsis_rank(i, subs, len(shape)) for i, (subs, shape) in enumerate(zip(inputs, shapes, strict=True))]
    letters = spare[: max(hidden, default=0)]  # the ellipses broadcast: they share their last dimensions
    operands = [subs.replace("...", letters[len(letters) - n :]) for subs, n in zip(inputs, hidden, strict=True)]
    if arrow:
        output = right.replace("...", letters)
    else:
        flat = "".join(inputs).replace(".", "")
        output = letters + "".join(sorted(s for s in set(flat) if flat.count(s) == 1))
    _check_output(output, operands)
    return operands, output


def _ellipsis_rank(i: int, subscripts: str, ndim: int) -> int:
    """The number of dimensions of operand i in its ellipsis."""
    named = len(subscripts.replace("...", ""))
    if "..." in subscripts and named <= ndim:
        return ndim - named
    if named != ndim:
        tail = "and no ellipsis was given" if "..." not in subscripts else "even with the ellipsis empty"
        raise RuntimeError(f"einsum(): the number of subscripts in the equation ({named}) does not match the number of "
                           f"dimensions ({ndim}) for operand {i} {tail}")
    return 0


def _check_output(output: str, inputs: list[str]) -> None:
    for s in output:
        if output.count(s) > 1:
            raise RuntimeError(f"einsum(): output subscript {s} appears more than once in the output")
        if not any(s in subs for subs in inputs):
            raise RuntimeError(f"einsum(): output subscript {s} does not appear in the equation for any input operand")


def _sizes(inputs: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
    """The size of every subscript; 1 broadcasts."""
    sizes: dict[str, int] = {}
    for i, (subs, shape) in enumerate(zip(inputs, shapes, strict=True)):
        for s, size in zip(subs, shape, strict=True):
            seen = sizes.setdefault(s, size)
            if size != seen and 1 not in (size, seen):
                raise RuntimeError(f"einsum(): subscript {s} has size {size} for operand {i} which does not broadcast "
                                   f"with previously seen size {seen}")
            sizes[s] = size if seen == 1 else seen
    return sizes


# ---- one operand -------------------------------------------------------------------------------------


def _without_repeats(x: Tensor, subscripts: str) -> Operand:
    """The diagonal of every pair of dimensions that share a subscript."""
    for s in dict.fromkeys(subscripts):
        while subscripts.count(s) > 1:
            first = subscripts.index(s)
            second = subscripts.index(s, first + 1)
            if x.shape[first] != x.shape[second]:
                raise RuntimeError(f"einsum(): subscript {s} is repeated for one operand but the sizes don't match, "
                                   f"{x.shape[second]} != {x.shape[first]}")
            x = diagonal(x, 0, first, second)
            subscripts = subscripts[:first] + subscripts[first + 1 : second] + subscripts[second + 1 :] + s
    return x, subscripts


def _without_broadcast(x: Tensor, subscripts: str, sizes: dict[str, int]) -> Operand:
    """x without dimensions of size 1 that broadcast to another operand."""
    kept = "".join(s for s, size in zip(subscripts, x.shape, strict=True) if size == sizes[s])
    return x if kept == subscripts else reshape(x, tuple(sizes[s] for s in kept)), kept


def _reduced(x: Tensor, subscripts: str, needed: str) -> Operand:
    """x summed over the subscripts that are not needed."""
    drop = [i for i, s in enumerate(subscripts) if s not in needed]
    return sum_over(x, tuple(drop)) if drop else x, "".join(s for s in subscripts if s in needed)


def _finished(x: Tensor, subscripts: str, output: str, sizes: dict[str, int]) -> Tensor:
    """x with its dimensions in the order of the output; dimensions of size 1 in every operand are restored."""
    order = [subscripts.index(s) for s in output if s in subscripts]
    x = permute(x, tuple(order)) if order != sorted(order) else x
    if len(order) < len(output):
        x = reshape(x, tuple(sizes[s] if s in subscripts else 1 for s in output))
    shape = tuple(sizes[s] for s in output)
    return x if x.shape == shape else expand(x, shape)


# ---- the public function -----------------------------------------------------------------------------


def _from_sublists(args: Sequence[Any]) -> tuple[str, tuple[Any, ...]]:
    """einsum(x, [0, 1], y, [1, 2], [0, 2]) as an equation and operands."""
    alphabet = string.ascii_uppercase + string.ascii_lowercase  # in their order, from which the output is inferred

    def letters(sublist: Sequence[Any]) -> str:
        if not all(s is Ellipsis or 0 <= s < len(alphabet) for s in sublist):
            raise ValueError("einsum(): subscript in subscript list is not within the valid range [0, 52)")
        return "".join("..." if s is Ellipsis else alphabet[s] for s in sublist)

    pairs = len(args) // 2
    equation = ",".join(letters(args[2 * i + 1]) for i in range(pairs))
    if len(args) % 2:
        equation += "->" + letters(args[-1])
    return equation, tuple([args[2 * i] for i in range(pairs)])


@functools.cache
def _searcher() -> Any:
    """opt_einsum if it is installed: it finds good orders for many operands faster."""
    try:
        import opt_einsum
    except ImportError:
        return None
    return opt_einsum


@functools.lru_cache(maxsize=256)
def _path(inputs: tuple[str, ...], output: str, sizes: tuple[tuple[str, int], ...]) -> list[tuple[int, ...]]:
    """The operands that each step contracts, by a search for the least work; the result is appended.

    By opt_einsum if it is installed, as in PyTorch, else by NumPy's older version of it.
    """
    if len(inputs) < 3:
        return [tuple(range(len(inputs)))]
    size = dict(sizes)
    equation = f"{','.join(inputs)}->{output}"
    shapes = [tuple(size[s] for s in subs) for subs in inputs]
    if _searcher() is not None:
        return _searcher().contract_path(equation, *shapes, shapes=True)[0]
    search = "optimal" if len(inputs) < 6 else "greedy"
    operands = [np.broadcast_to(np.float32(0), shape) for shape in shapes]
    return np.einsum_path(equation, *operands, optimize=search)[0][1:]


@functools.lru_cache(maxsize=512)
def _one_product(equation: str, shapes: tuple[tuple[int, ...], ...]) -> str | None:
    """The equation for `contract`, if two operands need no other step: no diagonal, broadcasting or separate sum."""
    (a, b), output = _parse(equation, shapes)
    if len(set(a)) < len(a) or len(set(b)) < len(b):
        return None
    sizes = _sizes((a, b), shapes)
    broadcasts = any(sizes[s] != size for subs, shape in zip((a, b), shapes, strict=True)
                    for s, size in zip(subs, shape, strict=True))  # fmt: skip
    alone = [s for s in a + b if (s in a) != (s in b) and s not in output]
    return None if broadcasts or alone else f"{a},{b}->{output}"


def _multiplied(a: Operand, b: Operand, needed: str, output: str) -> Operand:
    """Step 3 for one pair: subscripts neither in `needed` nor in the output are summed."""
    kept = needed + output
    x, x_subs = _reduced(*a, kept + b[1])
    y, y_subs = _reduced(*b, kept + x_subs)
    out = "".join(s for s in dict.fromkeys(x_subs + y_subs) if s in kept)
    if sorted(out) == sorted(output):
        out = output
    return contract(x, y, equation=f"{x_subs},{y_subs}->{out}"), out


@public()
def einsum(equation: Any, *operands: Any) -> Tensor:
    """The sum of products given by `equation`, such as "bij,bjk->bik"; subscripts are letters, "..." broadcasts.

    Also einsum(x, [0, 1], y, [1, 2], [0, 2]), and operands as one list.

    >>> ag.einsum("ij,jk->ik", ag.ones(2, 3), ag.ones(3, 2))
    tensor([[3., 3.],
            [3., 3.]])
    """
    if not isinstance(equation, str):
        equation, operands = _from_sublists((equation, *operands))
    elif len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    if not operands:
        raise RuntimeError("einsum(): must provide at least one operand")
    shapes = tuple([x.shape for x in operands])
    if len(operands) == 2 and (one := _one_product(equation, shapes)) is not None:
        return contract(*operands, one)
    inputs, output = _parse(equation, shapes)
    left = [_without_repeats(x, subs) for subs, x in zip(inputs, operands, strict=True)]
    sizes = _sizes([subs for _, subs in left], [x.shape for x, _ in left])
    left = [_without_broadcast(x, subs, sizes) for x, subs in left]
    for step in _path(tuple(subs for _, subs in left), output, tuple(sizes.items())):
        chosen = [left.pop(i) for i in sorted(step, reverse=True)]
        while len(chosen) > 1:
            a, b = chosen.pop(), chosen.pop()
            others = "".join(subs for _, subs in left + chosen)
            chosen.append(_multiplied(a, b, others, output))
        left += chosen
    x, subs = _reduced(*left[0], output)
    return _finished(x, subs, output, sizes)
