"""Code for passes behind an activation: its derivatives and what they multiply, in one program."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ...backend.arrays.dtypes import float64
from ...backend.formulas.derivative import derivative, times
from ...backend.formulas.expression import Expression, constant, element
from ...backend.formulas.jets import Form, Groups, added_up, rows_behind
from ...backend.formulas.lowering import lowered
from ...backend.formulas.numpy_code import NumpyCode
from ..nn.linear_activation import ACTIVATIONS, by_result

MOST = 32  # arrays that a program reads and writes: a ufunc takes 64 operands at most
Code = tuple[NumpyCode, tuple[np.ndarray, ...]]


def activation_code(
    name: str, activation: str, parameters: tuple[Any, ...], dtype: np.dtype, elements: list[str],
    outputs: Callable[[Expression, Expression, Expression], list[Expression]],
) -> Code:  # fmt: skip
    """The code for outputs(f1, f2, slope) of the saved values and further elements, and its numbers.

    f1 and f2 are the derivatives of the activation, and slope that of f1 by the saved values.
    """
    family = ACTIVATIONS[activation]
    options, numbers = family.chosen(dict(zip(family.attributes, parameters, strict=True)))
    f1, slope = family.derived(1, options), family.derived(2, options)
    results = outputs(f1, times(slope, f1) if by_result(activation) else slope, slope)
    code = NumpyCode(f"{name} {activation}", lowered(results, [family.saved, *elements], dtype == float64), dtype)
    return code, code.numbers(**numbers)


@functools.lru_cache(256)
def push_code(
    activation: str, parameters: tuple[Any, ...], dtype: np.dtype, d: int, groups: Groups, arriving: int
) -> Code | None:
    """From the saved values and the rows of a stream before the activation the rows behind it; None if it has many."""
    if d + len(groups) + arriving > MOST:
        return None
    names = [f"t{k}" for k in range(arriving)]
    form, t = Form(d, groups, arriving > d, True), [element(name) for name in names]

    def rows(f1: Expression, f2: Expression, _: Expression) -> list[Expression]:
        return rows_behind(form, f1, f2, t)

    return activation_code("stream behind", activation, parameters, dtype, names, rows)


@functools.lru_cache(256)
def terms_code(activation: str, parameters: tuple[Any, ...], dtype: np.dtype, o: int, d: int) -> Code | None:
    """From the saved values, o adjoints a and d tangents t the products a f1, and a f2 t_i t_j for i <= j; or None."""
    if 2 * o + d + o * d * (d + 1) // 2 > MOST:
        return None
    names = [f"a{k}" for k in range(o)] + [f"t{k}" for k in range(d)]
    a, t = [element(name) for name in names[:o]], [element(name) for name in names[o:]]

    def results(f1: Expression, f2: Expression, _: Expression) -> list[Expression]:
        bent = [[x * f2 * y for y in t] for x in a]
        return [x * f1 for x in a] + [lines[i] * t[j] for lines in bent for i in range(d) for j in range(i, d)]

    return activation_code("local terms of", activation, parameters, dtype, names, results)


@functools.lru_cache(256)
def terms_back_code(
    activation: str, parameters: tuple[Any, ...], dtype: np.dtype, o: int, d: int, arrives: bool,
    needed: tuple[bool, bool, bool],
) -> Code | None:  # fmt: skip
    """The gradients of what `terms_code` computes for the o adjoints, the saved values and the d tangents; or None.

    From the saved values; for each adjoint and i <= j, the sum b of the gradients of the terms (i, j) and (j, i);
    adjoints a; tangents t; and if `arrives` the gradients l of the products a f1. needed: which are computed.
    """
    names = [f"b{k}_{i}_{j}" for k in range(o) for i in range(d) for j in range(i, d)] + [f"a{k}" for k in range(o)]
    names += [f"t{k}" for k in range(d)] + [f"l{k}" for k in range(o * arrives)]
    if 1 + len(names) + o + 1 + d > MOST:
        return None
    saved = ACTIVATIONS[activation].saved

    def results(f1: Expression, f2: Expression, slope: Expression) -> list[Expression]:
        a, t, left = ([element(f"{letter}{k}") for k in range(n)] for letter, n in (("a", o), ("t", d), ("l", o)))
        # By adjoint and tangent j: the sum over i of b t_i.
        pulled = [[added_up([element(f"b{k}_{min(i, j)}_{max(i, j)}") * t[i] for i in range(d)]) for j in range(d)]
                  for k in range(o)]  # fmt: skip
        curved = [added_up([p * y for p, y in zip(row, t, strict=True)]) * constant(0.5) for row in pulled]
        of_f1 = [x * y for x, y in zip(left, a, strict=True)] if arrives else []
        of_f2 = added_up([x * y for x, y in zip(curved, a, strict=True)]) * derivative(f2, saved)
        bent = [x * f2 for x in a]
        outputs = [
            [left[k] * f1 + curved[k] * f2 if arrives else curved[k] * f2 for k in range(o)],
            [added_up(of_f1) * slope + of_f2 if arrives else of_f2],
            [added_up([pulled[k][j] * bent[k] for k in range(o)]) for j in range(d)],
        ]
        return [x for some, need in zip(outputs, needed, strict=True) if need for x in some]

    return activation_code("gradients of local terms of", activation, parameters, dtype, names, results)
