// How kernels over a contiguous (rows, cols) matrix divide it, and how they sum its columns.
//
// 1. A thread owns WIDTH adjacent columns, a strip, and loops over rows. WIDTH elements are 16 bytes, or one element if
//    cols or an address is not aligned; the host chooses the instance.
// 2. A block is blockDim.x strips wide and blockDim.y rows deep, both powers of two, with THREADS threads in total.
// 3. The grid covers the width of the matrix. Its gridDim.y layers, the parts, interleave the rows.
// 4. A thread loads DEPTH rows at a time. Its loop is not unrolled further (`#pragma unroll 1`): the compiler would
//    compute the trip count by a 64-bit division, and on sm_80 it spills registers.
#pragma once
#include "types.cuh"

// One thread's share: WIDTH columns from `column` on, and the rows `row`, `row + step`, `row + 2 * step`, ...
template <int WIDTH> struct Share {
    const long long rows, cols;
    const long long column = WIDTH * (static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x);
    const long long row = static_cast<long long>(blockIdx.y) * blockDim.y + threadIdx.y;
    const long long step = static_cast<long long>(gridDim.y) * blockDim.y;

    __device__ Share(long long rows, long long cols) : rows(rows), cols(cols) {}

    // This thread's strip of a vector of cols elements; zeros if it is null.
    template <typename T> __device__ Strip<T, WIDTH> load_row(const T* vector) const {
        if (vector == nullptr) return {};
        return Strip<T, WIDTH>::load(vector + column);
    }

    // The strips of DEPTH rows from `top` on, zeros beyond the matrix. DEPTH loads in flight hide the memory latency.
    template <int DEPTH, typename T>
    __device__ void load(Strip<T, WIDTH> (&strips)[DEPTH], const T* matrix, long long top) const {
        for (int d = 0; d < DEPTH; ++d) {
            strips[d] = {};
            if (top + d * step < rows) strips[d] = Strip<T, WIDTH>::load(matrix + (top + d * step) * cols + column);
        }
    }

    template <int DEPTH, typename T>
    __device__ void store(const Strip<T, WIDTH> (&strips)[DEPTH], T* matrix, long long top) const {
        for (int d = 0; d < DEPTH; ++d)
            if (top + d * step < rows) strips[d].store(matrix + (top + d * step) * cols + column);
    }
};

// Sums over the threads that own the same columns, for the first of the rows that a block has, of `across` threads each.
// All threads of the block must call it, and a barrier must lie between two calls.
template <int WIDTH, typename Sum>
__device__ void add_rows_of_block(Sum (&sums)[WIDTH], unsigned across = blockDim.x) {
    __shared__ Sum shared[WIDTH][THREADS];
    const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
    for (int i = 0; i < WIDTH; ++i) shared[i][thread] = sums[i];
    for (unsigned half = THREADS / 2; half >= across; half /= 2) {
        __syncthreads();
        if (thread < half)
            for (int i = 0; i < WIDTH; ++i) shared[i][thread] += shared[i][thread + half];
    }
    for (int i = 0; i < WIDTH; ++i) sums[i] = shared[i][thread];
}

// Sums over the threads that own the same columns. The result goes to `out` if there is one part, else to this part's
// row of `partials` (gridDim.y, cols), which a second launch sums. All threads of the block must call it. Float atomics
// would need as many launches, the first for zeros, and are not reproducible.
template <int WIDTH, typename Sum, typename Out>
__device__ void store_column_sums(Sum (&sums)[WIDTH], const Share<WIDTH>& share, Out* out, Sum* partials) {
    add_rows_of_block(sums);
    if (threadIdx.y != 0 || share.column >= share.cols) return;
    for (int i = 0; i < WIDTH; ++i) {
        if (gridDim.y == 1) out[share.column + i] = static_cast<Out>(sums[i]);
        else partials[blockIdx.y * share.cols + share.column + i] = sums[i];
    }
}
