"""What the tests of the stand-in's detectors share: kernels, streams, and how a wrong program ends."""

import pytest

N = 64
KERNELS = r"""
extern "C" __global__ void scale(const float* x, float* out, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = factor * x[i];
}
extern "C" __global__ void scale_all(float* const* arrays, int count, float factor, int n) {
  for (int k = 0; k < count; ++k)
    for (int i = threadIdx.x; i < n; i += blockDim.x) arrays[k][i] *= factor;
}
extern "C" __global__ void put(float* x, int at) { x[at] = 1; }
"""



def found(hazard, match):
    """What a wrong program does, also where only the next call can say so."""
    from cupy import _emulation

    return pytest.raises(getattr(_emulation, hazard), match=match)


def two_streams(cp):
    return cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)


def ready(cp, *values):
    arrays = [cp.full(N, value, "float32") for value in values]
    cp.cuda.Stream.null.synchronize()
    return arrays
