"""Nets whose saved tensors are offloaded, however small, and arrays that are copied."""

from __future__ import annotations

import numpy as np

import autograd_gpu as ag
from autograd_gpu import nn

SLAB = 1 << 16


def everything(**options):
    """Offloads all that is saved, however small."""
    return ag.hooks.offload(min_bytes=0, slab_bytes=SLAB, **options)


def mlp(device, layers=6, width=8):
    ag.manual_seed(0)
    parts = [part for _ in range(layers) for part in (nn.Linear(width, width), nn.Tanh())]
    return nn.Sequential(*parts).to(device), ag.randn(16, width, device=device)


def lively(device):
    return ag.linspace(-1, 1, 128, device=device).reshape(16, 8).requires_grad_()


def numbers(cp, n=256, first=0.0):
    """Made by work that is still in the stream."""
    return cp.arange(n, dtype=np.float32) + np.float32(first)


def equal(array, n=256, first=0.0):
    np.testing.assert_array_equal(array.get(), np.arange(n, dtype=np.float32) + first)
