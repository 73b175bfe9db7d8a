// Layer norm and RMS norm of the rows of a matrix, and their gradients.
//
// With normal = (x - mean) * rstd, out = normal * weight + bias. For an RMS norm `mean` is null and means zeros. A null
// weight means ones, a null bias zeros. The statistics have the type that T is computed in.
//
// Blocks loop over the rows. A thread holds its columns of a row in registers if a block has enough of them for the
// row; then every matrix is read once. Longer rows are read twice, the second time backwards, since the end may still
// be in the cache.
//
// If there are too few long rows to fill the GPU, several blocks share a row, in two launches, as in softmax.cu.
#include "include/rows.cuh"

// The number of strips of each matrix that a thread holds.
template <int WIDTH> constexpr int HELD = NORM_STRIPS[WIDTH];

// The moments of the elements that a thread has read: count, mean, and the sum of squared deviations from the mean. For
// an RMS norm the mean stays 0. Sums of squares about 0 would cancel if the mean is large.
template <typename Sum> struct Moments {
    Sum count = 0, mean = 0, squares = 0;

    template <typename T, int WIDTH, int DEPTH>
    __device__ void add(const Strip<T, WIDTH> (&strips)[DEPTH], const RowShare<WIDTH>& share, long long from,
                        bool centered) {
        Sum more = 0, total = 0, about = 0;
#pragma unroll
        for (int d = 0; d < DEPTH; ++d)
            if (share.has(from, d)) {
                more += WIDTH;
                for (int i = 0; i < WIDTH; ++i) total += widen(strips[d].at[i]);
            }
        const Sum middle = centered ? total / more : 0;
#pragma unroll
        for (int d = 0; d < DEPTH; ++d)
            if (share.has(from, d))
                for (int i = 0; i < WIDTH; ++i) {
                    const Sum away = widen(strips[d].at[i]) - middle;
                    about += away * away;
                }
        add({more, middle, about});
    }

    // Merges the moments of other elements, of which there is at least one.
    __device__ void add(const Moments& other) {
        const Sum shift = other.mean - mean, part = other.count / (count + other.count);
        squares += other.squares + shift * (count * part) * shift;  // in this order: 0 while count is 0
        mean += shift * part;
        count += other.count;
    }

    // Merges the moments of the parts of a row, three numbers each; the threads of the row divide them.
    __device__ void add_parts(const Sum* found, unsigned parts) {
#pragma unroll 1
        for (unsigned part = threadIdx.x; part < parts; part += blockDim.x) {
            const Sum* const other = found + 3 * part;
            if (other[0] > 0) add({other[0], other[1], other[2]});
        }
    }

    // The moments of all threads of the row, in every thread; `n` is the number of elements they have read, 1 for none.
    __device__ void join_row(Sum n, bool centered) {
        const Sum middle = centered ? sum_for_row(count * mean) / n : 0, shift = mean - middle;
        squares = sum_for_row(squares + count * shift * shift);
        mean = middle;
    }
};

// A thread's strips of a row, of the weight and of the bias.
template <typename T, int WIDTH> struct Normalised {
    static constexpr int DEPTH = HELD<WIDTH>;
    Strip<T, WIDTH> strips[DEPTH], weights[DEPTH], biases[DEPTH];

    __device__ void load_parameters(const RowShare<WIDTH>& share, const T* weight, const T* bias, long long from) {
        share.load_vector(weights, weight, from, 1.0f);
        share.load_vector(biases, bias, from, 0.0f);
    }

    __device__ void store(const RowShare<WIDTH>& share, T* out, long long from, Wide<T> middle, Wide<T> scale) {
#pragma unroll
        for (int d = 0; d < DEPTH; ++d)
            for (int i = 0; i < WIDTH; ++i) {
                const Wide<T> normal = (widen(strips[d].at[i]) - middle) * scale;
                strips[d].at[i] = static_cast<T>(normal * widen(weights[d].at[i]) + widen(biases[d].at[i]));
            }
        share.store(strips, out, from);
    }
};

// found[r, part] = the moments of that part of row r.
template <typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS, 2)
layer_norm_parts(const T* __restrict__ x, Wide<T>* found, int centered, long long rows, long long cols) {
    const RowShare<WIDTH> share(rows, cols);
    const long long end = share.end();
    Moments<Wide<T>> seen;
#pragma unroll 1
    for (long long from = share.column; from < end; from += HELD<WIDTH> * share.step) {
        Strip<T, WIDTH> strips[HELD<WIDTH>];
        share.load(strips, x, from);
        seen.add(strips, share, from, centered);
    }
    const Wide<T> count = sum_for_row(seen.count);
    seen.join_row(max(count, Wide<T>(1)), centered);
    if (threadIdx.x != 0 || share.row >= rows) return;
    Wide<T>* const part = found + 3 * (share.row * gridDim.y + blockIdx.y);
    part[0] = count, part[1] = seen.mean, part[2] = seen.squares;
}

// `found` is null if the row is one part.
template <typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS, 2)
layer_norm(const T* __restrict__ x, const T* __restrict__ weight, const T* __restrict__ bias,
           const Wide<T>* __restrict__ found, T* __restrict__ out, Wide<T>* __restrict__ mean,
           Wide<T>* __restrict__ rstd, Wide<T> eps, long long rows, long long cols) {
    using Sum = Wide<T>;
    RowShare<WIDTH> share(rows, cols);
    const long long turn = HELD<WIDTH> * share.step;
    const bool held = cols <= turn;
    Normalised<T, WIDTH> own;
    if (held) own.load_parameters(share, weight, bias, share.column);
#pragma unroll 1
    for (; share.any(); share.next()) {
        const long long end = share.end();
        long long from = share.column;
        bool loaded = found == nullptr;  // the last turn's strips
        Moments<Sum> seen;
        if (found != nullptr && share.row < rows) seen.add_parts(found + 3 * share.row * gridDim.y, gridDim.y);
#pragma unroll 1
        for (; from < end; from += turn) {
            if (found != nullptr) continue;  // to the end of the row
            share.load(own.strips, x, from);
            seen.add(own.strips, share, from, mean != nullptr);
        }
        const Sum n = static_cast<Sum>(max(cols, 1LL));
        seen.join_row(n, mean != nullptr);
        const Sum middle = seen.mean, scale = 1 / sqrt(seen.squares / n + eps);
        if (threadIdx.x == 0 && blockIdx.y == 0 && share.row < rows) {
            if (mean != nullptr) mean[share.row] = middle;
            rstd[share.row] = scale;
        }
#pragma unroll 1
        for (from -= turn; from >= 0; from -= turn, loaded = false) {
            if (!loaded) share.load(own.strips, x, from);
            if (!held) own.load_parameters(share, weight, bias, from);
            own.store(share, out, from, middle, scale);
        }
    }
}

// Sums of g * normal and of g over all rows, written to dweight and dbias, which may be null; or, in a grid of several
// parts, to this part's row of `partials`, which a second launch sums. With both, the biases of a row begin after the
// weights at a multiple of 16 bytes of T, with zeros between. A barrier must lie between two calls, and all threads of
// the block must call it.
template <int WIDTH, typename Sum, typename T>
__device__ void store_parameters(Sum (&weights)[WIDTH], Sum (&biases)[WIDTH], long long column, long long cols,
                                 unsigned part, unsigned parts, T* dweight, T* dbias, Sum* partials) {
    if (dweight != nullptr) add_rows_of_block(weights);
    __syncthreads();
    if (dbias != nullptr) add_rows_of_block(biases);
    if (threadIdx.y != 0 || column >= cols) return;
    const bool both = dweight != nullptr && dbias != nullptr;
    constexpr long long LINE = 16 / sizeof(T);
    const long long second = !both ? 0 : WIDTH > 1 ? cols : (cols + LINE - 1) / LINE * LINE;
    Sum* const row = partials + part * (second + cols) + column;
    if (WIDTH == 1 && parts > 1 && column + 1 == cols)
        for (int i = 1; i <= second - cols; ++i) row[i] = 0;
    for (int i = 0; i < WIDTH; ++i) {
        if (parts > 1) {
            if (dweight != nullptr) row[i] = weights[i];
            if (dbias != nullptr) row[second + i] = biases[i];
        } else {
            if (dweight != nullptr) dweight[column + i] = static_cast<T>(weights[i]);
            if (dbias != nullptr) dbias[column + i] = static_cast<T>(biases[i]);
        }
    }
}

// A thread's strips of g, x and the weight, and its sums of g * normal and of g over the rows.
template <typename T, int WIDTH> struct Gradient {
    using Sum = Wide<T>;
    static constexpr int DEPTH = HELD<WIDTH>;
    Strip<T, WIDTH> gs[DEPTH], strips[DEPTH], weights[DEPTH];
    Sum weight_sums[DEPTH][WIDTH] = {}, bias_sums[DEPTH][WIDTH] = {};

    __device__ void load(const RowShare<WIDTH>& share, const T* g, const T* x, long long from) {
        share.load(gs, g, from);
        share.load(strips, x, from);
    }

    // Adds to the sums over rows, and to the sums of h = g * weight and of h * normal along the row.
    __device__ void add(const RowShare<WIDTH>& share, long long from, Sum middle, Sum scale, Sum& sum, Sum& along) {
#pragma unroll
        for (int d = 0; d < DEPTH; ++d)
            if (share.has(from, d))
                for (int i = 0; i < WIDTH; ++i) {
                    const Sum given = widen(gs[d].at[i]), normal = (widen(strips[d].at[i]) - middle) * scale;
                    sum += given * widen(weights[d].at[i]);
                    along += given * widen(weights[d].at[i]) * normal;
                    weight_sums[d][i] += given * normal;
                    bias_sums[d][i] += given;
                }
    }

    __device__ void store(const RowShare<WIDTH>& share, T* dx, long long from, Sum middle, Sum scale, Sum constant,
                          Sum slope) {
#pragma unroll
        for (int d = 0; d < DEPTH; ++d)
            for (int i = 0; i < WIDTH; ++i) {
                const Sum h = widen(gs[d].at[i]) * widen(weights[d].at[i]);
                const Sum normal = (widen(strips[d].at[i]) - middle) * scale;
                strips[d].at[i] = static_cast<T>(scale * (h - constant - normal * slope));
            }
        share.store(strips, dx, from);
    }

    __device__ void store_sums(const RowShare<WIDTH>& share, T* dweight, T* dbias, Sum* partials) {
#pragma unroll
        for (int d = 0; d < DEPTH; ++d) {
            if (d * share.step >= share.cols) break;
            __syncthreads();
            store_parameters(weight_sums[d], bias_sums[d], share.column + d * share.step, share.cols, blockIdx.x,
                             gridDim.x, dweight, dbias, partials);
        }
    }
};

// found[r, part] = the sums of h = g * weight and of h * normal over that part of row r.
template <typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS, 2)
layer_norm_backward_parts(const T* __restrict__ g, const T* __restrict__ x, const T* __restrict__ weight,
                          const Wide<T>* __restrict__ mean, const Wide<T>* __restrict__ rstd, Wide<T>* found,
                          long long rows, long long cols) {
    using Sum = Wide<T>;
    const RowShare<WIDTH> share(rows, cols);
    const bool there = share.row < rows;
    const Sum middle = there && mean != nullptr ? mean[share.row] : 0, scale = there ? rstd[share.row] : 0;
    const long long end = share.end();
    Gradient<T, WIDTH> own;
    Sum sum = 0, along = 0;
#pragma unroll 1
    for (long long from = share.column; from < end; from += HELD<WIDTH> * share.step) {
        own.load(share, g, x, from);
        share.load_vector(own.weights, weight, from, 1.0f);
        own.add(share, from, middle, scale, sum, along);
    }
    sum = sum_for_row(sum), along = sum_for_row(along);
    if (threadIdx.x != 0 || !there) return;
    Sum* const part = found + 2 * (share.row * gridDim.y + blockIdx.y);
    part[0] = sum, part[1] = along;
}

// With h = g * weight, dx = rstd * (h - mean(h) - normal * mean(h * normal)), with means along the row; for an RMS norm
// without mean(h). dweight and dbias as above, in the same pass; they must be null if a row is not held in registers.
// `found` is null if the row is one part.
template <typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS, 2)
layer_norm_backward(const T* __restrict__ g, const T* __restrict__ x, const T* __restrict__ weight,
                    const Wide<T>* __restrict__ mean, const Wide<T>* __restrict__ rstd,
                    const Wide<T>* __restrict__ found, T* __restrict__ dx, T* __restrict__ dweight,
                    T* __restrict__ dbias, Wide<T>* __restrict__ partials, long long rows, long long cols) {
    using Sum = Wide<T>;
    RowShare<WIDTH> share(rows, cols);
    const long long turn = HELD<WIDTH> * share.step;
    const bool held = cols <= turn;
    Gradient<T, WIDTH> own;
    if (held) share.load_vector(own.weights, weight, share.column, 1.0f);
#pragma unroll 1
    for (; share.any(); share.next()) {
        const bool there = share.row < rows;
        const Sum middle = there && mean != nullptr ? mean[share.row] : 0, scale = there ? rstd[share.row] : 0;
        const long long end = share.end();
        long long from = share.column;
        bool loaded = found == nullptr;  // the last turn's strips
        Sum sum = 0, along = 0;
        if (found != nullptr && there)
#pragma unroll 1
            for (unsigned part = threadIdx.x; part < gridDim.y; part += blockDim.x) {
                sum += found[2 * (share.row * gridDim.y + part)];
                along += found[2 * (share.row * gridDim.y + part) + 1];
            }
#pragma unroll 1
        for (; from < end; from += turn) {
            if (found != nullptr) continue;  // to the end of the row
            own.load(share, g, x, from);
            if (!held) share.load_vector(own.weights, weight, from, 1.0f);
            own.add(share, from, middle, scale, sum, along);
        }
        const Sum n = static_cast<Sum>(max(cols, 1LL));
        const Sum constant = mean == nullptr ? 0 : sum_for_row(sum) / n, slope = sum_for_row(along) / n;
#pragma unroll 1
        for (from -= turn; from >= 0; from -= turn, loaded = false) {
            if (!loaded) {
                own.load(share, g, x, from);
                share.load_vector(own.weights, weight, from, 1.0f);
            }
            own.store(share, dx, from, middle, scale, constant, slope);
        }
    }
    if (dweight != nullptr || dbias != nullptr) own.store_sums(share, dweight, dbias, partials);
}

// dweight and dbias only. There are no sums along rows: threads process columns, whatever the length of a row.
template <typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS, 2)
layer_norm_parameters(const T* __restrict__ g, const T* __restrict__ x, const Wide<T>* __restrict__ mean,
                      const Wide<T>* __restrict__ rstd, T* __restrict__ dweight, T* __restrict__ dbias,
                      Wide<T>* __restrict__ partials, long long rows, long long cols) {
    constexpr int DEPTH = 2;
    using Sum = Wide<T>;
    const Share<WIDTH> share(rows, cols);
    Sum weights[WIDTH] = {}, biases[WIDTH] = {};
    if (share.column < cols)
#pragma unroll 1
        for (long long top = share.row; top < rows; top += DEPTH * share.step) {
            Strip<T, WIDTH> gs[DEPTH], strips[DEPTH];
            share.load(gs, g, top);
            share.load(strips, x, top);
#pragma unroll
            for (int d = 0; d < DEPTH; ++d) {
                const long long row = top + d * share.step;
                if (row >= rows) break;
                const Sum middle = mean == nullptr ? 0 : mean[row], scale = rstd[row];
                for (int i = 0; i < WIDTH; ++i) {
                    const Sum given = widen(gs[d].at[i]);
                    weights[i] += given * ((widen(strips[d].at[i]) - middle) * scale);
                    biases[i] += given;
                }
            }
        }
    store_parameters(weights, biases, share.column, cols, blockIdx.y, gridDim.y, dweight, dbias, partials);
}
