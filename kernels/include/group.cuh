// What the kernels of groups share: the addresses of their arrays, and the computation of a strip of elements.
//
// A functor reads LARGE dense arrays, then STRIDED ones that are not dense (rows, columns, and what lies apart), then
// SCALARS of one element. Its results are written, or summed.
#pragma once
#include "types.cuh"

// By value: the addresses of what is read, then of what is written. `strides` are, in elements, from row to row and from
// column to column, of each strided one.
template <int COUNT, int STRIDED> struct Addresses {
    unsigned long long at[COUNT];
    long long cols, strides[2 * STRIDED + 1];
};

// The computation for the arrays of a functor F, a template of the type of the computation; the first WRITTEN of the
// results are written, which may lie over what is read.
template <template <typename> class Function, typename T, int WIDTH, int WRITTEN> struct Computation {
    using F = Function<Wide<T>>;
    static constexpr int INPUTS = F::INPUTS, STRIDED = F::STRIDED, LARGE = INPUTS - STRIDED - F::SCALARS;
    using Arrays = Addresses<INPUTS + F::OUTPUTS, STRIDED>;

    const Arrays& arrays;
    const F f{};
    Wide<T> element[INPUTS];

    __device__ explicit Computation(const Arrays& arrays) : arrays(arrays) {
#pragma unroll
        for (int k = LARGE + STRIDED; k < INPUTS; ++k) element[k] = widen(*reinterpret_cast<const T*>(arrays.at[k]));
    }

    // Of the WIDTH elements from number i on, which is at this row and column; each(j, results) gets those of each.
    template <typename Each> __device__ void strip(long long i, long long row, long long col, Each each) {
        Wide<T> result[F::OUTPUTS];
        Strip<T, WIDTH> read[LARGE + 1], written[WRITTEN + 1];
#pragma unroll
        for (int k = 0; k < LARGE; ++k) read[k] = Strip<T, WIDTH>::load(reinterpret_cast<const T*>(arrays.at[k]) + i);
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
#pragma unroll
            for (int k = 0; k < LARGE; ++k) element[k] = widen(read[k].at[j]);
            if constexpr (STRIDED > 0) {
#pragma unroll
                for (int k = 0; k < STRIDED; ++k)
                    element[LARGE + k] = widen(reinterpret_cast<const T*>(
                        arrays.at[LARGE + k])[row * arrays.strides[2 * k] + col * arrays.strides[2 * k + 1]]);
                const bool next = ++col == arrays.cols;
                row += next;
                col = next ? 0 : col;
            }
            f(element, result);
#pragma unroll
            for (int k = 0; k < WRITTEN; ++k) written[k].at[j] = static_cast<T>(result[k]);
            each(j, result);
        }
#pragma unroll
        for (int k = 0; k < WRITTEN; ++k) written[k].store(reinterpret_cast<T*>(arrays.at[INPUTS + k]) + i);
    }

    // The same of arrays of `size` elements, whose row and column only strided ones need.
    template <typename Each> __device__ void flat_strip(long long i, long long size, Each each) {
        long long row = 0, col = 0;
        if constexpr (STRIDED > 0) {
            row = size >> 32 ? i / arrays.cols : static_cast<unsigned>(i) / static_cast<unsigned>(arrays.cols);
            col = i - row * arrays.cols;
        }
        strip(i, row, col, each);
    }

    __device__ T* target(int k) const { return reinterpret_cast<T*>(arrays.at[INPUTS + k]); }
};
