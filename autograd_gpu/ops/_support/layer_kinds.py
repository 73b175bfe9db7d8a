"""What layers of second derivatives with the same shapes share: how they are computed, by NumPy and by native code."""

from __future__ import annotations

import functools
import math
from typing import Any, Protocol

import numpy as np

from ...backend.cpu import chains, streams
from ...backend.formulas.native import switch
from ...backend.formulas.native.eager_layers import Arrays, Described, stacked
from ...backend.formulas.native.layers import Layer, Linear, Part, Terms
from ...backend.formulas.native.loops import Unfit
from ..jet_factors import factors
from ..jets import argument
from .layer_code import Code

Array = Any


class Product(Protocol):
    """The product that begins a layer, (n, height, h): computed by blocks of rows, or there already."""

    by_rows: Array

    def compute(self, i: int, j: int) -> None: ...


class LinearKind:
    """Kind of `layer_linear` for streams of this shape: arrays are those of `Linear`."""

    def __init__(self, stream: tuple[int, ...], dtype: np.dtype) -> None:
        self.height, self.dtype = math.prod(stream[1:-1]), dtype

    def described(self, inputs: Arrays, arrays: Arrays) -> Described | None:
        """A layer that is put off, for native code; None where there is none (yet), or inputs are not contiguous."""
        if not chains.puts_off() or not self._is_ready():
            return None
        for x in inputs:
            if x is not None and not x.flags.c_contiguous:
                return None
        return Described(self, arrays)

    def _is_ready(self) -> bool:
        return switch.is_on()

    def part(self, arrays: Arrays) -> Part:
        """The layer with its arrays as stacks of matrices."""
        a, b, before = arrays
        return Linear(None, (), stacked(a, self.height), b, stacked(before, self.height))


@functools.lru_cache(256)
def linear_kind(stream: tuple[int, ...], weight: tuple[int, ...], dtype: np.dtype) -> LinearKind:
    """The kind for inputs of these shapes."""
    check_linear(stream, weight)
    return LinearKind(stream, dtype)


def check_linear(stream: tuple[int, ...], weight: tuple[int, ...]) -> None:
    """RuntimeError if inputs of these shapes do not fit together."""
    if len(stream) < 2 or len(weight) != 2 or weight[1] != stream[-1]:
        raise RuntimeError("layer_linear needs a stream (S, ..., k) and a weight (h, k), got shapes "
                           f"{stream}, {weight}")


class _Kind(LinearKind):
    """What layers with the same shapes and attributes have in common: `code` behind the product, or None."""

    def __init__(self, saved: tuple[int, ...], dtype: np.dtype, code: Code | None, how: tuple[Any, ...]) -> None:
        super().__init__((0, *saved), dtype)
        self.code, self.how = code, how

    def _is_ready(self) -> bool:
        return self.code is not None and self.code[0].kernel(self.dtype) is not None

    def _native(self) -> tuple[Any, tuple[Any, ...]]:
        """The native code and its numbers; Unfit if there is none."""
        code, numbers = self.code  # type: ignore[misc]  # else it is not described
        kernel = code.kernel(self.dtype)
        if kernel is None:  # it was turned off meanwhile
            raise Unfit
        return kernel, numbers[: kernel.numbers]


class JetKind(_Kind):
    """Kind of `layer_jet`: arrays are those of `Layer`; `how` has activation, parameters, d and groups."""

    def part(self, arrays: Arrays) -> Layer:
        (a, b, before, saved, bias, after), height = arrays, self.height
        return Layer(*self._native(), stacked(a, height), b, stacked(before, height), saved, bias,
                     stacked(after, height))

    def work(self, product: Product, saved: Array, bias: Array, after: Array, i: int, j: int) -> None:
        product.compute(i, j)
        at, y, z = argument(saved[i:j], bias), product.by_rows[:, i:j], stacked(after, self.height)[:, i:j]
        if self.code is not None:
            self.code[0]([at, *y], self.code[1], [*z])
        else:
            activation, parameters, d, groups = self.how
            f1, f2 = factors(at, activation, parameters, 2)
            streams.push_block(f1, f2, y.swapaxes(0, 1), z.swapaxes(0, 1), d, groups)


class TermsKind(_Kind):
    """Kind of `layer_terms`: arrays are those of `Terms`, and `how` is the activation and its parameters."""

    def __init__(self, saved: tuple[int, ...], dtype: np.dtype, code: Code | None, how: tuple[Any, ...]) -> None:
        super().__init__(saved, dtype, code, how)
        self.ones = np.ones(saved[-1], dtype)

    def part(self, arrays: Arrays) -> Terms:
        (a, b, before, saved, bias, tangents, ones, left, out), height = arrays, self.height
        return Terms(*self._native(), stacked(a, height), b, stacked(before, height), saved, bias,
                     stacked(tangents, height), ones, stacked(left, height), self._by_rows(out))

    def _by_rows(self, out: Array) -> Array:
        return out.reshape(self.height, *out.shape[-3:])

    def work(
        self, product: Product, saved: Array, bias: Array, tangents: Array, left: Array, out: Array, i: int, j: int
    ) -> None:
        product.compute(i, j)
        at, a, z = argument(saved[i:j], bias), product.by_rows[:, i:j], stacked(left, self.height)[:, i:j]
        t, target = stacked(tangents, self.height)[:, i:j], self._by_rows(out)[i:j]
        if self.code is None:
            activation, parameters = self.how
            f1, f2 = factors(at, activation, parameters, 2)
            np.multiply(a, f1, out=z)
            streams.local_block(a.swapaxes(0, 1), f2, t.swapaxes(0, 1), target)
            return
        o, d = target.shape[1:3]
        terms = streams.scratch(o * d * (d + 1) // 2, at.shape, at.dtype)
        self.code[0]([at, *a, *t], self.code[1], [*z, *terms])
        for k in range(o):
            for p in range(d):
                for q in range(p, d):
                    target[:, k, p, q] = target[:, k, q, p] = np.dot(terms.pop(0), self.ones)
