"""The kernels over lists of arrays on emulated threads, with the arguments of backend/kernels/array_lists.py."""

import emulated
import numpy as np
from emulated import Placed

from autograd_gpu.backend.kernels.array_lists import packed


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
