// A statistic of every row of a matrix, in one launch: for rows of which a thread reads a few strips.
#include "include/rows.cuh"

// A statistic has
//   term(x)          what an element adds to the sum
//   result(sum, n)   the statistic of a row of n elements
template <typename W> struct Mean {
    static __device__ W term(W x) { return x; }
    static __device__ W result(W sum, W n) { return sum / n; }
};

template <typename W> struct Norm {
    static __device__ W term(W x) { return x * x; }
    static __device__ W result(W sum, W) { return sqrt(sum); }
};

template <typename W> struct NanSum {
    static __device__ W term(W x) { return isnan(x) ? 0 : x; }
    static __device__ W result(W sum, W) { return sum; }
};

template <template <typename> class Statistic, typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS)
row_statistic(const T* __restrict__ x, T* out, long long rows, long long cols) {
    constexpr int DEPTH = 4;
    using Sum = Wide<T>;
    const RowShare<WIDTH> share(rows, cols);
    Sum sums[WIDTH] = {}, sum = 0;
    const long long end = share.end();
#pragma unroll 1
    for (long long from = share.column; from < end; from += DEPTH * share.step) {
        Strip<T, WIDTH> strips[DEPTH];
        share.load(strips, x, from);
#pragma unroll
        for (const Strip<T, WIDTH>& strip : strips)  // zeros beyond the row add nothing
            for (int i = 0; i < WIDTH; ++i) sums[i] += Statistic<Sum>::term(widen(strip.at[i]));
    }
    for (int i = 0; i < WIDTH; ++i) sum += sums[i];
    sum = sum_for_row(sum);
    if (threadIdx.x != 0 || share.row >= rows) return;
    out[share.row] = static_cast<T>(Statistic<Sum>::result(sum, static_cast<Sum>(cols)));
}

// out = the sum of squared deviations from the mean over `divisor`, or the square root of that. Sums of squares about 0
// would cancel where the mean is large. `means` may be null. The second pass reads the row from the cache.
template <typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS, 2)
row_variance(const T* __restrict__ x, T* out, T* means, Wide<T> divisor, int root, long long rows, long long cols) {
    constexpr int DEPTH = 4;
    using Sum = Wide<T>;
    const RowShare<WIDTH> share(rows, cols);
    const long long end = share.end(), turn = DEPTH * share.step;
    Sum sum = 0;
#pragma unroll 1
    for (long long from = share.column; from < end; from += turn) {
        Strip<T, WIDTH> strips[DEPTH];
        share.load(strips, x, from);
#pragma unroll
        for (const Strip<T, WIDTH>& strip : strips)
            for (int i = 0; i < WIDTH; ++i) sum += widen(strip.at[i]);
    }
    const Sum n = static_cast<Sum>(cols), middle = sum_for_row(sum) / n;
    Sum squares = 0, rest = 0;
#pragma unroll 1
    for (long long from = share.column; from < end; from += turn) {
        Strip<T, WIDTH> strips[DEPTH];
        share.load(strips, x, from);
#pragma unroll
        for (int d = 0; d < DEPTH; ++d)
            if (share.has(from, d))
                for (int i = 0; i < WIDTH; ++i) {
                    const Sum away = widen(strips[d].at[i]) - middle;
                    squares += away * away;
                    rest += away;
                }
    }
    squares = sum_for_row(squares), rest = sum_for_row(rest);
    if (threadIdx.x != 0 || share.row >= rows) return;
    squares -= rest * rest / n;  // the rounding error of the mean
    const Sum variance = (squares < 0 ? 0 : squares) / divisor;
    out[share.row] = static_cast<T>(root ? sqrt(variance) : variance);
    if (means != nullptr) means[share.row] = static_cast<T>(middle);
}
