// Quantization with a scale per row of a matrix, and dequantization; an array with one scale is a matrix of one row.
//
// Two blocks per multiprocessor allow 128 registers per thread: see bias_activation.cu.
#include "include/formats.cuh"
#include "include/rows.cuh"

template <typename T, int WIDTH, int DEPTH> __device__ Wide<T> largest_of(const Strip<T, WIDTH> (&strips)[DEPTH]) {
    Wide<T> largest = 0;
#pragma unroll
    for (const Strip<T, WIDTH>& strip : strips)
#pragma unroll
        for (int i = 0; i < WIDTH; ++i) largest = max(largest, finite_size(widen(strip.at[i])));
    return largest;
}

// Writes the codes of DEPTH strips of a row.
template <typename T, typename F, int WIDTH, int DEPTH>
__device__ void store_codes(const Strip<T, WIDTH> (&strips)[DEPTH], const RowShare<WIDTH>& share,
                            const Scaling<T, F>& scaling, typename F::Code* codes, long long from) {
#pragma unroll
    for (int d = 0; d < DEPTH; ++d) {
        if (!share.has(from, d)) continue;
        Strip<typename F::Code, WIDTH> out;
#pragma unroll
        for (int i = 0; i < WIDTH; ++i) out.at[i] = scaling.encode(strips[d].at[i]);
        out.store(codes + share.row * share.cols + from + d * share.step);
    }
}

// largest[r, part] = the largest finite absolute value of that part of row r.
template <typename T, int WIDTH>
__global__ void __launch_bounds__(THREADS, 2)
absmax(const T* __restrict__ x, Wide<T>* largest, long long rows, long long cols) {
    constexpr int DEPTH = 4;
    const RowShare<WIDTH> share(rows, cols);
    Wide<T> found = 0;
    if (share.row < rows)
#pragma unroll 1
        for (long long column = share.column; column < cols; column += DEPTH * share.step) {
            Strip<T, WIDTH> strips[DEPTH];
            share.load(strips, x, column);
            found = max(found, largest_of(strips));
        }
    found = joined(found, blockDim.x, Larger());
    if (threadIdx.x == 0 && share.row < rows) largest[share.row * gridDim.y + blockIdx.y] = found;
}

// The codes of x and the scale of every row, given largest[r, part] from a launch of absmax with the same grid; if
// `largest` is null, the row must fit in the registers of its threads. A null scale means 1, for rows of any length.
template <typename T, typename F, int WIDTH>
__global__ void __launch_bounds__(THREADS, 2)
quantize(const T* __restrict__ x, const Wide<T>* largest, typename F::Code* codes, Wide<T>* scale, long long rows,
         long long cols) {
    constexpr int DEPTH = 4;
    const RowShare<WIDTH> share(rows, cols);
    const bool scaled = scale != nullptr, held = scaled && largest == nullptr;
    Strip<T, WIDTH> row[QUANTIZE_STRIPS];
    Wide<T> found = scaled ? 0 : static_cast<Wide<T>>(F::LARGEST);
    if (held && share.row < rows) {
        share.load(row, x, share.column);
        found = largest_of(row);
    } else if (scaled && share.row < rows) {
        for (unsigned part = threadIdx.x; part < gridDim.y; part += blockDim.x)
            found = max(found, largest[share.row * gridDim.y + part]);
    }
    const Scaling<T, F> scaling(joined(found, blockDim.x, Larger()));
    if (share.row >= rows) return;
    if (scaled && threadIdx.x == 0 && blockIdx.y == 0) scale[share.row] = scaling.factor;
    if (held) return store_codes(row, share, scaling, codes, share.column);
#pragma unroll 1
    for (long long column = share.column; column < cols; column += DEPTH * share.step) {
        Strip<T, WIDTH> strips[DEPTH];
        share.load(strips, x, column);
        store_codes(strips, share, scaling, codes, column);
    }
}

// out[r, c] = codes[r, c] * scale[r]; a null scale means 1.
template <typename T, typename F, int WIDTH>
__global__ void __launch_bounds__(THREADS, 2)
dequantize(const typename F::Code* __restrict__ codes, const Wide<T>* scale, T* out, long long rows, long long cols) {
    constexpr int DEPTH = 2;
    const Share<WIDTH> share(rows, cols);
    if (share.column >= cols) return;
#pragma unroll 1
    for (long long row = share.row; row < rows; row += DEPTH * share.step) {
        Strip<typename F::Code, WIDTH> strips[DEPTH];
        share.load(strips, codes, row);
        Strip<T, WIDTH> values[DEPTH];
#pragma unroll
        for (int d = 0; d < DEPTH; ++d) {
            const long long own = row + d * share.step;
            const Wide<T> factor = scale == nullptr || own >= rows ? 1 : scale[own];
#pragma unroll
            for (int i = 0; i < WIDTH; ++i)
                values[d].at[i] = static_cast<T>(static_cast<Wide<T>>(F::decode(strips[d].at[i])) * factor);
        }
        share.store(values, out, row);
    }
}
