"""Optimizer formulas on lists of CuPy arrays: a launch per function of the formula, for all arrays of one dtype.

`LISTS` stands for the array module and `axpby` for the function of that name in a formula (see formulas.py), whose
arrays are then lists. What has no kernel (the comparisons of Rprop) runs array by array, as in PyTorch's foreach.
Intermediates are three times the memory of the parameters, and for half types the arrays once more, in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import kernels
from ..arrays.dtypes import HALF, float32
from ..cuda import runtime
from .chunks import Array, Formula

List = Sequence[Array]


def run_lists(formula: Formula, lists: Sequence[List], numbers: Any) -> None:
    """Runs `formula` in place on `lists`: parameters, gradients, and each kind of state.

    Half types are computed in float32 and rounded once, as in chunks.sweep.
    """
    xp, given = runtime.cupy(), lists
    if lists[0][0].dtype in HALF:
        lists = [[array.astype(float32) for array in arrays] for arrays in given]
    work = [[xp.empty_like(array) for array in lists[0]] for _ in range(3)]
    formula(LISTS, axpby, tuple(lists), tuple(work), numbers)
    if lists is not given:
        for i, (target, results) in enumerate(zip(given, lists, strict=True)):
            if i != 1:  # the gradient is only read
                _each("copyto", target, results, casting="unsafe")


def axpby(y: List, x: List, a: float, b: float, work: List) -> None:
    """y = a x + b y."""
    if b != 1.0:
        LISTS.multiply(y, b, y)
    _launch("add", y, y, x, a=a)


class _Lists:
    """The functions of NumPy that formulas use, on lists."""

    def add(self, x: List, y: Any, out: List) -> List:
        return _launch("add", out, x, y, a=1.0) if isinstance(y, Sequence) else _launch("add_scalar", out, x, a=y)

    def subtract(self, x: List, y: List, out: List) -> List:
        return _launch("add", out, x, y, a=-1.0)

    def multiply(self, x: List, y: Any, out: List) -> List:
        return _launch("mul", out, x, y) if isinstance(y, Sequence) else _launch("mul_scalar", out, x, a=y)

    def divide(self, x: List, y: List, out: List) -> List:
        return _launch("div", out, x, y)

    def maximum(self, x: List, y: List, out: List) -> List:
        return _launch("maximum", out, x, y)

    def absolute(self, x: List, out: List) -> List:
        return _launch("abs", out, x)

    def sqrt(self, x: List, out: List) -> List:
        return _launch("sqrt", out, x)

    def clip(self, x: List, low: float, high: float, out: List) -> List:
        return _launch("clamp", out, x, a=low, b=high)

    def copyto(self, out: List, value: Any, where: Any = True) -> None:
        if isinstance(value, Sequence):
            _launch("mul_scalar", out, value, a=1.0)
        else:
            _each("copyto", out, value, where=where)

    def less(self, x: List, y: float) -> List:
        return _each("less", x, y)

    def greater(self, x: List, y: float) -> List:
        return _each("greater", x, y)

    def sign(self, x: List, out: List) -> List:
        return _each("sign", x, out)


LISTS = _Lists()


def _launch(name: str, out: List, *inputs: List, a: float = 1.0, b: float = 0.0) -> List:
    """`out` after kernels.foreach, for lists of which `kernels.tensor_lists` has made a table before."""
    if not kernels.foreach(name, out, *inputs, a=a, b=b):
        raise RuntimeError(f"foreach {name}: the arrays of an optimizer step were changed or captured during the step")
    return out


def _each(name: str, first: List, *others: Any, **options: Any) -> list[Array]:
    """The results of CuPy's function `name` for each row; what is no list is the same for all rows."""
    def row(value: Any, i: int) -> Any:
        return value[i] if isinstance(value, (list, tuple)) else value

    function = getattr(runtime.cupy(), name)
    return [
        function(array, *[row(value, i) for value in others], **{key: row(value, i) for key, value in options.items()})
        for i, array in enumerate(first)
    ]
