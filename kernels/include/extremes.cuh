// How a reduction of sums, maxima or minima joins two numbers, and what it begins with.
#pragma once
#include "matrix.cuh"
#include "rows.cuh"

struct Added : Plus {
    static constexpr bool ADDS = true;
    template <typename W> static __device__ W none() { return 0; }
};

// NaN if one of both is NaN.
struct Largest {
    static constexpr bool ADDS = false;
    template <typename W> __device__ W operator()(W a, W b) const { return a > b || a != a ? a : b; }
    template <typename W> static __device__ W none() { return W(__int_as_float(0xff800000)); }
};

struct Smallest {
    static constexpr bool ADDS = false;
    template <typename W> __device__ W operator()(W a, W b) const { return a < b || a != a ? a : b; }
    template <typename W> static __device__ W none() { return W(__int_as_float(0x7f800000)); }
};

// Maxima or minima over the threads that own the same columns, as store_column_sums computes sums in one part. All
// threads of the block must call it, and a barrier must lie between two calls.
template <typename Join, int WIDTH, typename W, typename Out>
__device__ void store_column_extremes(W (&values)[WIDTH], const Share<WIDTH>& share, Out* out) {
    __shared__ W shared[WIDTH][THREADS];
    const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
    for (int i = 0; i < WIDTH; ++i) shared[i][thread] = values[i];
    for (unsigned half = THREADS / 2; half >= blockDim.x; half /= 2) {
        __syncthreads();
        if (thread < half)
            for (int i = 0; i < WIDTH; ++i) shared[i][thread] = Join()(shared[i][thread], shared[i][thread + half]);
    }
    if (threadIdx.y == 0 && share.column < share.cols)
        for (int i = 0; i < WIDTH; ++i) out[share.column + i] = static_cast<Out>(shared[i][thread]);
}
