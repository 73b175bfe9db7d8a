// Row sums of a matrix.
#include "include/rows.cuh"

// out[r] = sum over c of x[r, c]; or, from a grid of several parts, partials[r, part], which a second launch sums.
template <typename In, typename Out, int WIDTH>
__global__ void __launch_bounds__(THREADS)
row_sum(const In* __restrict__ x, Out* out, Wide<In>* partials, long long rows, long long cols) {
    constexpr int DEPTH = 4;
    const RowShare<WIDTH> share(rows, cols);
    Wide<In> sums[WIDTH] = {}, sum = 0;
    if (share.row < rows)
#pragma unroll 1
        for (long long column = share.column; column < cols; column += DEPTH * share.step) {
            Strip<In, WIDTH> strips[DEPTH];
            share.load(strips, x, column);
#pragma unroll
            for (const Strip<In, WIDTH>& strip : strips)
                for (int i = 0; i < WIDTH; ++i) sums[i] += widen(strip.at[i]);
        }
    for (int i = 0; i < WIDTH; ++i) sum += sums[i];
    sum = sum_for_row(sum);
    if (threadIdx.x != 0 || share.row >= rows) return;
    if (gridDim.y == 1) out[share.row] = static_cast<Out>(sum);
    else partials[share.row * gridDim.y + blockIdx.y] = sum;
}
