// Elements at indices along one dimension.
#include "include/types.cuh"

// out[o, j, i] = x[o, index[o, j, i], i] for x (outer, size, inner) and index (outer, count, inner). Negative indices count
// from the end, and as in CuPy's indexing those out of range wrap around. Bits has the size of an element.
template <typename Bits>
__global__ void __launch_bounds__(THREADS)
gather(const Bits* __restrict__ x, const long long* __restrict__ index, Bits* out, long long size, long long inner,
       long long count, long long total) {
    const long long step = static_cast<long long>(gridDim.x) * THREADS;
#pragma unroll 1
    for (long long at = static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x; at < total; at += step) {
        const long long row = at / inner, outer = row / count;
        long long found = index[at];
        if (found < 0 || found >= size) {
            found %= size;
            if (found < 0) found += size;
        }
        out[at] = x[(outer * size + found) * inner + (at - row * inner)];
    }
}
