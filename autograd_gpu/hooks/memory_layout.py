"""Memory footprints of arrays, independent of the order of dimensions, and views within a footprint."""

from __future__ import annotations

import itertools
import math
import operator
from typing import Any, NamedTuple

from .. import backend
from ..backend.arrays.strides import address, strided

Array = Any  # numpy.ndarray or cupy.ndarray


def owner(array: Array) -> Array:
    """The array that owns the memory of `array`, and lives as long as any view of it."""
    while isinstance(array.base, type(array)):
        array = array.base
    return array


class Footprint(NamedTuple):
    """The memory that an array addresses, from byte `start` to `stop`, as an array of `sizes` and `strides`.

    Dimensions are ordered from the largest stride to the smallest; those of size 1 or stride 0 are dropped. `dense`
    means without gaps. If elements overlap, as in a sliding window, the footprint is the whole span as a vector.
    """

    start: int
    stop: int
    dtype: Any
    sizes: tuple[int, ...]
    strides: tuple[int, ...]  # in bytes
    dense: bool

    def holds(self, other: Footprint) -> bool:
        """Whether every element of `other` is an element of this footprint."""
        if self.dtype != other.dtype or self.start > other.start or other.stop > self.stop:
            return False
        if not self.dense:
            return self == other
        return (other.start - self.start) % self.dtype.itemsize == 0

    def contiguous(self, array: Array) -> Array:
        """The footprint's elements as a C-contiguous array, if possible without a copy; `array` is a view of them."""
        if self.dense and array.shape == self.sizes and array.strides == self.strides:
            return array
        xp = backend.namespace(array)
        if any(stride < 0 for stride in array.strides):
            array = array[tuple([slice(None, None, -1 if stride < 0 else 1) for stride in array.strides])]
        return xp.ascontiguousarray(strided(xp, array, self.sizes, self.strides))


class View(NamedTuple):
    """An array's place in a footprint: how to take its elements from an unpacked copy of the footprint."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in bytes, none negative
    offset: int  # of the first element in memory, in elements
    flipped: tuple[int, ...]  # dimensions

    def of(self, array: Array) -> Array:
        """The view of `array`, which is C-contiguous and has the footprint's elements."""
        first, size = array.reshape(-1)[self.offset :], math.prod(self.shape)
        if not self.flipped and self.strides == _contiguous(self.shape, array.itemsize):
            return first[:size].reshape(self.shape)  # reshape sets the base in CuPy, too
        view = strided(backend.namespace(array), first, self.shape, self.strides)
        if not self.flipped:
            return view
        return view[tuple([slice(None, None, -1 if i in self.flipped else 1) for i in range(view.ndim)])]


def _contiguous(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """The strides of a C-contiguous array."""
    strides = itertools.accumulate(reversed(shape[1:]), operator.mul, initial=itemsize)
    return tuple(strides)[: len(shape)][::-1]


def footprint_of(array: Array) -> Footprint | None:
    """The footprint of `array`.

    None if it is empty, if a stride is not a multiple of the item size, or if elements overlap and leave gaps, which
    hold values that are not part of the tensor.
    """
    size, start = array.itemsize, address(array)
    if array.size and array.flags.c_contiguous:
        kept = [(n, stride) for n, stride in zip(array.shape, array.strides, strict=True) if n > 1]
        return Footprint(start, start + array.nbytes, array.dtype, tuple([n for n, _ in kept]),
                         tuple([stride for _, stride in kept]), True)  # fmt: skip
    if not array.size or any(stride % size for stride in array.strides):
        return None
    for n, stride in zip(array.shape, array.strides, strict=True):
        start += min((n - 1) * stride, 0)
    dims = [(abs(stride), n) for n, stride in zip(array.shape, array.strides, strict=True) if n > 1 and stride]
    dims.sort(key=lambda dim: -dim[0])
    span, nested, dense, gaps = size, True, True, False
    for stride, n in reversed(dims):
        nested, dense, gaps = nested and stride >= span, dense and stride == span, gaps or stride > span
        span += (n - 1) * stride
    if not nested:
        if gaps:
            return None
        dims, dense = [(size, span // size)], True
    return Footprint(start, start + span, array.dtype, tuple([n for _, n in dims]), tuple([s for s, _ in dims]), dense)


def view_of(array: Array, mine: Footprint, whole: Footprint) -> View:
    """The view that takes `array`, of footprint `mine`, from a copy of `whole`, which contains it."""
    strides, offset = tuple([abs(s) for s in array.strides]), (mine.start - whole.start) // array.itemsize
    if not whole.dense:  # the copy has no gaps
        packed, step = {}, array.itemsize
        for n, stride in zip(reversed(whole.sizes), reversed(whole.strides), strict=True):
            packed[stride] = step
            step *= n
        strides = tuple([packed.get(s, 0) if n > 1 else 0 for n, s in zip(array.shape, strides, strict=True)])
    return View(array.shape, strides, offset, tuple([i for i, s in enumerate(array.strides) if s < 0]))
