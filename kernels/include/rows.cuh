// How kernels along the rows of a contiguous (rows, cols) matrix divide it, and how they sum along a row.
//
// 1. A block is blockDim.x threads along a row and blockDim.y rows, both powers of two, with THREADS threads in total.
// 2. A thread takes a strip of WIDTH adjacent columns, then the one blockDim.x * gridDim.y strips further on, and so
//    on. WIDTH elements are 16 bytes, or one element if cols or an address is not aligned.
// 3. The grid covers the rows in x, or its blocks loop over them. Its gridDim.y parts interleave the strips of a row.
#pragma once
#include "join.cuh"
#include "matrix.cuh"

// One thread's share: the columns from `column` on, `step` apart, of one row; or of several, if blocks loop over rows.
template <int WIDTH> struct RowShare {
    const long long rows, cols;
    long long row = static_cast<long long>(blockIdx.x) * blockDim.y + threadIdx.y;
    const long long column = WIDTH * (static_cast<long long>(blockIdx.y) * blockDim.x + threadIdx.x);
    const long long step = WIDTH * static_cast<long long>(gridDim.y) * blockDim.x;

    __device__ RowShare(long long rows, long long cols) : rows(rows), cols(cols) {}

    // DEPTH strips of the row from `from` on, zeros beyond its end.
    template <int DEPTH, typename T>
    __device__ void load(Strip<T, WIDTH> (&strips)[DEPTH], const T* matrix, long long from) const {
#pragma unroll
        for (int d = 0; d < DEPTH; ++d) {
            strips[d] = {};
            if (has(from, d)) strips[d] = Strip<T, WIDTH>::load(matrix + row * cols + from + d * step);
        }
    }

    template <int DEPTH, typename T>
    __device__ void store(const Strip<T, WIDTH> (&strips)[DEPTH], T* matrix, long long from) const {
#pragma unroll
        for (int d = 0; d < DEPTH; ++d)
            if (has(from, d)) strips[d].store(matrix + row * cols + from + d * step);
    }

    // The same strips of a vector along the columns; `missing` if it is null.
    template <int DEPTH, typename T>
    __device__ void load_vector(Strip<T, WIDTH> (&strips)[DEPTH], const T* vector, long long from, float missing) const {
#pragma unroll
        for (int d = 0; d < DEPTH; ++d) {
            for (int i = 0; i < WIDTH; ++i) strips[d].at[i] = static_cast<T>(missing);
            if (vector != nullptr && has(from, d)) strips[d] = Strip<T, WIDTH>::load(vector + from + d * step);
        }
    }

    // Whether the row reaches strip d from `from` on.
    __device__ bool has(long long from, int d) const { return from + d * step < cols; }

    // For blocks that loop over rows: whether rows are left, the next rows, and the end of this thread's row, if it has
    // one.
    __device__ bool any() const { return row - threadIdx.y < rows; }
    __device__ void next() { row += static_cast<long long>(gridDim.x) * blockDim.y; }
    __device__ long long end() const { return row < rows ? cols : 0; }
};

// The sum over the threads of a row, in every thread.
template <typename Sum> __device__ Sum sum_for_row(Sum sum) { return joined(sum, blockDim.x, Plus()); }
