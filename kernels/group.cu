// A group: the arithmetic of several ops in one pass over arrays of one size, by a generated functor.
#include "include/functions.cuh"
#include "formulas/group.cuh"
#include "include/types.cuh"

// By value: the addresses of the arrays that are read, then of those that are written. Those that are read are dense;
// STRIDED of them are not: rows, columns, and what lies apart; then SCALARS of them have one element. `strides` are, in
// elements, from row to row and from column to column, of each strided one.
template <int COUNT, int STRIDED> struct Addresses {
    unsigned long long at[COUNT];
    long long cols, strides[2 * STRIDED + 1];
};

// A thread takes strips of WIDTH elements, as far apart as the grid has threads. A result may be one of the inputs.
template <template <typename> class Function, typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS, 2)
group(const __grid_constant__
          Addresses<Function<float>::INPUTS + Function<float>::OUTPUTS, Function<float>::STRIDED> arrays,
      long long size) {
    constexpr int INPUTS = Function<float>::INPUTS, OUTPUTS = Function<float>::OUTPUTS;
    constexpr int STRIDED = Function<float>::STRIDED, LARGE = INPUTS - STRIDED - Function<float>::SCALARS;
    const Function<Wide<T>> f{};
    const long long apart = static_cast<long long>(gridDim.x) * blockDim.x * WIDTH;
    const long long first = (static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x) * WIDTH;
    Wide<T> element[INPUTS], result[OUTPUTS];
#pragma unroll
    for (int k = LARGE + STRIDED; k < INPUTS; ++k)
        element[k] = widen(*reinterpret_cast<const T*>(arrays.at[k]));
#pragma unroll 1
    for (long long i = first; i < size; i += apart) {
        Strip<T, WIDTH> read[LARGE + 1], written[OUTPUTS];
#pragma unroll
        for (int k = 0; k < LARGE; ++k) read[k] = Strip<T, WIDTH>::load(reinterpret_cast<const T*>(arrays.at[k]) + i);
        long long row = 0, col = 0;
        if constexpr (STRIDED > 0) {
            row = size >> 32 ? i / arrays.cols : static_cast<unsigned>(i) / static_cast<unsigned>(arrays.cols);
            col = i - row * arrays.cols;
        }
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
            for (int k = 0; k < OUTPUTS; ++k) written[k].at[j] = static_cast<T>(result[k]);
        }
#pragma unroll
        for (int k = 0; k < OUTPUTS; ++k) written[k].store(reinterpret_cast<T*>(arrays.at[INPUTS + k]) + i);
    }
}
