// A group whose last results, SUMS of them, are summed: over the rows of a matrix, along its rows, or over all elements.
// With another Join than Added the "sums" are maxima or minima, those of columns in one part.
#include "include/functions.cuh"
#include "formulas/group.cuh"
#include "include/extremes.cuh"
#include "include/group.cuh"

// The sums of the columns go behind the results that are written; or, from a grid of several parts, to `partials`, one
// after the other, which further launches sum. They are of results that are not rounded. A result may be an input.
template <template <typename> class Function, typename Join, typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS, 2)
group_column_sums(const __grid_constant__
                      Addresses<Function<float>::INPUTS + Function<float>::OUTPUTS, Function<float>::STRIDED> arrays,
                  Wide<T>* partials, long long rows, long long cols) {
    constexpr int OUTPUTS = Function<float>::OUTPUTS, SUMS = Function<float>::SUMS, WRITTEN = OUTPUTS - SUMS;
    const Share<WIDTH> share(rows, cols);
    Computation<Function, T, WIDTH, WRITTEN> computation(arrays);
    Wide<T> sums[SUMS][WIDTH];
#pragma unroll
    for (int s = 0; s < SUMS; ++s)
#pragma unroll
        for (int i = 0; i < WIDTH; ++i) sums[s][i] = Join::template none<Wide<T>>();
    if (share.column < cols)
#pragma unroll 1
        for (long long row = share.row; row < rows; row += share.step)
            computation.strip(row * cols + share.column, row, share.column,
                              [&](int j, const Wide<T> (&result)[OUTPUTS]) {
#pragma unroll
                                  for (int s = 0; s < SUMS; ++s)
                                      sums[s][j] = Join()(sums[s][j], result[WRITTEN + s]);
                              });
#pragma unroll
    for (int s = 0; s < SUMS; ++s) {
        if (s > 0) __syncthreads();
        if constexpr (Join::ADDS) {
            Wide<T>* part = partials == nullptr ? nullptr : partials + s * gridDim.y * cols;
            store_column_sums(sums[s], share, computation.target(WRITTEN + s), part);
        } else {
            store_column_extremes<Join>(sums[s], share, computation.target(WRITTEN + s));
        }
    }
}

// The sums along rows, divided by `divisor`, go behind the results that are written.
template <template <typename> class Function, typename Join, typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS, 2)
group_row_sums(const __grid_constant__
                   Addresses<Function<float>::INPUTS + Function<float>::OUTPUTS, Function<float>::STRIDED> arrays,
               Wide<T> divisor, long long rows, long long cols) {
    constexpr int OUTPUTS = Function<float>::OUTPUTS, SUMS = Function<float>::SUMS, WRITTEN = OUTPUTS - SUMS;
    const RowShare<WIDTH> share(rows, cols);
    Computation<Function, T, WIDTH, WRITTEN> computation(arrays);
    Wide<T> sums[SUMS];
#pragma unroll
    for (int s = 0; s < SUMS; ++s) sums[s] = Join::template none<Wide<T>>();
    const long long end = share.end();
#pragma unroll 1
    for (long long column = share.column; column < end; column += share.step)
        computation.strip(share.row * cols + column, share.row, column, [&](int, const Wide<T> (&result)[OUTPUTS]) {
#pragma unroll
            for (int s = 0; s < SUMS; ++s) sums[s] = Join()(sums[s], result[WRITTEN + s]);
        });
#pragma unroll
    for (int s = 0; s < SUMS; ++s) {
        const Wide<T> sum = joined(sums[s], blockDim.x, Join());
        if (threadIdx.x == 0 && share.row < rows)
            computation.target(WRITTEN + s)[share.row] = static_cast<T>(sum / divisor);
    }
}

// One block: the sum of each of the last results over all elements, divided by `divisor`.
template <template <typename> class Function, typename Join, typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS, 2)
group_totals(const __grid_constant__
                 Addresses<Function<float>::INPUTS + Function<float>::OUTPUTS, Function<float>::STRIDED> arrays,
             Wide<T> divisor, long long size) {
    constexpr int OUTPUTS = Function<float>::OUTPUTS, SUMS = Function<float>::SUMS, WRITTEN = OUTPUTS - SUMS;
    Computation<Function, T, WIDTH, WRITTEN> computation(arrays);
    Wide<T> sums[SUMS];
#pragma unroll
    for (int s = 0; s < SUMS; ++s) sums[s] = Join::template none<Wide<T>>();
#pragma unroll 1
    for (long long i = WIDTH * static_cast<long long>(threadIdx.x); i < size; i += WIDTH * THREADS)
        computation.flat_strip(i, size, [&](int, const Wide<T> (&result)[OUTPUTS]) {
#pragma unroll
            for (int s = 0; s < SUMS; ++s) sums[s] = Join()(sums[s], result[WRITTEN + s]);
        });
#pragma unroll
    for (int s = 0; s < SUMS; ++s) {
        const Wide<T> sum = joined(sums[s], THREADS, Join());
        if (threadIdx.x == 0) *computation.target(WRITTEN + s) = static_cast<T>(sum / divisor);
    }
}
