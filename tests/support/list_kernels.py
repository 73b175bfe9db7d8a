"""The kernels over lists of arrays on emulated threads, with the arguments of backend/kernels/array_lists.py."""

import emulated
import numpy as np
from emulated import Placed

from autograd_gpu.backend import kernels
from autograd_gpu.backend.kernels.array_lists import packed
from autograd_gpu.backend.kernels.foreach import LIST
from autograd_gpu.backend.kernels.functors import Applied, members
from autograd_gpu.core.extend import REGISTRY
from autograd_gpu.ops.foreach.arrays import on_cuda

# The kinds of arguments with which tests run the functions of lists that have more than one list.
_KINDS = {
    "add": ("lln", "lnn", "nln"), "sub": ("lln", "lnn", "nln"), "mul": ("ll", "ln"), "div": ("ll", "ln", "nl"),
    "pow": ("ln",), "maximum": ("ll", "ln"), "minimum": ("ll", "nl"), "clamp": ("lnn", "lno", "lol"),
    "lerp": ("lln", "lll"), "addcmul": ("llln",), "addcdiv": ("llln",),
}  # fmt: skip
_NAMES = [op.removeprefix("foreach_") for op in REGISTRY if op.startswith("foreach_")]
FUNCTIONS = [(name, kinds) for name in _NAMES if on_cuda(name) for kinds in _KINDS.get(name, ("l",))]


def function_of(name, kinds):
    """The functor of a function of lists."""
    return kernels.function_of(on_cuda(name), kinds)


def instance(listed, dtype, numbers):
    """The instance of a functor over lists, and its arguments with these numbers of its formula."""
    values = listed.values(**numbers)
    applied = Applied(listed.label, listed.functor, values)
    return kernels.declare_foreach(listed.functor, dtype), (members(applied, dtype), None, None)


def numbers_of(kinds, *values):
    """Numbers by the names that `function_of` gives them."""
    rest = iter(values)
    return {f"a{k}": next(rest) for k, kind in enumerate(kinds) if kind == "n"}


def arguments(kinds, lists, numbers):
    """What a function of lists is called with."""
    rest = iter(lists)
    return [next(rest) if kind == LIST else numbers.get(f"a{k}") for k, kind in enumerate(kinds)]


class Lists:
    """Copies of lists of arrays in guarded memory, those of row i `offsets[i]` elements behind a 16-byte boundary."""

    def __init__(self, lists, offsets=None):
        offsets = offsets or [0] * len(lists[0])
        self.places = [[Placed(a, o) for a, o in zip(arrays, offsets, strict=True)] for arrays in lists]
        self.sizes = tuple(array.size for array in lists[0])
        self.addresses = [np.array([place.array.ctypes.data for place in places], np.uint64) for places in self.places]

    @property
    def parts(self):
        """Grid, block and argument of each launch."""
        return packed(self.addresses, self.sizes)

    def launch(self, name, *arguments, **how):
        """Runs the instance `name`; afterwards the lists are looked at, and given back."""
        for shape, argument in self.parts:
            emulated.launch(name, shape, argument, *arguments, **how)
        return [[place.result() for place in places] for places in self.places]
