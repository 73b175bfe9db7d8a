"""What `benchmarks.kernels` measures of our CUDA kernels: for each, a call on arguments of a given size.

A new family is one entry of FAMILIES, under the name that docs/kernels.md has for it: a function that makes the
arguments and answers a Work, the call and the arrays that it has to move. Results that the kernel can write into memory
that it is given are such arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from autograd_gpu.backend import kernels

COLS = 1024


class Work(NamedTuple):
    """A call, and the matrices that any program must read or write for it, each once."""

    call: Callable[[], Any]
    moved: Sequence[Any]

    @property
    def bytes(self) -> int:
        return sum(array.nbytes for array in self.moved)


class Make:
    """Arguments for one call: `xp` is CuPy, or NumPy if they are only looked at."""

    def __init__(self, xp: Any, dtype: np.dtype, nbytes: int) -> None:
        self.xp, self.dtype = xp, dtype
        self.rows, self.cols = max(nbytes // (COLS * dtype.itemsize), 1), COLS

    def matrix(self, dtype: np.dtype | None = None) -> Any:
        """Numbers between -2 and 2, `nbytes` of them in the dtype that is measured."""
        return self._numbers((self.rows, self.cols), dtype)

    def row(self, dtype: np.dtype | None = None) -> Any:
        """A vector along the columns, such as a bias."""
        return self._numbers((self.cols,), dtype)

    def column(self, dtype: np.dtype | None = None) -> Any:
        """A number for each row."""
        return self._numbers((self.rows,), dtype)

    def _numbers(self, shape: tuple[int, ...], dtype: np.dtype | None) -> Any:
        numbers = (self.xp.arange(math.prod(shape), dtype=np.int32) % 1021).astype(np.float32)
        return (numbers / 255 - 2).astype(dtype or self.dtype).reshape(shape)


def _forward(name: str) -> Callable[[Make], Work]:
    def family(make: Make) -> Work:
        x, bias, out = make.matrix(), make.row(), make.matrix()
        return Work(lambda: kernels.bias_activation(name, x, bias, out), (x, out))

    return family


def _backward(name: str) -> Callable[[Make], Work]:
    def family(make: Make) -> Work:
        g, saved, bias, dx = make.matrix(), make.matrix(), make.row(), make.matrix()
        return Work(lambda: kernels.bias_activation_backward(name, g, saved, bias, dx), (g, saved, dx))

    return family


def _double_backward(name: str, curved: bool) -> Callable[[Make], Work]:
    def family(make: Make) -> Work:
        gg, g, saved, bias, ggb = make.matrix(), make.matrix(), make.matrix(), make.row(), make.row()
        moved = (gg, g, saved, gg, g) if curved else (gg, saved, gg)  # the results have the shapes of gg and g
        return Work(lambda: kernels.bias_activation_double_backward(name, gg, ggb, g, saved, bias), moved)

    return family


def _column_sum(make: Make) -> Work:
    x, out = make.matrix(), make.row()
    return Work(lambda: kernels.column_sum(x, out), (x,))


def _row_sum(make: Make) -> Work:
    x, out = make.matrix(), make.column()
    return Work(lambda: kernels.row_sum(x, out), (x,))


FAMILIES: dict[str, Callable[[Make], Work]] = {
    "bias_activation of relu": _forward("relu"),
    "bias_activation of gelu": _forward("gelu"),
    "bias_activation of tanh": _forward("tanh"),
    "bias_activation_backward of relu": _backward("relu"),
    "bias_activation_backward of gelu": _backward("gelu"),
    "bias_activation_double_backward of relu": _double_backward("relu", curved=False),
    "bias_activation_double_backward of tanh": _double_backward("tanh", curved=True),
    "column_sum": _column_sum,
    "row_sum": _row_sum,
}
