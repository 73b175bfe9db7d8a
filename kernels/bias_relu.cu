// relu(x + bias), and its backward with the gradient of the bias in the same pass.
#include "include/matrix.cuh"

// out = relu(x + bias), NaN where the sum is NaN. A null bias counts as zeros. `out` may be `x`.
template <typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS)
bias_relu(const T* x, const T* bias, T* out, long long rows, long long cols) {
    constexpr int DEPTH = 2;
    const Share<WIDTH> share(rows, cols);
    if (share.column >= cols) return;
    Strip<T, WIDTH> addends = {};
    if (bias != nullptr) addends = Strip<T, WIDTH>::load(bias + share.column);
#pragma unroll 1
    for (long long row = share.row; row < rows; row += DEPTH * share.step) {
        Strip<T, WIDTH> strips[DEPTH];
        share.load(strips, x, row);
        for (Strip<T, WIDTH>& strip : strips)
            for (int i = 0; i < WIDTH; ++i) {
                const Wide<T> sum = widen(strip.at[i]) + widen(addends.at[i]);
                strip.at[i] = static_cast<T>(sum <= 0 ? 0 : sum);
            }
        share.store(strips, out, row);
    }
}

// dx = g, but 0 where out <= 0 (g where out is NaN); dbias = the column sums of dx, unless it is null. `dx` may be `g`.
template <typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS)
bias_relu_backward(const T* g, const T* out, T* dx, T* dbias, Wide<T>* partials, long long rows, long long cols) {
    constexpr int DEPTH = 2;
    const Share<WIDTH> share(rows, cols);
    Wide<T> sums[WIDTH] = {};
    if (share.column < cols)
#pragma unroll 1
        for (long long row = share.row; row < rows; row += DEPTH * share.step) {
            Strip<T, WIDTH> gs[DEPTH], outs[DEPTH];
            share.load(gs, g, row);
            share.load(outs, out, row);
            for (int d = 0; d < DEPTH; ++d)
                for (int i = 0; i < WIDTH; ++i) {
                    if (widen(outs[d].at[i]) <= 0) gs[d].at[i] = 0;
                    sums[i] += widen(gs[d].at[i]);
                }
            share.store(gs, dx, row);
        }
    if (dbias != nullptr) store_column_sums(sums, share, dbias, partials);
}
