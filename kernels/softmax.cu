// Softmax and its logarithm along the rows of a matrix, and their gradients.
//
// A row that DEPTH strips for each of its threads can hold stays in registers; a longer one is read once more for the
// results, from its end backwards: what was read last may still be in the cache.
#include "include/max_sum.cuh"

// out = softmax(x), or its logarithm. If safe, a row of nothing but -inf gives zeros and not NaN.
template <typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS, 2)
softmax(const T* __restrict__ x, T* out, int logarithm, int safe, long long rows, long long cols) {
    constexpr int DEPTH = SOFTMAX_STRIPS;
    const RowShare<WIDTH> share(rows, cols);
    const long long turn = DEPTH * share.step, end = share.end();
    Strip<T, WIDTH> strips[DEPTH];
    MaxSum<Wide<T>> row = MaxSum<Wide<T>>::none();
    long long column = share.column;
#pragma unroll 1
    for (; column < end; column += turn) {
        share.load(strips, x, column);
        row.add(strips, share, column);
    }
    row.join_row();
    const Wide<T> less = logarithm ? row.max : row.shift(), log_sum = log(row.sum);
    const Wide<T> inverse = safe && row.sum == 0 ? 0 : 1 / row.sum;
    bool loaded = true;  // the last turn's strips
#pragma unroll 1
    for (column -= turn; column >= 0; column -= turn, loaded = false) {
        if (!loaded) share.load(strips, x, column);
#pragma unroll
        for (Strip<T, WIDTH>& strip : strips)
#pragma unroll
            for (int i = 0; i < WIDTH; ++i) {
                const Wide<T> below = widen(strip.at[i]) - less;
                strip.at[i] = static_cast<T>(logarithm ? below - log_sum : exp(below) * inverse);
            }
        share.store(strips, out, column);
    }
}

// dx = out * (g - sum(g * out)), for `out` from softmax; for its logarithm dx = g - exp(out) * sum(g). `dx` may be `g`.
template <typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS, 2)
softmax_backward(const T* g, const T* out, T* dx, int logarithm, long long rows, long long cols) {
    constexpr int DEPTH = SOFTMAX_BACKWARD_STRIPS;
    const RowShare<WIDTH> share(rows, cols);
    const long long turn = DEPTH * share.step, end = share.end();
    Strip<T, WIDTH> gs[DEPTH], outs[DEPTH];
    Wide<T> sum = 0;
    long long column = share.column;
#pragma unroll 1
    for (; column < end; column += turn) {
        share.load(gs, g, column);
        share.load(outs, out, column);
#pragma unroll
        for (int d = 0; d < DEPTH; ++d) {
            Wide<T> part = 0;
#pragma unroll
            for (int i = 0; i < WIDTH; ++i) part += widen(gs[d].at[i]) * (logarithm ? 1 : widen(outs[d].at[i]));
            sum += part;
        }
    }
    sum = sum_for_row(sum);
    bool loaded = true;  // the last turn's strips
#pragma unroll 1
    for (column -= turn; column >= 0; column -= turn, loaded = false) {
        if (!loaded) {
            share.load(gs, g, column);
            share.load(outs, out, column);
        }
#pragma unroll
        for (int d = 0; d < DEPTH; ++d)
#pragma unroll
            for (int i = 0; i < WIDTH; ++i) {
                const Wide<T> h = widen(gs[d].at[i]), result = widen(outs[d].at[i]);
                gs[d].at[i] = static_cast<T>(logarithm ? h - exp(result) * sum : result * (h - sum));
            }
        share.store(gs, dx, column);
    }
}
