"""Bits of integers; on bools the logical operations. Floating point is refused, as in PyTorch."""

from __future__ import annotations

from ..backend.dtypes import FLOATS
from ..core.dispatch import defop
from ..core.op import PROMOTE


def _integers(name, *arrays):
    for x in arrays:
        if getattr(x, "dtype", None) in FLOATS or isinstance(x, float):
            raise RuntimeError(f'"{name}" not implemented for floating point; compare first, or convert with .long()')
    return arrays


@defop
class bitwise_and:
    """The bits that a and b have both, broadcasting.

    >>> ag.tensor([6, 5]) & 3
    tensor([2, 1])
    """

    def forward(xp, a, b): return xp.bitwise_and(*_integers("bitwise_and", a, b))
    types, numbers = PROMOTE, True


@defop
class bitwise_or:
    """The bits that a or b has, broadcasting.

    >>> ag.tensor([6, 5]) | 1
    tensor([7, 5])
    """

    def forward(xp, a, b): return xp.bitwise_or(*_integers("bitwise_or", a, b))
    types, numbers = PROMOTE, True


@defop
class bitwise_xor:
    """The bits in which a and b differ, broadcasting.

    >>> ag.tensor([True, True]) ^ ag.tensor([True, False])
    tensor([False,  True])
    """

    def forward(xp, a, b): return xp.bitwise_xor(*_integers("bitwise_xor", a, b))
    types, numbers = PROMOTE, True


@defop
class bitwise_not:
    """Each bit turned over: -x - 1 for signed integers, not for bools.

    >>> ~ag.tensor([6, 5])
    tensor([-7, -6])
    """

    def forward(xp, x): return xp.bitwise_not(*_integers("bitwise_not", x))
