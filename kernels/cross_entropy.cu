// Cross entropy of logits (rows, cols) and class indices (rows), and its gradient, without storing probabilities.
//
// 1. `cross_entropy` reads the logits once, and saves the log-sum-exp of each row.
// 2. A block processes several rows and sums their losses. Several blocks write partial sums for
//    `cross_entropy_total`; a single block writes the result.
// 3. If there are too few rows to fill the GPU, several blocks share a row; `cross_entropy_join` combines their results
//    and does the rest of 1 and 2.
// 4. `nll` does the same for log-probabilities; it reads one number per row.
// 5. `cross_entropy_backward` reads the logits again and recomputes the softmax.
// 6. `cross_entropy_step` is all of a training step for few logits: a bias, the loss, its gradient, and the column sums
//    of that, which are the gradient of the bias. Each has the bits of the kernel that computes it alone.
//
// Rows of class ignore_index are skipped. Any other class outside [0, cols) makes the loss and the row's gradient NaN;
// the kernels then read at the nearest valid class. A null weight means ones.
#include "include/max_sum.cuh"

__device__ inline float no_class() { return __int_as_float(0x7fc00000); }

// The reduction: the rows' losses, their sum, or the sum divided by the sum of the weights.
enum Reduction { NONE, SUM, MEAN };

// The elements of `vector` from `column` on, by 16-byte loads.
template <int WIDTH, typename W> __device__ Strip<W, WIDTH> load_wide(const W* vector, long long column) {
    constexpr int N = WIDTH < 16 / sizeof(W) ? WIDTH : 16 / sizeof(W);
    Strip<W, WIDTH> strip;
#pragma unroll
    for (int i = 0; i < WIDTH; i += N) {
        const Strip<W, N> piece = Strip<W, N>::load(vector + column + i);
#pragma unroll
        for (int j = 0; j < N; ++j) strip.at[i + j] = piece.at[j];
    }
    return strip;
}

// The result of a pass along a row; the last two, sums of weight * x and of weight, are for label smoothing only.
template <typename W> struct Findings {
    MaxSum<W> row;
    W weighted = 0, mass = 0;

    template <int WIDTH, typename T>
    __device__ void add_weighted(const Strip<T, WIDTH>& strip, const W* weight, long long column) {
        Strip<W, WIDTH> weights;
        if (weight != nullptr) weights = load_wide<WIDTH>(weight, column);
#pragma unroll
        for (int i = 0; i < WIDTH; ++i) {
            const W w = weight == nullptr ? 1 : weights.at[i];
            weighted += w * widen(strip.at[i]);
            mass += w;
        }
    }

    __device__ void join(bool smooth) {
        row.join_row();
        if (!smooth) return;
        weighted = sum_for_row(weighted);
        mass = sum_for_row(mass);
    }
};

// Writes the result from the sum of all rows' losses, and `factor`, the factor of the gradients of the rows' losses.
template <typename T>
__device__ void finish(Wide<T> sum, Wide<T> weights, T* out, Wide<T>* factor, int reduction) {
    if (threadIdx.x != 0 || threadIdx.y != 0) return;
    const Wide<T> divisor = reduction == MEAN ? weights : 1;
    *factor = 1 / divisor;
    if (reduction != NONE) *out = static_cast<T>(sum / divisor);
}

// The losses and weights of the rows that a thread has processed.
template <typename T> struct Losses {
    const T* x;
    const long long* target;
    const Wide<T>* weight;
    T* out;
    Wide<T> *lse, *rest, *counts;
    const long long ignore_index, cols;
    const Wide<T> smoothing;
    const int reduction;
    Wide<T> sum = 0, weights = 0;

    // For one row. lse, rest and counts (the factor of the row's softmax in the gradient) may be null. `rest` is the
    // rounding error of lse, without which the softmax of large logits would be wrong.
    __device__ void add(const Findings<Wide<T>>& found, long long row) {
        const long long named = target[row], place = min(max(named, 0ll), cols - 1);
        const Wide<T> log_sum = log(found.row.sum), share = smoothing / static_cast<Wide<T>>(cols);
        Wide<T> loss = 0, count = 0;
        if (named != ignore_index) {
            const Wide<T> own = weight == nullptr ? 1 : weight[place];
            count = (1 - smoothing) * own;
            loss = count * (found.row.max - widen(x[row * cols + place]) + log_sum);
            if (smoothing != 0) {
                loss += share * (found.mass * (found.row.max + log_sum) - found.weighted);
                count += share * found.mass;
            }
            if (named != place) loss = count = no_class();
            sum += loss;
            weights += own;
        }
        if (lse != nullptr) {
            const Wide<T> rounded = found.row.max + log_sum;
            lse[row] = rounded;
            rest[row] = isfinite(rounded) ? found.row.max - rounded + log_sum : 0;
        }
        if (counts != nullptr) counts[row] = count;
        if (reduction == NONE) out[row] = static_cast<T>(loss);
    }

    // The block's output for all its rows: the result if it is the only block, else partial sums.
    __device__ void leave(Wide<T>* factor, Wide<T>* partials) {
        if (reduction != NONE) {
            sum = joined(sum, THREADS, Plus());
            weights = joined(weights, THREADS, Plus());
        }
        if (gridDim.x == 1 || reduction == NONE) {
            if (blockIdx.x == 0) finish(sum, weights, out, factor, reduction);
        } else if (threadIdx.x == 0 && threadIdx.y == 0) {
            partials[2 * blockIdx.x] = sum;
            partials[2 * blockIdx.x + 1] = weights;
        }
    }
};

// What a thread finds in its share of a row, up to column `end`, joined with the other threads of the row.
template <typename T, int WIDTH>
__device__ Findings<Wide<T>> found_in_row(const RowShare<WIDTH>& share, const T* x, const Wide<T>* weight, bool smooth,
                                          long long end) {
    constexpr int DEPTH = 4;
    Findings<Wide<T>> found{MaxSum<Wide<T>>::none()};
#pragma unroll 1
    for (long long column = share.column; column < end; column += DEPTH * share.step) {
        Strip<T, WIDTH> strips[DEPTH];
        share.load(strips, x, column);
        found.row.add(strips, share, column);
        if (smooth)
#pragma unroll
            for (int d = 0; d < DEPTH; ++d)
                if (share.has(column, d)) found.add_weighted(strips[d], weight, column + d * share.step);
    }
    found.join(smooth);
    return found;
}

template <typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS, 2)
cross_entropy(const T* __restrict__ x, const long long* target, const Wide<T>* __restrict__ weight, T* out, Wide<T>* lse,
              Wide<T>* rest, Wide<T>* counts, Wide<T>* factor, Wide<T>* partials, long long ignore_index,
              Wide<T> smoothing, int reduction, long long rows, long long cols) {
    RowShare<WIDTH> share(rows, cols);
    Losses<T> losses{x, target, weight, out, lse, rest, counts, ignore_index, cols, smoothing, reduction};
    for (; share.any(); share.next()) {
        const Findings<Wide<T>> found = found_in_row(share, x, weight, smoothing != 0, share.end());
        if (threadIdx.x != 0 || share.row >= rows) continue;
        if (gridDim.y == 1) losses.add(found, share.row);
        else {
            Wide<T>* part = partials + 4 * (share.row * gridDim.y + blockIdx.y);
            part[0] = found.row.max, part[1] = found.row.sum, part[2] = found.weighted, part[3] = found.mass;
        }
    }
    if (gridDim.y == 1) losses.leave(factor, partials);
}

// The same for x that are log-probabilities.
template <typename T>
__global__ void __launch_bounds__(THREADS, 2)
nll(const T* x, const long long* target, const Wide<T>* weight, T* out, Wide<T>* factor, Wide<T>* partials,
    long long ignore_index, int reduction, long long rows, long long cols) {
    Losses<T> losses{x, target, weight, out, nullptr, nullptr, nullptr, ignore_index, cols, 0, reduction};
    const long long step = static_cast<long long>(gridDim.x) * THREADS;
    for (long long row = static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x; row < rows; row += step)
        losses.add({{0, 1}}, row);
    losses.leave(factor, partials);
}

// Reduces the partial sums of `blocks` blocks.
template <typename T>
__global__ void __launch_bounds__(THREADS, 2)
cross_entropy_total(const Wide<T>* partials, T* out, Wide<T>* factor, int reduction, int blocks) {
    Wide<T> sum = 0, weights = 0;
#pragma unroll 4
    for (int block = threadIdx.x; block < blocks; block += THREADS) {
        sum += partials[2 * block];
        weights += partials[2 * block + 1];
    }
    finish(joined(sum, THREADS, Plus()), joined(weights, THREADS, Plus()), out, factor, reduction);
}

// Combines the results of `parts` parts of each row; one block.
template <typename T>
__global__ void __launch_bounds__(THREADS, 2)
cross_entropy_join(const T* x, const long long* target, const Wide<T>* weight, const Wide<T>* partials, T* out,
                   Wide<T>* lse, Wide<T>* rest, Wide<T>* counts, Wide<T>* factor, long long ignore_index,
                   Wide<T> smoothing, int reduction, int parts, long long rows, long long cols) {
    Losses<T> losses{x, target, weight, out, lse, rest, counts, ignore_index, cols, smoothing, reduction};
    for (long long top = 0; top < rows; top += blockDim.y) {
        const long long row = top + threadIdx.y;
        Findings<Wide<T>> found{MaxSum<Wide<T>>::none()};
        for (int part = threadIdx.x; row < rows && part < parts; part += blockDim.x) {
            const Wide<T>* one = partials + 4 * (row * parts + part);
            found.row.add({one[0], one[1]});
            found.weighted += one[2];
            found.mass += one[3];
        }
        found.join(smoothing != 0);
        if (threadIdx.x == 0 && row < rows) losses.add(found, row);
    }
    losses.leave(factor, nullptr);
}

// dx of a row = product * (counts * softmax(x) - the smoothed target), for the product of the gradient of the loss and
// the factor. Without x, lse, rest and counts, the gradient of `nll`, which has no softmax. `dx` may be `x`.
template <typename T, int WIDTH>
__device__ void gradient_of_row(const RowShare<WIDTH>& share, Wide<T> product, const T* x, const long long* target,
                                const Wide<T>* weight, const Wide<T>* lse, const Wide<T>* rest, const Wide<T>* counts,
                                T* dx, long long ignore_index, Wide<T> smoothing) {
    constexpr int DEPTH = 4;
    const long long cols = share.cols, named = target[share.row], place = min(max(named, 0ll), cols - 1);
    const Wide<T> scale = named == ignore_index ? 0 : product;  // if all rows are ignored the product is inf
    const Wide<T> less = x == nullptr ? 0 : lse[share.row], still = x == nullptr ? 0 : rest[share.row];
    const Wide<T> certain = x == nullptr ? 0 : scale * counts[share.row];
    const Wide<T> of_all = named != place && named != ignore_index ? no_class() : certain;
    const Wide<T> of_target = scale * (1 - smoothing) * (weight == nullptr ? 1 : weight[place]);
    const Wide<T> of_each = smoothing / static_cast<Wide<T>>(cols) * scale;
#pragma unroll 1
    for (long long column = share.column; column < cols; column += DEPTH * share.step) {
        Strip<T, WIDTH> strips[DEPTH] = {};
        if (x != nullptr) share.load(strips, x, column);
#pragma unroll
        for (int d = 0; d < DEPTH; ++d) {
            const long long first = column + d * share.step;
            Strip<Wide<T>, WIDTH> weights;
#pragma unroll
            for (int i = 0; i < WIDTH; ++i) weights.at[i] = 1;
            if (smoothing != 0 && weight != nullptr && first < cols) weights = load_wide<WIDTH>(weight, first);
#pragma unroll
            for (int i = 0; i < WIDTH; ++i) {
                Wide<T> value = of_all * exp_for<T>(widen(strips[d].at[i]) - less - still);
                if (smoothing != 0) value -= of_each * weights.at[i];
                if (first + i == place) value -= of_target;
                strips[d].at[i] = static_cast<T>(value);
            }
        }
        share.store(strips, dx, column);
    }
}

// The gradient of either loss; g and factor are one number, or one per row, and a null factor means 1.
template <typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS, 2)
cross_entropy_backward(const T* g, const T* x, const long long* target, const Wide<T>* weight, const Wide<T>* lse,
                       const Wide<T>* rest, const Wide<T>* counts, const Wide<T>* factor, T* dx, int g_by_row, int factor_by_row,
                       long long ignore_index, Wide<T> smoothing, long long rows, long long cols) {
    const RowShare<WIDTH> share(rows, cols);
    if (share.row >= rows) return;
    const Wide<T> divided = factor == nullptr ? 1 : factor[factor_by_row ? share.row : 0];
    const Wide<T> product = widen(g[g_by_row ? share.row : 0]) * divided;
    gradient_of_row(share, product, x, target, weight, lse, rest, counts, dx, ignore_index, smoothing);
}

// The sums of the columns of a matrix that one block has written, in the order of `column_sum`: as if a row of the block
// were `across` threads. A barrier must lie before it.
template <int WIDTH, typename T>
__device__ void sum_columns_of_block(const T* x, T* sums, unsigned across, long long rows, long long cols) {
    const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x, deep = THREADS / across;
    for (long long from = 0; from < cols; from += across * WIDTH) {
        const long long column = from + WIDTH * (thread % across);
        Wide<T> found[WIDTH] = {};
        if (column < cols)
#pragma unroll 1
            for (long long row = thread / across; row < rows; row += deep) {
                const Strip<T, WIDTH> strip = Strip<T, WIDTH>::load(x + row * cols + column);
                for (int i = 0; i < WIDTH; ++i) found[i] += widen(strip.at[i]);
            }
        add_rows_of_block(found, across);
        if (thread < across && column < cols)
            for (int i = 0; i < WIDTH; ++i) sums[column + i] = static_cast<T>(found[i]);
        __syncthreads();
    }
}

// One block: the loss of z + bias, and its gradient dx for the gradient g of the loss; the column sums of dx, unless
// `sums` is null. `x` gets z + bias; without a bias it is not written. `kept` has room for lse, rest, counts and factor.
// x may be z, and dx may be either; out may be g, and sums may be bias or weight.
template <typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS, 1)
cross_entropy_step(const T* z, const T* bias, const long long* target, const Wide<T>* weight, const T* g, T* x, T* out,
                   T* dx, T* sums, Wide<T>* kept, long long ignore_index, Wide<T> smoothing, int reduction, int across,
                   long long rows, long long cols) {
    const Wide<T> upstream = widen(g[0]);
    Wide<T> *lse = kept, *rest = kept + rows, *counts = kept + 2 * rows, *factor = kept + 3 * rows;
    if (bias != nullptr) {
        for (RowShare<WIDTH> share(rows, cols); share.any(); share.next())
#pragma unroll 1
            for (long long column = share.column; column < share.end(); column += share.step) {
                Strip<T, WIDTH> strips[1], addends[1];
                share.load(strips, z, column);
                share.load_vector(addends, bias, column, 0);
#pragma unroll
                for (int i = 0; i < WIDTH; ++i)
                    strips[0].at[i] = static_cast<T>(widen(strips[0].at[i]) + widen(addends[0].at[i]));
                share.store(strips, x, column);
            }
        __syncthreads();
    }
    const T* logits = bias == nullptr ? z : x;
    Losses<T> losses{logits, target, weight, out, lse, rest, counts, ignore_index, cols, smoothing, reduction};
    for (RowShare<WIDTH> share(rows, cols); share.any(); share.next()) {
        const Findings<Wide<T>> found = found_in_row(share, logits, weight, smoothing != 0, share.end());
        if (threadIdx.x == 0 && share.row < rows) losses.add(found, share.row);
    }
    losses.leave(factor, nullptr);
    __syncthreads();
    for (RowShare<WIDTH> share(rows, cols); share.any(); share.next())
        if (share.row < rows)
            gradient_of_row(share, upstream * *factor, logits, target, weight, lse, rest, counts, dx, ignore_index,
                            smoothing);
    if (sums == nullptr) return;
    __syncthreads();
    sum_columns_of_block<WIDTH>(dx, sums, static_cast<unsigned>(across), rows, cols);
}
