"""Regions: the memory that an array shows, whatever the order of its dimensions, and where in it a view lies."""

from __future__ import annotations

import itertools
import math
import operator
from typing import Any, NamedTuple

from .. import backend
from ..backend.arrays.strides import address, strided

Array = Any  # numpy.ndarray or cupy.ndarray


def owner(array: Array) -> Array:
    """The array that lives as long as a view of `array` does."""
    while isinstance(array.base, type(array)):
        array = array.base
    return array


class Region(NamedTuple):
    """Memory from byte `start` to `stop`, as a C-contiguous array of `sizes` has it, or with gaps.

    Dimensions lie from the longest stride to the shortest; those of size 1 or stride 0 are left out. Where elements
    overlap, as in a sliding window, the region is the whole span as a vector.
    """

    start: int
    stop: int
    dtype: Any
    sizes: tuple[int, ...]
    strides: tuple[int, ...]  # in bytes
    dense: bool

    def holds(self, other: Region) -> bool:
        """Whether every element of `other` is one of these."""
        if self.dtype != other.dtype or self.start > other.start or other.stop > self.stop:
            return False
        if not self.dense:
            return self == other
        return (other.start - self.start) % self.dtype.itemsize == 0

    def contiguous(self, array: Array) -> Array:
        """The elements, of which `array` shows some, as a C-contiguous array, if possible without a copy."""
        xp = backend.namespace(array)
        if any(stride < 0 for stride in array.strides):
            array = array[tuple([slice(None, None, -1 if stride < 0 else 1) for stride in array.strides])]
        return xp.ascontiguousarray(strided(xp, array, self.sizes, self.strides))


class View(NamedTuple):
    """An array of the same elements as a region, or of some of them, in what has been made of the region again."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in bytes, none negative
    offset: int  # of the first element in memory, in elements
    flipped: tuple[int, ...]  # dimensions

    def of(self, array: Array) -> Array:
        """The view of `array`, which is C-contiguous and has the region's elements."""
        first, size = array.reshape(-1)[self.offset :], math.prod(self.shape)
        if not self.flipped and self.strides == _contiguous(self.shape, array.itemsize):
            return first[:size].reshape(self.shape)  # whose base is known in CuPy, too
        view = strided(backend.namespace(array), first, self.shape, self.strides)
        if not self.flipped:
            return view
        return view[tuple([slice(None, None, -1 if i in self.flipped else 1) for i in range(view.ndim)])]


def _contiguous(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """The strides of a C-contiguous array."""
    strides = itertools.accumulate(reversed(shape[1:]), operator.mul, initial=itemsize)
    return tuple(strides)[: len(shape)][::-1]


def region_of(array: Array) -> Region | None:
    """The region of `array`; None if it has no elements, if they lie elsewhere than in a vector of its dtype, and if
    they overlap with gaps, in which there are numbers that nobody asked to pack."""
    size, start = array.itemsize, address(array)
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
    return Region(start, start + span, array.dtype, tuple([n for _, n in dims]), tuple([s for s, _ in dims]), dense)


def view_of(array: Array, mine: Region, whole: Region) -> View:
    """Where `array`, whose region is `mine`, lies in `whole`, which holds it."""
    strides, offset = tuple([abs(s) for s in array.strides]), (mine.start - whole.start) // array.itemsize
    if not whole.dense:  # the gaps are gone
        packed, step = {}, array.itemsize
        for n, stride in zip(reversed(whole.sizes), reversed(whole.strides), strict=True):
            packed[stride] = step
            step *= n
        strides = tuple([packed.get(s, 0) if n > 1 else 0 for n, s in zip(array.shape, strides, strict=True)])
    return View(array.shape, strides, offset, tuple([i for i, s in enumerate(array.strides) if s < 0]))
