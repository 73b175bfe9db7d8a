// Column sums of a matrix, such as the gradient of a bias.
#include "include/matrix.cuh"

// out[c] = sum over r of x[r, c], or one row of partial sums per part of the grid: see store_column_sums.
template <typename In, typename Out, int WIDTH>
__global__ void __launch_bounds__(THREADS)
column_sum(const In* __restrict__ x, Out* out, Wide<In>* partials, long long rows, long long cols) {
    constexpr int DEPTH = 4;
    const Share<WIDTH> share(rows, cols);
    Wide<In> sums[WIDTH] = {};
    if (share.column < cols)
#pragma unroll 1
        for (long long row = share.row; row < rows; row += DEPTH * share.step) {
            Strip<In, WIDTH> strips[DEPTH];
            share.load(strips, x, row);
            for (const Strip<In, WIDTH>& strip : strips)
                for (int i = 0; i < WIDTH; ++i) sums[i] += widen(strip.at[i]);
        }
    store_column_sums(sums, share, out, partials);
}
