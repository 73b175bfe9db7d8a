"""Optimizer formulas on lists of CuPy arrays: a launch per function of the formula, for all arrays of one dtype.

A `Program` stands for the array module in a formula (see formulas.py), whose arrays are then lists. It collects the
launches and all memory that they need, and runs them at the end: a step that runs out of memory has written nothing.
What has no kernel (the comparisons of Rprop) runs array by array, as in PyTorch's foreach. Intermediates are three
times the memory of the parameters, and for half types the arrays once more, in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from .. import kernels
from ..arrays.dtypes import HALF, float32
from ..cuda import runtime
from ..cuda.live_numbers import LiveNumber, placed
from .chunks import Array, Formula

List = Sequence[Array]


def run_lists(formula: Formula, lists: Sequence[List], numbers: Any) -> None:
    """Runs `formula` in place on `lists`: parameters, gradients, and each kind of state.

    Half types are computed in float32 and rounded once, as in chunks.sweep.
    """
    xp, targets, program = runtime.cupy(), lists, Program()
    if lists[0][0].dtype in HALF:
        lists = [[array.astype(float32) for array in arrays] for arrays in targets]
    work = [[xp.empty_like(array) for array in lists[0]] for _ in range(3)]
    formula(program, program.axpby, tuple(lists), tuple(work), numbers)
    if lists is not targets:
        for i, (target, results) in enumerate(zip(targets, lists, strict=True)):
            if i != 1:  # the gradient is only read
                program.each("copyto", target, results, casting="unsafe")
    program.run()


class Program:
    """Launches in their order; its methods are the functions of NumPy that formulas use, on lists."""

    def __init__(self) -> None:
        self._launches: list[Callable[[], Any]] = []

    def run(self) -> None:
        """Runs the launches, without allocating memory."""
        for launch in self._launches:
            launch()

    def axpby(self, y: List, x: List, a: float, b: float, work: List) -> None:
        """y = a x + b y."""
        if b != 1.0:
            self.multiply(y, b, y)
        self._kernel("add", y, y, x, a=a)

    def add(self, x: List, y: Any, out: List) -> List:
        if isinstance(y, Sequence):
            return self._kernel("add", out, x, y, a=1.0)
        return self._kernel("add_scalar", out, x, a=y)

    def subtract(self, x: List, y: List, out: List) -> List:
        return self._kernel("add", out, x, y, a=-1.0)

    def multiply(self, x: List, y: Any, out: List) -> List:
        return self._kernel("mul", out, x, y) if isinstance(y, Sequence) else self._kernel("mul_scalar", out, x, a=y)

    def divide(self, x: List, y: List, out: List) -> List:
        return self._kernel("div", out, x, y)

    def maximum(self, x: List, y: List, out: List) -> List:
        return self._kernel("maximum", out, x, y)

    def absolute(self, x: List, out: List) -> List:
        return self._kernel("abs", out, x)

    def sqrt(self, x: List, out: List) -> List:
        return self._kernel("sqrt", out, x)

    def clip(self, x: List, low: float, high: float, out: List) -> List:
        return self._kernel("clamp", out, x, a=low, b=high)

    def copyto(self, out: List, value: Any, where: Any = True) -> None:
        if isinstance(value, Sequence):
            self._kernel("mul_scalar", out, value, a=1.0)
        else:
            if isinstance(value, LiveNumber):
                value = placed([value]).reshape(())
            self.each("copyto", out, value, where=where)

    def less(self, x: List, y: float) -> List:
        return self._compare("less", x, y)

    def greater(self, x: List, y: float) -> List:
        return self._compare("greater", x, y)

    def sign(self, x: List, out: List) -> List:
        return self.each("sign", x, out)

    def each(self, name: str, *arguments: Any, **options: Any) -> Any:
        """The last argument, after CuPy's function `name` has run for each row; what is no list is for all rows."""

        def row(value: Any, i: int) -> Any:
            return value[i] if isinstance(value, (list, tuple)) else value

        function = getattr(runtime.cupy(), name)
        for i in range(len(arguments[0])):
            named = {key: row(value, i) for key, value in options.items()}
            self._launches.append(partial(function, *[row(value, i) for value in arguments], **named))
        return arguments[-1]

    def _compare(self, name: str, x: List, y: float) -> List:
        out = [runtime.cupy().empty(array.shape, bool) for array in x]
        return self.each(name, x, y, out)

    def _kernel(self, name: str, out: List, *inputs: List, a: float = 1.0, b: float = 0.0) -> List:
        """`out`, after the kernel `name` has run; `kernels.tensor_lists` has accepted the arrays before."""
        launch = kernels.prepared_foreach(name, out, *inputs, a=a, b=b)
        if launch is None:
            raise RuntimeError(f"foreach {name}: the arrays of an optimizer step were changed meanwhile")
        self._launches.append(launch)
        return out
