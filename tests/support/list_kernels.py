"""The kernels over lists of arrays on emulated threads, launched as backend/kernels/tables.py does."""

import emulated
import numpy as np
from emulated import Placed

from autograd_gpu.backend import kernels
from autograd_gpu.backend.kernels.constants import CHUNK


def chunks_of(sizes):
    """Pairs of tensor and chunk, and where those of each tensor begin."""
    pairs = [(t, chunk) for t, size in enumerate(sizes) for chunk in range(-(-size // CHUNK))]
    first = np.searchsorted([t for t, _ in pairs], np.arange(len(sizes) + 1))
    return np.array(pairs, np.int32).reshape(-1), first.astype(np.int32)


class Lists:
    """Copies of lists of arrays in guarded memory, those of row i `offsets[i]` elements behind a 16-byte boundary."""

    def __init__(self, lists, offsets=None):
        offsets = offsets or [0] * len(lists[0])
        self.places = [[Placed(a, o) for a, o in zip(arrays, offsets, strict=True)] for arrays in lists]
        self.sizes = [array.size for array in lists[0]]
        self.chunks, self.first = chunks_of(self.sizes)
        self.blocks = len(self.chunks) // 2
        self.point(np.array([place.array.ctypes.data for places in self.places for place in places], np.int64))

    def point(self, addresses):
        """The lists begin at `addresses`."""
        self.tables = Placed(addresses), Placed(np.array(self.sizes, np.int64)), Placed(self.chunks)

    def launch(self, name, *arguments, **how):
        """Runs the instance `name`; afterwards the lists are looked at, and given back."""
        shape = ((self.blocks, 1), (kernels.THREADS, 1))
        emulated.launch(name, shape, *self.tables, len(self.sizes), *arguments, **how)
        for table in self.tables:
            table.result()
        return [[place.result() for place in places] for places in self.places]
