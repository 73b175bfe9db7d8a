// Softmax and log-softmax along the rows of a matrix, and their gradients.
//
// 1. A row of at most DEPTH strips per thread stays in registers; a longer row is read a second time for the results,
//    backwards, since its end may still be in the cache.
// 2. If there are too few long rows to fill the GPU, several blocks, the parts, share a row. A first launch, of the
//    kernel whose name ends in _parts, writes the partial results. The second has the same grid; each block combines
//    the partial results of its row, always in the same order, and writes its own part of the results.
#include "include/max_sum.cuh"

// found[r, part] = the maximum of that part of row r, and the sum of the exponentials relative to it.
template <typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS, 2)
softmax_parts(const T* __restrict__ x, Wide<T>* found, long long rows, long long cols) {
    constexpr int DEPTH = SOFTMAX_STRIPS;
    const RowShare<WIDTH> share(rows, cols);
    const long long end = share.end();
    MaxSum<Wide<T>> own = MaxSum<Wide<T>>::none();
#pragma unroll 1
    for (long long column = share.column; column < end; column += DEPTH * share.step) {
        Strip<T, WIDTH> strips[DEPTH];
        share.load(strips, x, column);
        own.add(strips, share, column);
    }
    own.join_row();
    if (threadIdx.x != 0 || share.row >= rows) return;
    Wide<T>* const part = found + 2 * (share.row * gridDim.y + blockIdx.y);
    part[0] = own.max, part[1] = own.sum;
}

// out = softmax(x), or its logarithm. With `safe` a row of only -inf gives zeros, else NaN. `found` is null if the row
// is one part.
template <typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS, 2)
softmax(const T* __restrict__ x, const Wide<T>* __restrict__ found, T* out, int logarithm, int safe, long long rows,
        long long cols) {
    constexpr int DEPTH = SOFTMAX_STRIPS;
    const RowShare<WIDTH> share(rows, cols);
    const long long turn = DEPTH * share.step, end = share.end();
    Strip<T, WIDTH> strips[DEPTH];
    MaxSum<Wide<T>> row = MaxSum<Wide<T>>::none();
    long long column = share.column;
    if (found != nullptr && share.row < rows) row.add_parts(found + 2 * share.row * gridDim.y, gridDim.y);
#pragma unroll 1
    for (; column < end; column += turn) {
        if (found != nullptr) continue;  // to the end of the row
        share.load(strips, x, column);
        row.add(strips, share, column);
    }
    row.join_row();
    const Wide<T> less = logarithm ? row.max : row.shift(), log_sum = log(row.sum);
    const Wide<T> inverse = safe && row.sum == 0 ? 0 : 1 / row.sum;
    bool loaded = found == nullptr;  // the last turn's strips
#pragma unroll 1
    for (column -= turn; column >= 0; column -= turn, loaded = false) {
        if (!loaded) share.load(strips, x, column);
#pragma unroll
        for (Strip<T, WIDTH>& strip : strips)
#pragma unroll
            for (int i = 0; i < WIDTH; ++i) {
                const Wide<T> below = widen(strip.at[i]) - less;
                strip.at[i] = static_cast<T>(logarithm ? below - log_sum : exp_for<T>(below) * inverse);
            }
        share.store(strips, out, column);
    }
}

// Adds to `sum` the products of the strips `gs` and `outs`; for log-softmax only the strips `gs`.
template <typename T, int WIDTH, int DEPTH>
__device__ Wide<T> added(Wide<T> sum, const Strip<T, WIDTH> (&gs)[DEPTH], const Strip<T, WIDTH> (&outs)[DEPTH],
                         bool logarithm) {
#pragma unroll
    for (int d = 0; d < DEPTH; ++d) {
        Wide<T> part = 0;
#pragma unroll
        for (int i = 0; i < WIDTH; ++i) part += widen(gs[d].at[i]) * (logarithm ? 1 : widen(outs[d].at[i]));
        sum += part;
    }
    return sum;
}

// found[r, part] = the sum of g * out over that part of row r; of g if `out` is null.
template <typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS, 2)
softmax_backward_parts(const T* __restrict__ g, const T* __restrict__ out, Wide<T>* found, long long rows,
                       long long cols) {
    constexpr int DEPTH = SOFTMAX_BACKWARD_STRIPS;
    const RowShare<WIDTH> share(rows, cols);
    const long long end = share.end();
    Wide<T> sum = 0;
#pragma unroll 1
    for (long long column = share.column; column < end; column += DEPTH * share.step) {
        Strip<T, WIDTH> gs[DEPTH], outs[DEPTH];
        share.load(gs, g, column);
        if (out != nullptr) share.load(outs, out, column);
        sum = added(sum, gs, outs, out == nullptr);
    }
    sum = sum_for_row(sum);
    if (threadIdx.x == 0 && share.row < rows) found[share.row * gridDim.y + blockIdx.y] = sum;
}

// dx = out * (g - sum(g * out)), for `out` from softmax; for its logarithm dx = g - exp(out) * sum(g). `dx` may be `g`.
// `found` is null if the row is one part.
template <typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS, 2)
softmax_backward(const T* g, const T* out, const Wide<T>* __restrict__ found, T* dx, int logarithm, long long rows,
                 long long cols) {
    constexpr int DEPTH = SOFTMAX_BACKWARD_STRIPS;
    const RowShare<WIDTH> share(rows, cols);
    const long long turn = DEPTH * share.step, end = share.end();
    Strip<T, WIDTH> gs[DEPTH], outs[DEPTH];
    Wide<T> sum = 0;
    long long column = share.column;
    if (found != nullptr && share.row < rows)
#pragma unroll 1
        for (unsigned part = threadIdx.x; part < gridDim.y; part += blockDim.x)
            sum += found[share.row * gridDim.y + part];
#pragma unroll 1
    for (; column < end; column += turn) {
        if (found != nullptr) continue;  // to the end of the row
        share.load(gs, g, column);
        share.load(outs, out, column);
        sum = added(sum, gs, outs, logarithm);
    }
    sum = sum_for_row(sum);
    bool loaded = found == nullptr;  // the last turn's strips
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
                gs[d].at[i] = static_cast<T>(logarithm ? h - exp_for<T>(result) * sum : result * (h - sum));
            }
        share.store(gs, dx, column);
    }
}
