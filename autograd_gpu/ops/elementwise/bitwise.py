"""Bitwise operations on integers, logical on bools; RuntimeError for floats, as in PyTorch."""

from __future__ import annotations

import numpy as np

from ... import backend
from ...backend.arrays.dtypes import FLOATS, bool_
from ...core.extend import BROADCASTING, PROMOTE, defop


def integers(name, *arrays):
    for x in arrays:
        if getattr(x, "dtype", None) in FLOATS or isinstance(x, float):
            raise RuntimeError(f'"{name}" not implemented for floating point; compare first, or convert with .long()')
    return arrays


@defop
class bitwise_and:
    """Bitwise and of a and b, broadcasting.

    >>> ag.tensor([6, 5]) & 3
    tensor([2, 1])
    """

    def forward(xp, a, b): return xp.bitwise_and(*integers("bitwise_and", a, b))
    nondiff = True
    types, numbers = PROMOTE, True
    batch = BROADCASTING
    public = methods = inplace = ufunc = True


@defop
class bitwise_or:
    """Bitwise or of a and b, broadcasting.

    >>> ag.tensor([6, 5]) | 1
    tensor([7, 5])
    """

    def forward(xp, a, b): return xp.bitwise_or(*integers("bitwise_or", a, b))
    nondiff = True
    types, numbers = PROMOTE, True
    batch = BROADCASTING
    public = methods = inplace = ufunc = True


@defop
class bitwise_xor:
    """Bitwise exclusive or of a and b, broadcasting.

    >>> ag.tensor([True, True]) ^ ag.tensor([True, False])
    tensor([False,  True])
    """

    def forward(xp, a, b): return xp.bitwise_xor(*integers("bitwise_xor", a, b))
    nondiff = True
    types, numbers = PROMOTE, True
    batch = BROADCASTING
    public = methods = inplace = ufunc = True


@defop
class bitwise_not:
    """Bitwise not: -x - 1 for signed integers, logical not for bools.

    >>> ~ag.tensor([6, 5])
    tensor([-7, -6])
    """

    def forward(xp, x): return xp.bitwise_not(*integers("bitwise_not", x))
    nondiff = True
    batch = BROADCASTING
    ufunc = "invert"
    public = methods = inplace = True


# ---- shifts ------------------------------------------------------------------------------------------


def _check_shift(name, a, b):
    integers(name, a, b)
    if (a if hasattr(a, "dtype") else b).dtype == bool_:
        raise RuntimeError(f'"{name}" not implemented for bool; convert with .long()')


def _shifted(xp, name, a, b):
    _check_shift(name, a, b)
    return getattr(np, name)(a, b)


def _shifted_cuda(xp, name, a, b):
    """The shift with NumPy's result for negative b and b above the number of bits, which is undefined in C and CuPy."""
    _check_shift(name, a, b)
    bits = 8 * (a if hasattr(a, "dtype") else b).dtype.itemsize
    if not hasattr(b, "dtype"):
        if name == "left_shift":
            return xp.left_shift(a, b) if 0 <= b < bits else xp.zeros_like(a)
        return xp.right_shift(a, b if 0 <= b < bits else bits - 1)
    inside = (b >= 0) & (b < bits)
    if name == "left_shift":
        return backend.where(xp, inside, xp.left_shift(a, backend.where(xp, inside, b, 0)), 0)
    return xp.right_shift(a, backend.where(xp, inside, b, bits - 1))


@defop
class bitwise_left_shift:
    """a shifted left by b bits, broadcasting: a * 2 ** b; 0 for b not between 0 and the number of bits.

    >>> ag.tensor([1, 3]) << 2
    tensor([ 4, 12])
    """

    def forward(xp, a, b): return _shifted(xp, "left_shift", a, b)
    def cuda(xp, a, b): return _shifted_cuda(xp, "left_shift", a, b)
    nondiff = True
    types, numbers = PROMOTE, True
    batch = BROADCASTING
    ufunc = "left_shift"
    public = methods = inplace = True


@defop
class bitwise_right_shift:
    """a shifted right by b bits with sign extension, broadcasting: a / 2 ** b rounded down.

    >>> ag.tensor([8, -3]) >> 1
    tensor([ 4, -2])
    """

    def forward(xp, a, b): return _shifted(xp, "right_shift", a, b)
    def cuda(xp, a, b): return _shifted_cuda(xp, "right_shift", a, b)
    nondiff = True
    types, numbers = PROMOTE, True
    batch = BROADCASTING
    ufunc = "right_shift"
    public = methods = inplace = True
