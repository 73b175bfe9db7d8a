// A group whose last results, SUMS of them, are summed: over the rows of a matrix, along its rows, or over all elements.
#include "include/functions.cuh"
#include "formulas/group.cuh"
#include "include/group.cuh"
#include "include/rows.cuh"

// The sums of the columns go behind the results that are written; or, from a grid of several parts, to `partials`, one
// after the other, which further launches sum. They are of results that are not rounded. A result may be an input.
template <template <typename> class Function, typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS, 2)
group_column_sums(const __grid_constant__
                      Addresses<Function<float>::INPUTS + Function<float>::OUTPUTS, Function<float>::STRIDED> arrays,
                  Wide<T>* partials, long long rows, long long cols) {
    constexpr int OUTPUTS = Function<float>::OUTPUTS, SUMS = Function<float>::SUMS, WRITTEN = OUTPUTS - SUMS;
    const Share<WIDTH> share(rows, cols);
    Computation<Function, T, WIDTH, WRITTEN> computation(arrays);
    Wide<T> sums[SUMS][WIDTH] = {};
    if (share.column < cols)
#pragma unroll 1
        for (long long row = share.row; row < rows; row += share.step)
            computation.strip(row * cols + share.column, row, share.column,
                              [&](int j, const Wide<T> (&result)[OUTPUTS]) {
#pragma unroll
                                  for (int s = 0; s < SUMS; ++s) sums[s][j] += result[WRITTEN + s];
                              });
#pragma unroll
    for (int s = 0; s < SUMS; ++s) {
        if (s > 0) __syncthreads();
        Wide<T>* part = partials == nullptr ? nullptr : partials + s * gridDim.y * cols;
        store_column_sums(sums[s], share, computation.target(WRITTEN + s), part);
    }
}

// The sums along rows, divided by `divisor`, go behind the results that are written.
template <template <typename> class Function, typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS, 2)
group_row_sums(const __grid_constant__
                   Addresses<Function<float>::INPUTS + Function<float>::OUTPUTS, Function<float>::STRIDED> arrays,
               Wide<T> divisor, long long rows, long long cols) {
    constexpr int OUTPUTS = Function<float>::OUTPUTS, SUMS = Function<float>::SUMS, WRITTEN = OUTPUTS - SUMS;
    const RowShare<WIDTH> share(rows, cols);
    Computation<Function, T, WIDTH, WRITTEN> computation(arrays);
    Wide<T> sums[SUMS] = {};
    const long long end = share.end();
#pragma unroll 1
    for (long long column = share.column; column < end; column += share.step)
        computation.strip(share.row * cols + column, share.row, column, [&](int, const Wide<T> (&result)[OUTPUTS]) {
#pragma unroll
            for (int s = 0; s < SUMS; ++s) sums[s] += result[WRITTEN + s];
        });
#pragma unroll
    for (int s = 0; s < SUMS; ++s) {
        const Wide<T> sum = sum_for_row(sums[s]);
        if (threadIdx.x == 0 && share.row < rows)
            computation.target(WRITTEN + s)[share.row] = static_cast<T>(sum / divisor);
    }
}

// One block: the sum of each of the last results over all elements, divided by `divisor`.
template <template <typename> class Function, typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS, 2)
group_totals(const __grid_constant__
                 Addresses<Function<float>::INPUTS + Function<float>::OUTPUTS, Function<float>::STRIDED> arrays,
             Wide<T> divisor, long long size) {
    constexpr int OUTPUTS = Function<float>::OUTPUTS, SUMS = Function<float>::SUMS, WRITTEN = OUTPUTS - SUMS;
    Computation<Function, T, WIDTH, WRITTEN> computation(arrays);
    Wide<T> sums[SUMS] = {};
#pragma unroll 1
    for (long long i = WIDTH * static_cast<long long>(threadIdx.x); i < size; i += WIDTH * THREADS)
        computation.flat_strip(i, size, [&](int, const Wide<T> (&result)[OUTPUTS]) {
#pragma unroll
            for (int s = 0; s < SUMS; ++s) sums[s] += result[WRITTEN + s];
        });
#pragma unroll
    for (int s = 0; s < SUMS; ++s) {
        const Wide<T> sum = joined(sums[s], THREADS, Plus());
        if (threadIdx.x == 0) *computation.target(WRITTEN + s) = static_cast<T>(sum / divisor);
    }
}
