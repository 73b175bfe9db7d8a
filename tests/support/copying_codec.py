"""A memory hook that copies, and counts what it is asked for."""

from __future__ import annotations

import functools

import numpy as np

import autograd_gpu as ag
from autograd_gpu.hooks.base import MemoryHook
from autograd_gpu.hooks.codec import Codec, Stage
from autograd_gpu.hooks.quantize import no_leaf

quantize = functools.partial(ag.hooks.quantize, min_bytes=0)  # of tensors as small as those of tests


class Copying(Codec):
    """Copies, and counts."""

    def __init__(self, ahead=0, fails=None):
        self.ahead, self.fails = ahead, fails
        self.packed, self.unpacked, self.soon = [], [], []

    def pack(self, array):
        if self.fails is not None:
            raise self.fails
        assert array.flags.c_contiguous
        self.packed.append(array.shape)
        return Copy(array.copy())

    def unpack(self, handle):
        self.unpacked.append(handle.array.shape)
        return handle.array.copy()

    def prefetch(self, handle):
        self.soon.append(handle.array.shape)


class Copy:
    host_bytes = 0

    def __init__(self, array):
        self.array = array

    @property
    def device_bytes(self):
        return self.array.nbytes


def copying(**kwargs):
    codec = Copying(**kwargs)
    return codec, MemoryHook((Stage(codec, (no_leaf,)),))


def gradients(f, x, hook=None):
    if hook is None:
        return ag.autograd.grad(f(x).sum(), x)[0]
    with hook:
        y = f(x).sum()
    return ag.autograd.grad(y, x)[0]


def leaf(*shape, device=None, dtype=ag.float32):
    rng = np.random.default_rng(0)
    return ag.tensor(rng.normal(size=shape), dtype=dtype, device=device, requires_grad=True)
